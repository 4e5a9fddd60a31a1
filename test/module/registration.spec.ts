import { afterAll, beforeAll, describe, expect, it } from '@jest/globals';
import {
  Inject,
  Injectable,
  Module,
  type DynamicModule,
  type ModuleMetadata,
  type INestApplicationContext,
  type Type,
} from '@nestjs/common';
import { ConfigModule, ConfigService, registerAs } from '@nestjs/config';
import { NestFactory } from '@nestjs/core';
import { firstValueFrom } from 'rxjs';
import {
  ConfigurationError,
  ExhibitorModule,
  ExhibitorsService,
  isExhibitorError,
  TenantRegistry,
  type ExhibitorModuleOptions,
  type ExhibitorOptionsFactory,
} from '../../lib/index.js';
import type { ExhibitorSandbox } from '../../lib/testing/index.js';
import { COOKIE_SECRET } from '../support/host.js';
import { startSandbox } from '../support/sandbox.js';

let sandbox: ExhibitorSandbox;
beforeAll(async () => {
  sandbox = await startSandbox();
});
afterAll(() => sandbox?.stop());

const options = (key = 'acme'): ExhibitorModuleOptions => ({
  tenant: sandbox.tenantOptions(key),
  secrets: [COOKIE_SECRET],
});

type Imports = NonNullable<ModuleMetadata['imports']>;

/** A host with these modules, started as in `main.ts`. */
async function boot(imports: Imports, providers: Type[] = []): Promise<INestApplicationContext> {
  @Module({ imports, providers })
  class AppModule {}
  return NestFactory.createApplicationContext(AppModule, { logger: false, abortOnError: false });
}

/** Starts a host, reads one page and closes it. */
async function countOfBoutique(...imports: Imports): Promise<number> {
  const app = await boot(imports);
  try {
    const { paginationMetadata } = await firstValueFrom(app.get(ExhibitorsService).list('boutique-2026'));
    return paginationMetadata.totalCount;
  } finally {
    await app.close();
  }
}

async function bootFailure(...imports: Imports): Promise<unknown> {
  try {
    await (await boot(imports)).close();
  } catch (error) {
    return error;
  }
  throw new Error('the boot did not fail');
}

@Injectable()
class OptionsService implements ExhibitorOptionsFactory {
  async createExhibitorOptions(): Promise<ExhibitorModuleOptions> {
    return options();
  }
}

@Module({ providers: [OptionsService], exports: [OptionsService] })
class OptionsModule {}

