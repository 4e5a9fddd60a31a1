import { Test } from '@nestjs/testing';
import { ExhibitorModule, ExhibitorsService, isExhibitorError } from 'nestjs-exhibitor';
import { diagnose } from 'nestjs-exhibitor/doctor';
import { ExhibitorSandbox } from 'nestjs-exhibitor/testing';
import { firstValueFrom } from 'rxjs';
import { AppModule, BoothController } from './app.module';

const SECRET = 'a cookie secret of 32 characters or more';

describe('a CommonJS host under its usual Jest', () => {
  it('boots with the module', async () => {
    const module = await Test.createTestingModule({ imports: [AppModule] }).compile();
    await module.init();
    expect(module.get(BoothController)).toBeInstanceOf(BoothController);
    await module.close();
  });

  it('gets the errors of the services', async () => {
    const module = await Test.createTestingModule({ imports: [AppModule] }).compile();
    const call = firstValueFrom(module.get(ExhibitorsService, { strict: false }).list('..'));
    await expect(call).rejects.toMatchObject({ code: 'invalid_argument' });
    await call.catch((error: unknown) => expect(isExhibitorError(error)).toBe(true));
    await module.close();
  });
});

describe('the sandbox under the usual Jest of a CommonJS host', () => {
  it('starts outside of Jest, and serves the module in the test', async () => {
    const sandbox = await ExhibitorSandbox.start();
    sandbox.setExhibitors('own', [{ id: 'x-1', contactEmails: [] }], 'acme');
    expect(sandbox.exhibitors('own', 'acme')).toEqual([{ id: 'x-1', contactEmails: [] }]);
    expect(() => sandbox.tenantOptions('nobody')).toThrow('no tenant "nobody"');
    await expect(sandbox.accessToken('nobody')).rejects.toThrow('no such person');
    const module = await Test.createTestingModule({
      imports: [ExhibitorModule.forRoot({ tenant: sandbox.tenantOptions('acme'), secrets: [SECRET] })],
    }).compile();
    sandbox.failNext('list', { kind: 'status', status: 503 });
    const page = await firstValueFrom(module.get(ExhibitorsService).list('own'));
    expect(page.data).toStrictEqual([{ id: 'x-1', contactEmails: [] }]);
    expect(sandbox.requests.map(({ operation }) => operation)).toEqual(['token', 'list', 'list']);
    sandbox.latency = 5;
    expect(sandbox.latency).toBe(5);
    await module.close();
    await sandbox.stop();
  });

  it('is examined by the doctor', async () => {
    const sandbox = await ExhibitorSandbox.start();
    const wrong = [];
    for await (const { status, option } of diagnose({
      ...sandbox.tenantOptions('acme'),
      tenantId: 'other',
    })) {
      wrong.push(...(status === 'wrong' ? [option] : []));
    }
    expect(wrong).toEqual(['tenantId']);
    await sandbox.stop();
  });
});
