import {
  ConfigurableModuleBuilder,
  Inject,
  Logger,
  Module,
  type ConfigurableModuleAsyncOptions,
  type DynamicModule,
  type OnApplicationBootstrap,
  type OnModuleInit,
  type Provider,
} from '@nestjs/common';
import { ConfigurationError } from './errors/configuration.error.js';
import { CallRunner } from './exhibitors/call-runner.service.js';
import { ExhibitorsService } from './exhibitors/exhibitors.service.js';
import { ExhibitorLookups } from './exhibitors/lookups/exhibitor-lookups.service.js';
import { ExhibitorPages } from './exhibitors/pages/exhibitor-pages.service.js';
import { RestClient } from './exhibitors/rest-client.service.js';
import { ExhibitorExceptionFilter } from './nest/exhibitor-exception.filter.js';
import { ExhibitorSelection } from './nest/exhibitor-selection.service.js';
import { ExhibitorGuardServices } from './nest/guard-services.js';
import { loginRoutes, type LoginRoutes } from './nest/login-routes.js';
import { NestParts } from './nest/nest-parts.service.js';
import { Pages } from './nest/pages.service.js';
import { RouteAddresses } from './nest/route-addresses.js';
import { RouteReplies } from './nest/route-replies.service.js';
import { ROUTE_SETTINGS } from './nest/route-settings.js';
import { CallbackVerifier } from './login/callback-verifier.service.js';
import { CodeExchange } from './login/code-exchange.service.js';
import { LedCookie } from './login/led-cookie.service.js';
import { LoginService } from './login/login.service.js';
import { LogoutService } from './login/logout.service.js';
import { ProviderLogouts } from './login/provider-logouts.service.js';
import { OpenIdProvider } from './oidc/openid-provider.service.js';
import { TokenValidator } from './oidc/token-validator.service.js';
import { UserInfo } from './oidc/user-info.service.js';
import { CHECKED_OPTIONS, checkOptions, type CheckedOptions } from './config/check-options.js';
import type { Exhibitor } from './model/exhibitor-request.interface.js';
import { requireOneCopy, requirePeer } from './config/installed-packages.js';
import type { ExhibitorModuleOptions } from './config/exhibitor-options.interface.js';
import { bootAdvice } from './config/problems/boot-advice.js';
import { BearerIdentities } from './login/bearer-identities.service.js';
import { ExhibitorLogins } from './login/exhibitor-logins.service.js';
import { IdentityCookie } from './login/identity-cookie.service.js';
import { IdentityReader } from './login/identity-reader.service.js';
import { IdTokenCookie } from './login/id-token-cookie.service.js';
import { SelectionCookie } from './login/selection-cookie.service.js';
import { EndedLogins } from './login/ended-logins.service.js';
import { Sealer } from './store/sealer.service.js';
import { SharedValues } from './store/shared-values.service.js';
import { SpentStates } from './login/spent-states.service.js';
import { ProblemLog } from './config/problems/problem-log.service.js';
import { TenantRegistry } from './config/tenant-registry.service.js';
import { Clock } from './call/clock.js';
import { Calls } from './call/calls.service.js';
import { Rests } from './call/partner.js';
import { TokenEndpoint } from './tokens/token-endpoint.service.js';
import { TokenService } from './tokens/token.service.js';
import { AXIOS, loadAxios } from './http/wire/axios-client.js';
import { Transport } from './http/transport.service.js';

/** Registration beside the options: both of Nest's module, none of a tenant. */
interface ModuleExtras {
  /** Makes the services available in every module. Default false. */
  isGlobal?: boolean;
  /** Binds {@link ExhibitorExceptionFilter} in the whole application, after all filters of the host. Default true. */
  bindFilter?: boolean;
  /**
   * Registers the login routes: with `'auth'`, `GET auth/login`, `GET` and `POST auth/callback`, `GET auth/failed`, `GET` and
   * `POST auth/choose`, `POST auth/logout` and `GET auth/me`. Guards then lead browsers to the login, and people see pages in place of JSON.
   * Default none. At the start, a `redirectUri` with another path than the callback is warned about.
   */
  routes?: string | LoginRoutes;
}

/** Options of `forRootAsync`. `T` is inferred from the `exhibitorSchema` of what the factory returns. */
type ExhibitorModuleAsyncOptions<T> = ConfigurableModuleAsyncOptions<
  ExhibitorModuleOptions<T>,
  'createExhibitorOptions'
> &
  ModuleExtras;

/**
 * Nest asks the filter that was bound last first. As an `APP_FILTER` of this module, ours would hide errors from a catch-all
 * filter of the host. Providers are created before Nest binds those of `APP_FILTER`, so here ours is the first.
 */
const FILTER_BINDING: Provider = {
  provide: Symbol('nestjs-exhibitor:filter-binding'),
  inject: [NestParts, ExhibitorExceptionFilter],
  useFactory: ({ config }: NestParts, filter: ExhibitorExceptionFilter) => config.addGlobalFilter(filter),
};

