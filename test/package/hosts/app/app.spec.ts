import { Test } from '@nestjs/testing';
import { ExhibitorsService, isExhibitorError } from 'nestjs-exhibitor';
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