describe('the module is registered', () => {
  it('with plain options', async () => {
    expect(await countOfBoutique(ExhibitorModule.forRoot(options()))).toBe(7);
  });

  it('with a factory that injects providers of the host', async () => {
    const config = ConfigModule.forRoot({ ignoreEnvFile: true, load: [() => ({ TENANT: 'acme' })] });
    const module = ExhibitorModule.forRootAsync({
      imports: [config],
      inject: [ConfigService],
      useFactory: (service: ConfigService) => options(service.getOrThrow<string>('TENANT')),
    });
    expect(await countOfBoutique(module)).toBe(7);
  });

  it('with a class that creates the options', async () => {
    expect(await countOfBoutique(ExhibitorModule.forRootAsync({ useClass: OptionsService }))).toBe(7);
  });

  it('with a service of the host that creates them', async () => {
    const module = ExhibitorModule.forRootAsync({ imports: [OptionsModule], useExisting: OptionsService });
    expect(await countOfBoutique(module)).toBe(7);
  });

  it('with a configuration object of @nestjs/config', async () => {
    const exhibitor = registerAs('exhibitor', () => options());
    const root = ConfigModule.forRoot({ ignoreEnvFile: true });
    expect(await countOfBoutique(root, ExhibitorModule.forRootAsync(exhibitor.asProvider()))).toBe(7);
    const asGlobal = ExhibitorModule.forRootAsync({ isGlobal: true, ...exhibitor.asProvider() });
    expect(await countOfBoutique(root, asGlobal)).toBe(7);
  });

  it('globally, so that other modules do not import it', async () => {
    @Injectable()
    class Portal {
      constructor(@Inject(ExhibitorsService) readonly exhibitors: ExhibitorsService) {}
    }
    @Module({ providers: [Portal] })
    class PortalModule {}

    const app = await boot([ExhibitorModule.forRoot({ isGlobal: true, ...options() }), PortalModule]);
    expect(app.get(Portal, { strict: false }).exhibitors).toBeInstanceOf(ExhibitorsService);
    await app.close();
    const failure = await bootFailure(ExhibitorModule.forRoot(options()), PortalModule);
    expect(String(failure)).toContain("Nest can't resolve dependencies of the Portal");
  });

  it.each([
    ['forRoot twice', () => [globally('acme'), globally('globex')]],
    [
      'forRoot and forRootAsync',
      () => [
        globally('acme'),
        ExhibitorModule.forRootAsync({ isGlobal: true, useFactory: () => options('globex') }),
      ],
    ],
    ['the same twice, in modules of their own', () => [wrapped(globally('acme')), wrapped(globally('acme'))]],
  ])('globally once: a second one fails at startup (%s)', async (_, modules) => {
    const failure = await bootFailure(...modules());
    expect(failure).toBeInstanceOf(ConfigurationError);
    expect(String(failure)).toContain('isGlobal: only one ExhibitorModule may be global');
  });

  it('globally beside others that are not global', async () => {
    const app = await boot([globally('acme'), wrapped(ExhibitorModule.forRoot(options('globex')))]);
    expect(await app.get(TenantRegistry).get('default')).toMatchObject({ key: 'default' });
    await app.close();
  });
});

function globally(key: string): DynamicModule {
  return ExhibitorModule.forRoot({ isGlobal: true, ...options(key) });
}

function wrapped(module: DynamicModule): Type {
  @Module({ imports: [module] })
  class Wrapper {}
  return Wrapper;
}

describe('wrong options', () => {
  it.each([
    ['forRoot', (wrong: unknown) => ExhibitorModule.forRoot(wrong as ExhibitorModuleOptions)],
    [
      'forRootAsync',
      (wrong: unknown) =>
        ExhibitorModule.forRootAsync({ useFactory: async () => wrong as ExhibitorModuleOptions }),
    ],
  ])('fail the startup of %s with one ConfigurationError that names them all', async (_, register) => {
    const acme = { ...sandbox.tenantOptions('acme'), baseUrl: 'http://api.example', tenantId: ' ' };
    const globex = { ...sandbox.tenantOptions('globex'), http: { deadline: 0 } };
    const failure = await bootFailure(
      register({ tenants: { acme, globex }, secrets: ['short'], lookupCache: { ttl: -1 } }),
    );
    expect(failure).toBeInstanceOf(ConfigurationError);
    expect(isExhibitorError(failure) && failure.code).toBe('configuration_invalid');
    const { problems } = failure as ConfigurationError;
    expect(problems.map(({ path }) => path).toSorted()).toEqual([
      'lookupCache.ttl',
      'secrets.0',
      'tenants.acme.baseUrl',
      'tenants.acme.tenantId',
      'tenants.globex.http.deadline',
    ]);
  });

  it.each([undefined, null, 'acme', [], {}])('are also %j', async (wrong) => {
    const failure = await bootFailure(
      ExhibitorModule.forRootAsync({ useFactory: () => wrong as ExhibitorModuleOptions }),
    );
    expect(failure).toBeInstanceOf(ConfigurationError);
  });

  it('do not change what the factory itself throws', async () => {
    const vault = new Error('the vault is sealed');
    const failure = await bootFailure(
      ExhibitorModule.forRootAsync({
        useFactory: async () => {
          throw vault;
        },
      }),
    );
    expect(failure).toBe(vault);
  });
});