/** Refuses to start where packages are missing or there twice. Passport is loaded with the first login: too late to miss it. */
const INSTALLATION: Provider = {
  provide: Symbol('nestjs-exhibitor:installation'),
  useFactory: async () => {
    requireOneCopy();
    await requirePeer('passport', () => import('passport'));
    await requirePeer('@nestjs/passport', () => import('@nestjs/passport'));
  },
};

// Always transient: with `moduleIdGeneratorAlgorithm: 'deep-hash'`, two equal registrations would become one module.
export const { ConfigurableModuleClass, MODULE_OPTIONS_TOKEN } = new ConfigurableModuleBuilder<object>({
  moduleName: 'Exhibitor',
  alwaysTransient: true,
})
  .setClassMethodName('forRoot')
  .setFactoryMethodName('createExhibitorOptions')
  .setExtras<ModuleExtras>({ isGlobal: false, bindFilter: true, routes: undefined }, (definition, extras) => {
    const routes = extras.routes === undefined ? undefined : loginRoutes(extras.routes);
    return {
      ...definition,
      global: extras.isGlobal === true,
      providers: [
        ...(definition.providers ?? []),
        ...(extras.bindFilter === false ? [] : [FILTER_BINDING]),
        { provide: ROUTE_SETTINGS, useValue: routes?.settings },
        ...(routes === undefined ? [] : [RouteReplies]),
      ],
      controllers: routes?.controllers ?? [],
    };
  })
  .build();

/** The public services, and what guards and filter inject: Nest creates those in the module of the host. */
const EXPORTED: Provider[] = [
  TenantRegistry,
  TokenService,
  ExhibitorsService,
  TokenValidator,
  ExhibitorLogins,
  ExhibitorSelection,
  ExhibitorGuardServices,
  ExhibitorExceptionFilter,
];

/**
 * Everything a host needs to work with the Exhibitor Event REST Service.
 *
 * @example
 * ExhibitorModule.forRootAsync({
 *   isGlobal: true,
 *   inject: [ConfigService],
 *   useFactory: (config: ConfigService) => ({ tenant: { … }, secrets: [config.getOrThrow('COOKIE_SECRET')] }),
 * })
 *
 * @throws {ConfigurationError} at boot, with every wrong option and its path
 */
@Module({
  providers: [
    {
      provide: CHECKED_OPTIONS,
      inject: [MODULE_OPTIONS_TOKEN],
      useFactory: checkOptions,
    },
    INSTALLATION,
    { provide: AXIOS, useFactory: loadAxios },
    NestParts,
    Clock,
    Calls,
    Rests,
    ProblemLog,
    Sealer,
    SharedValues,
    EndedLogins,
    SpentStates,
    Transport,
    TokenEndpoint,
    RestClient,
    CallRunner,
    ExhibitorPages,
    ExhibitorLookups,
    OpenIdProvider,
    UserInfo,
    BearerIdentities,
    IdentityCookie,
    IdentityReader,
    IdTokenCookie,
    SelectionCookie,
    CodeExchange,
    CallbackVerifier,
    LedCookie,
    LoginService,
    LogoutService,
    ProviderLogouts,
    RouteAddresses,
    Pages,
    ...EXPORTED,
  ],
  exports: EXPORTED,
})
export class ExhibitorModule implements OnModuleInit, OnApplicationBootstrap {
  readonly #options: CheckedOptions;
  readonly #nest: NestParts;

  /** @internal */
  constructor(@Inject(CHECKED_OPTIONS) options: CheckedOptions, @Inject(NestParts) nest: NestParts) {
    this.#options = options;
    this.#nest = nest;
  }

  /** Registers the module with options that are known when the file is loaded. */
  static forRoot<T = Exhibitor>(options: ExhibitorModuleOptions<T> & ModuleExtras): DynamicModule {
    return { ...ConfigurableModuleClass.forRoot(options), module: this };
  }

  /** Registers the module with options of a factory or a class, which may inject providers and be async. */
  static forRootAsync<T = Exhibitor>(options: ExhibitorModuleAsyncOptions<T>): DynamicModule {
    return { ...ConfigurableModuleClass.forRootAsync(options), module: this };
  }

  /** Not earlier: a host sets its logger after the application was created. */
  onModuleInit(): void {
    const logger = new Logger('nestjs-exhibitor');
    for (const line of bootAdvice(this.#options)) {
      logger.warn(line);
    }
  }

  /** With two global registrations, the order of imports would decide which one is used. */
  onApplicationBootstrap(): void {
    const global = [...this.#nest.modules.values()].filter(
      (module) => module.metatype === ExhibitorModule && module.isGlobal,
    );
    if (global.length < 2) {
      return;
    }
    throw new ConfigurationError([{ path: 'isGlobal', expected: 'only one ExhibitorModule may be global' }]);
  }
}
