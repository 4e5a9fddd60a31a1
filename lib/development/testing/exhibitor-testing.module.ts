import { randomBytes } from 'node:crypto';
import { Module, type DynamicModule, type Provider, type Type } from '@nestjs/common';
import { ExhibitorModule, type Exhibitor, type ExhibitorModuleOptions } from '../../index.js';
import { refuseProduction } from '../sandbox/server/sandbox-server.js';
import {
  ExhibitorTestingBackend,
  TESTING_CALLBACK,
  TESTING_CLIENT,
  TESTING_ISSUER,
  type ExhibitorTestingWorld,
} from './testing-backend.js';
import { TESTING_SERVICES } from './testing-services.js';

/** What {@link ExhibitorTestingModule.override} needs of Nest's `TestingModuleBuilder`. */
export interface OverridableBuilder {
  overrideProvider(token: unknown): {
    useFactory(options: { factory: (...injected: never[]) => unknown; inject?: unknown[] }): unknown;
  };
  overrideModule(module: Type): { useModule(module: DynamicModule): unknown };
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
    const definition = ExhibitorModule.forRootAsync({ isGlobal: true, ...OPTIONS });
    return {
      ...definition,
      providers: [...(definition.providers ?? []), ...backendOf(world), ...TESTING_SERVICES],
      exports: [ExhibitorTestingBackend],
    };
  }

  /**
   * The same for an application that imports `ExhibitorModule` itself: its options are not read, and its `resolveTenant`,
   * `resolveEvent` and `resolveExhibitor` are not called.
   *
   * @param builder of `Test.createTestingModule({ imports: [AppModule] })`
   * @returns the builder
   * @throws Error with `NODE_ENV=production`, without `allowInProduction`
   */
  static override<Builder extends OverridableBuilder, T = Exhibitor>(
    builder: Builder,
    world: ExhibitorTestingWorld<T> = {},
  ): Builder {
    const { options, extension, standIn } = ExhibitorModule.forTests;
    builder.overrideProvider(options).useFactory({ factory: OPTIONS.useFactory, inject: OPTIONS.inject });
    for (const { provide, useFactory: factory, inject } of TESTING_SERVICES) {
      builder.overrideProvider(provide).useFactory({ factory, inject });
    }
    builder.overrideModule(extension).useModule({
      module: ExhibitorTestingModule,
      global: true,
      providers: backendOf(world),
      exports: [ExhibitorTestingBackend, standIn],
    });
    return builder;
  }
}

/** One backend for each compiled module, so that no test sees the state of another. */
function backendOf<T>(world: ExhibitorTestingWorld<T>): Provider[] {
  if (world.allowInProduction !== true) {
    refuseProduction('ExhibitorTestingModule');
  }
  return [
    { provide: ExhibitorTestingBackend, useFactory: () => new ExhibitorTestingBackend(world) },
    { provide: ExhibitorModule.forTests.standIn, useExisting: ExhibitorTestingBackend },
  ];
}

const OPTIONS = { inject: [ExhibitorTestingBackend], useFactory: testingOptions };

/** Options of a module in which every key is a tenant. */
function testingOptions(backend: ExhibitorTestingBackend): ExhibitorModuleOptions {
  return {
    tenants: {
      find: (key) => ({
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
        },
      }),
    },
    allowedOrigins: () => true,
    resolveTenant: ({ params }) => backend.tenantOf(params?.['tenant']),
    resolveEvent: ({ method, params, query }, context) => {
      // As in production: what changes something names its event.
      const mayOmit = context.getType<string>() !== 'http' || method === 'GET' || method === 'HEAD';
      return backend.eventOf(params?.['eventId'] ?? query?.['eventId'], mayOmit);
    },
    secrets: [randomBytes(32).toString('base64url')],
    lookupCache: false,
    // Hosts with the back-channel guard start.
    logoutCheck: { provider: true },
    exhibitorId: (exhibitor) => backend.idOf(exhibitor) ?? '',
  };
}
