import { randomBytes } from 'node:crypto';
import { Module, type DynamicModule } from '@nestjs/common';
import { ModuleRef } from '@nestjs/core';
import { MODULE_OPTIONS_TOKEN } from '../../exhibitor.module.js';
import { CHECKED_OPTIONS } from '../../config/check-options.js';
import {
  ExhibitorModule,
  type Exhibitor,
  type ExhibitorModuleOptions,
  type TenantOptions,
} from '../../index.js';
import { refuseProduction } from '../sandbox/server/sandbox-server.js';
import {
  ExhibitorTestingBackend,
  TESTING_CALLBACK,
  TESTING_CLIENT,
  TESTING_ISSUER,
  type ExhibitorTestingWorld,
} from './testing-backend.js';
import { STAND_INS, type StandIn } from './testing-services.js';
import { moduleOf, readApplicationOptions } from './application-options.js';

/** What {@link ExhibitorTestingModule.override} needs of Nest's `TestingModuleBuilder`. */
export interface OverridableBuilder {
  overrideProvider(token: unknown): {
    useFactory(options: { factory: (...injected: never[]) => unknown; inject?: unknown[] }): unknown;
  };
}

/**
 * {@link ExhibitorModule} for tests of controllers and services: the same guards, decorators and services, with no service,
 * provider, options or secrets behind them. {@link ExhibitorTestingBackend} controls them. Guards run only for requests: send
 * them with supertest or `app.inject`. It logs everybody in, so it does not start with `NODE_ENV=production`, unless
 * `allowInProduction` is true.
 *
 * @example
 * const module = await Test.createTestingModule({
 *   imports: [
 *     ExhibitorTestingModule.forRoot({
 *       events: { 'world-2026': [{ id: 'x-1', name: 'X' }] },
 *       contacts: { 'user@example.com': { 'world-2026': ['x-1'] } },
 *     }),
 *   ],
 *   controllers: [BoothController],
 * }).compile();
 */
@Module({})
export class ExhibitorTestingModule {
  /**
   * A global module with the public services.
   *
   * @throws Error with `NODE_ENV=production`, without `allowInProduction`
   */
  static forRoot<T = Exhibitor>(world: ExhibitorTestingWorld<T> = {}): DynamicModule {
    refuseProductionOf(world.allowInProduction);
    const definition = ExhibitorModule.forRootAsync({
      isGlobal: true,
      inject: [ExhibitorTestingBackend],
      useFactory: (backend: ExhibitorTestingBackend) => testingOptions(backend),
    });
    return {
      ...definition,
      providers: [
        ...(definition.providers ?? []),
        // One backend for each compiled module, so that no test sees the state of another.
        { provide: ExhibitorTestingBackend, useFactory: () => new ExhibitorTestingBackend(world) },
        ...[...STAND_INS].map(([provide, classOf]) => ({ provide, ...standIn(classOf) })),
      ],
      exports: [...(definition.exports ?? []), ExhibitorTestingBackend],
    };
  }

  /**
   * The same for an application that imports `ExhibitorModule` itself. Of its options `resolveTenant`, `resolveEvent`,
   * `resolveExhibitor`, `lookupCache`, `session` and `exhibitorLabel` are read, where `world` does not have them, and the keys of
   * `tenants`; nothing else. With several of them or a source, a call that names none is `tenant_required`. It may lack what its
   * factory needs, such as secrets: then none is read, and the log warns of it.
   *
   * @param builder of `Test.createTestingModule({ imports: [AppModule] })`
   * @returns the builder
   * @throws Error with `NODE_ENV=production`, without `allowInProduction`
   */
  static override<Builder extends OverridableBuilder, T = Exhibitor>(
    builder: Builder,
    world: ExhibitorTestingWorld<T> = {},
  ): Builder {
    refuseProductionOf(world.allowInProduction);
    const backend = new ExhibitorTestingBackend(world);
    builder.overrideProvider(MODULE_OPTIONS_TOKEN).useFactory({
      inject: [ModuleRef],
      factory: async (module: ModuleRef) => {
        // Nest has no way to add a provider to the modules of an application.
        moduleOf(module)?.addProvider({ provide: ExhibitorTestingBackend, useValue: backend });
        return testingOptions(module.get(ExhibitorTestingBackend), await readApplicationOptions(module));
      },
    });
    for (const [token, classOf] of STAND_INS) {
      const { inject, useFactory: factory } = standIn(classOf);
      builder.overrideProvider(token).useFactory({ inject, factory });
    }
    return builder;
  }
}

/** Created after the options, since those of an override bring the backend. */
function standIn(classOf: StandIn) {
  const useFactory = (module: ModuleRef): Promise<unknown> =>
    module.create(classOf(module.get(ExhibitorTestingBackend), module));
  return { inject: [ModuleRef, CHECKED_OPTIONS], useFactory };
}

function refuseProductionOf(allowInProduction: boolean | undefined): void {
  if (allowInProduction !== true) {
    refuseProduction('ExhibitorTestingModule');
  }
}

/** Options of a module in which every key is a tenant, unless the application has several fixed ones. */
function testingOptions(
  backend: ExhibitorTestingBackend,
  application?: Partial<ExhibitorModuleOptions>,
): ExhibitorModuleOptions {
  const { resolveTenant, lookupCache = false, ...kept } = backend.optionsOver(application ?? {});
  const given = application?.tenants ?? {};
  const hasSource = typeof given.find === 'function';
  const keys = hasSource ? [] : Object.keys(given);
  backend.hasSeveralTenants = hasSource || keys.length > 1;
  const namedTenant: typeof resolveTenant = async (request, context) =>
    backend.tenantOf(
      resolveTenant === undefined ? request.params?.['tenant'] : await resolveTenant(request, context),
    );
  return {
    ...kept,
    tenants: {
      find: (key) => (keys.length > 1 && !keys.includes(key) ? undefined : testingTenant(key)),
    },
    allowedOrigins: () => true,
    // With several, a request that names none has the tenant of its login, and a login needs one, as in production.
    resolveTenant: backend.hasSeveralTenants ? resolveTenant : namedTenant,
    secrets: [randomBytes(32).toString('base64url')],
    // A lookup that fails by `failNext` is seen at once, unless the test is about the cache.
    lookupCache,
    // Calls `storeIdentity` where the session of the application is not known.
    session: application === undefined ? 'host' : application.session,
    // Hosts with the back-channel guard start.
    logoutCheck: { provider: true },
    exhibitorLabel: application?.exhibitorLabel,
    exhibitorId: (exhibitor) => backend.idOf(exhibitor) ?? '',
  };
}

function testingTenant(key: string): TenantOptions {
  return {
    tenantId: `tenant-${encodeURIComponent(key)}`,
    baseUrl: 'https://service.test',
    authUrl: TESTING_ISSUER,
    clientId: TESTING_CLIENT,
    clientSecret: 'nothing is sent',
    login: {
      clientId: TESTING_CLIENT,
      redirectUri: TESTING_CALLBACK,
      issuer: TESTING_ISSUER,
      keys: `${TESTING_ISSUER}/keys`,
      requireIss: false,
      audience: { idToken: TESTING_CLIENT, accessToken: TESTING_CLIENT },
      authorizedParties: [TESTING_CLIENT],
    },
  };
}
