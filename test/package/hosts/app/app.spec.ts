import { Test } from '@nestjs/testing';
import { ExhibitorsService, isExhibitorError } from 'nestjs-exhibitor';
import { diagnose } from 'nestjs-exhibitor/doctor';
import { ExhibitorSandbox } from 'nestjs-exhibitor/testing';
import { firstValueFrom } from 'rxjs';
import { AppModule, BoothController } from './app.module';

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
  it('answers values and throws errors of the realm of the test', async () => {
    const sandbox = await ExhibitorSandbox.start();
    expect(sandbox).toBeInstanceOf(ExhibitorSandbox);
    expect(sandbox.publicJwks).toStrictEqual({ keys: [expect.objectContaining({ kty: 'RSA' })] });
    expect(sandbox.tenantOptions('acme').login.keys).toStrictEqual(sandbox.publicJwks);
    sandbox.setExhibitors('own', [{ id: 'x-1', contactEmails: [] }], 'acme');
    expect(sandbox.exhibitors('own', 'acme')).toStrictEqual([{ id: 'x-1', contactEmails: [] }]);
    const own = { since: new Date(0), page: new URL('https://x.example/'), halls: new Map([['a', 1]]) };
    sandbox.setExhibitors('own', [{ id: 'x-1', contactEmails: [], ...own }], 'acme');
    expect(sandbox.exhibitors('own', 'acme')).toStrictEqual([{ id: 'x-1', contactEmails: [], ...own }]);
    expect(() => sandbox.failNext('list', { kind: 'delay', ms: 1 }, 0)).toThrow(RangeError);
    expect(() => sandbox.tenantOptions('nobody')).toThrow(Error);
    await expect(sandbox.followLogin(`${sandbox.url}/connect/authorize`)).rejects.toThrow(Error);

    sandbox.latency = 5;
    expect(sandbox.latency).toBe(5);
    sandbox.failNext('other', { kind: 'body', body: Buffer.from('{"a":1}') });
    expect(await (await fetch(`${sandbox.url}/discovered`)).json()).toEqual({ a: 1 });
    await sandbox.stop();
    expect(sandbox.requests).toMatchObject([{}, { path: '/discovered', status: 200 }]);
    expect(sandbox.openConnections).toBe(0);
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
