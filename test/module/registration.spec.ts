import { describe, expect, it } from '@jest/globals';
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
import { BaseExceptionFilter, ModuleRef, ModulesContainer, NestFactory } from '@nestjs/core';
import { firstValueFrom } from 'rxjs';
import {
  ConfigurationError,
  ExhibitorModule,
  ExhibitorsService,
  TenantRegistry,
  type ExhibitorModuleOptions,
  type ExhibitorOptionsFactory,
  TokenService,
} from '../../lib/index.js';
import { COOKIE_SECRET, startHost } from '../support/host.js';
import { useClosing, useHost, useSandbox } from '../support/lifetimes.js';
import { inspect } from 'node:util';
import { CHECKED_OPTIONS } from '../../lib/config/check-options.js';
import { loadPeer } from '../../lib/config/installed-packages.js';
import { NestParts } from '../../lib/nest/nest-parts.service.js';

const sandbox = await useSandbox();
const closing = useClosing();

const options = (key = 'acme'): ExhibitorModuleOptions => ({
  tenant: sandbox.tenantOptions(key),
  secrets: [COOKIE_SECRET],
});

type Imports = NonNullable<ModuleMetadata['imports']>;

type Algorithm = 'reference' | 'deep-hash';

/** A host with these modules, started as in `main.ts`. */
async function boot(
  imports: Imports,
  moduleIdGeneratorAlgorithm?: Algorithm,
): Promise<INestApplicationContext> {
  @Module({ imports })
  class AppModule {}
  const quiet = { logger: false, abortOnError: false } as const;
  return closing(
    await NestFactory.createApplicationContext(AppModule, { ...quiet, moduleIdGeneratorAlgorithm }),
  );
}

/** Starts a host and reads one page. */
async function countOfBoutique(...imports: Imports): Promise<number> {
  const app = await boot(imports);
  const { paginationMetadata } = await firstValueFrom(app.get(ExhibitorsService).list('boutique-2026'));
  return paginationMetadata.totalCount;
}

async function bootFailure(...imports: Imports): Promise<unknown> {
  try {
    await boot(imports);
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
  it('with plain options, or a class or a service of the host that creates them', async () => {
    expect(await countOfBoutique(ExhibitorModule.forRoot(options()))).toBe(7);
    expect(await countOfBoutique(ExhibitorModule.forRootAsync({ useClass: OptionsService }))).toBe(7);
    const module = ExhibitorModule.forRootAsync({ imports: [OptionsModule], useExisting: OptionsService });
    expect(await countOfBoutique(module)).toBe(7);
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

  it('with a configuration object of @nestjs/config', async () => {
    const exhibitor = registerAs('exhibitor', () => options());
    const root = ConfigModule.forRoot({ ignoreEnvFile: true });
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
    const failure = await bootFailure(ExhibitorModule.forRoot(options()), PortalModule);
    expect(String(failure)).toContain("Nest can't resolve dependencies of the Portal");
  });

  it.each([
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
    const globex = { ...sandbox.tenantOptions('globex'), http: { deadline: 0 } };
    const failure = await bootFailure(register({ tenants: { globex }, secrets: ['short'] }));
    expect(failure).toBeInstanceOf(ConfigurationError);
    const { code, problems } = failure as ConfigurationError;
    const paths = problems.map(({ path }) => path).toSorted();
    expect([code, paths]).toEqual(['configuration_invalid', ['secrets.0', 'tenants.globex.http.deadline']]);
  });

  it('are also undefined and a text; what the factory itself throws stays as it is', async () => {
    const failureOf = (useFactory: () => unknown) =>
      bootFailure(ExhibitorModule.forRootAsync({ useFactory: useFactory as () => ExhibitorModuleOptions }));
    expect(await failureOf(() => undefined)).toBeInstanceOf(ConfigurationError);
    expect(await failureOf(() => 'acme')).toBeInstanceOf(ConfigurationError);
    const vault = new Error('the vault is sealed');
    expect(await failureOf(() => Promise.reject(vault))).toBe(vault);
  });
});

describe('packages that are missing or there twice', () => {
  it('end the boot where another copy of this package was loaded', async () => {
    const copies: Set<string> = Reflect.get(globalThis, Symbol.for('nestjs-exhibitor.copies'));
    copies.add('file:///elsewhere/exhibitor.module.js');
    const failure = await bootFailure(ExhibitorModule.forRoot(options()));
    copies.delete('file:///elsewhere/exhibitor.module.js');
    expect(String(failure)).toMatch(
      /nestjs-exhibitor is loaded from 2 places: .*\/elsewhere\/exhibitor.module.js/,
    );
  });

  it('end the boot where the package loads another Nest than the application, whole or @nestjs/common alone', async () => {
    const another = 'nestjs-exhibitor loads another copy of @nestjs/common than the application';
    // Nest has nothing under the tokens of another copy.
    expect(() => new NestParts()).toThrow(another);
    const { logger } = BaseExceptionFilter as unknown as { logger: object };
    Object.assign(BaseExceptionFilter, { logger: {} });
    const failure = await bootFailure(ExhibitorModule.forRoot(options()));
    Object.assign(BaseExceptionFilter, { logger });
    expect(String(failure)).toContain(another);
  });

  it('are named with what to do', async () => {
    const absent: string = '@nestjs/absent';
    const said = 'nestjs-exhibitor needs the package @nestjs/absent, which is not installed: npm install';
    await expect(loadPeer(absent, () => import(absent))).rejects.toThrow(said);
    const broken = new Error('it is broken');
    await expect(loadPeer(absent, () => Promise.reject(broken))).rejects.toBe(broken);
  });
});

@Injectable()
class Portal {
  constructor(
    @Inject(TokenService) readonly tokens: TokenService,
    @Inject(TenantRegistry) readonly tenants: TenantRegistry,
  ) {}
}

/** A module of a host with its own registration. */
function partWith(registration: DynamicModule): { module: Type; portal: Type<Portal> } {
  @Injectable()
  class OwnPortal extends Portal {}
  @Module({ imports: [registration], providers: [OwnPortal] })
  class PartModule {}
  return { module: PartModule, portal: OwnPortal };
}

it.each(['reference', 'deep-hash'] as const)(
  'two registrations have their own tenants and tokens, also where their options are equal: module ids by %s',
  async (moduleIdGeneratorAlgorithm) => {
    const same = options();
    const parts = [
      partWith(ExhibitorModule.forRoot(same)),
      partWith(ExhibitorModule.forRoot(same)),
      partWith(ExhibitorModule.forRootAsync({ useFactory: () => same })),
      partWith(ExhibitorModule.forRoot(options('globex'))),
    ];
    const modules = parts.map(({ module }) => module);
    const app = await boot(modules, moduleIdGeneratorAlgorithm);
    const portals = parts.map(({ portal }) => app.get(portal, { strict: false }));
    expect(new Set(portals.map(({ tenants }) => tenants)).size).toBe(4);
    const found = await Promise.all(portals.map(({ tenants }) => tenants.get('default')));
    const tenantIds = ['acme', 'acme', 'acme', 'globex'].map((key) => sandbox.tenantOptions(key).tenantId);
    expect(found.map(({ tenantId }) => tenantId)).toEqual(tenantIds);
    sandbox.clearRequests();
    const getTokens = () => Promise.all(portals.map(({ tokens }) => tokens.getToken()));
    expect(new Set((await getTokens()).map(({ accessToken }) => accessToken)).size).toBe(4);
    await portals[0]?.tokens.invalidate();
    await getTokens();
    expect(sandbox.requests).toHaveLength(5);
  },
);

const DEEP = { depth: Infinity, showHidden: true, getters: true };
const SECRETS = ['the api secret of this test', 'the login secret of this test', COOKIE_SECRET];

describe('an application that logs a service of the module', () => {
  const host = useHost(() => {
    const [clientSecret = '', loginSecret] = SECRETS;
    return startHost({
      options: (redirectUri) => {
        const { login, ...tenant } = sandbox.tenantOptions('acme', { redirectUri });
        return {
          tenant: { ...tenant, clientSecret, login: { ...login, clientSecret: loginSecret } },
          secrets: [COOKIE_SECRET],
        };
      },
    });
  });

  /** The services of the module, without the providers that are the options themselves, and without Nest's own, which holds all. */
  function services(): [name: string, instance: unknown][] {
    const module = [...host.app.get(ModulesContainer).values()].find(
      ({ metatype }) => metatype === ExhibitorModule,
    );
    const wrappers = [...(module?.providers.entries() ?? [])];
    return wrappers
      .filter(([token]) => typeof token === 'function' && token !== ModuleRef && token !== NestParts)
      .map(([token, { instance }]) => [typeof token === 'function' ? token.name : '', instance]);
  }

  it('shows no secret, by util.inspect with hidden members and getters', () => {
    const all = services();
    expect(all.map(([name]) => name)).toEqual(
      expect.arrayContaining(['ExhibitorsService', 'TokenService', 'Sealer', 'ExhibitorGuardServices']),
    );
    for (const [name, instance] of all) {
      const shown = inspect(instance, DEEP);
      expect([name, SECRETS.filter((secret) => shown.includes(secret))]).toEqual([name, []]);
    }
  });

  it('would show them in the options themselves, which shows that the check works', () => {
    const shown = inspect(host.app.get<unknown>(CHECKED_OPTIONS, { strict: false }), DEEP);
    expect(SECRETS.every((secret) => shown.includes(secret))).toBe(true);
  });
});
