/** The routes of login and logout that the module registers itself: `routes`, beside `isGlobal`. */
import {
  Controller,
  Get,
  Inject,
  Logger,
  Post,
  RequestMethod,
  Res,
  UseGuards,
  VERSION_NEUTRAL,
  type HttpServer,
  type Type,
} from '@nestjs/common';
import { MODULE_PATH } from '@nestjs/common/constants.js';
import { ApplicationConfig, HttpAdapterHost, ModulesContainer, Reflector } from '@nestjs/core';
import { RoutePathFactory } from '@nestjs/core/router/route-path-factory.js';
import { CurrentIdentity } from './current.decorators.js';
import { ConfigurationError } from '../errors/configuration.error.js';
import { ExhibitorBackChannelLogoutGuard } from './exhibitor-back-channel-logout.guard.js';
import { ExhibitorCallbackGuard } from './exhibitor-callback.guard.js';
import { ExhibitorIdentityGuard } from './exhibitor-identity.guard.js';
import { ExhibitorLoginGuard } from './exhibitor-login.guard.js';
import { ExhibitorLogoutGuard } from './exhibitor-logout.guard.js';
import { DECIDE, RouteGuard } from './route-guard.js';
import type { ExhibitorIdentity } from '../model/exhibitor-identity.interface.js';
import { CHECKED_OPTIONS, type CheckedOptions } from '../config/check-options.js';
import { hasBrowser } from '../config/option-rules.js';

/** The login routes of the module. */
export interface LoginRoutes {
  /** How their paths begin: `auth`, or `:tenant/auth`. A global prefix comes before it; they have no version. */
  path: string;
  /** Subclasses of the guards. They may inject what global modules export, and the `imports` of `forRootAsync`. */
  guards?: {
    login?: Type<ExhibitorLoginGuard>;
    callback?: Type<ExhibitorCallbackGuard>;
    logout?: Type<ExhibitorLogoutGuard>;
  };
  /** Registers `POST <path>/backchannel-logout` with {@link ExhibitorBackChannelLogoutGuard} too. Default false. */
  backChannelLogout?: boolean;
}

/** No pattern and no dot segment, which browsers and routers would read differently. */
const PATH = /^\/?((:[a-z_]\w*|[\w~-][\w.~-]*)(\/|$))+$/i;

/** Leaves `me` to the guard after it: a global one might require an event, look exhibitors up, or redirect to the login. */
class ExemptFromGlobalGuards extends RouteGuard {
  protected override async [DECIDE](): Promise<undefined> {}
}

/**
 * The controllers of these routes.
 *
 * @throws {ConfigurationError} for another `routes.path`
 */
export function loginRoutes(routes: string | LoginRoutes): Type[] {
  const { path, guards = {}, backChannelLogout } = typeof routes === 'string' ? { path: routes } : routes;
  if (typeof path !== 'string' || !PATH.test(path)) {
    throw new ConfigurationError([
      { path: 'routes.path', expected: "must be a path such as 'auth' or ':tenant/auth'" },
    ]);
  }

  // Handlers reply by the adapter: no interceptor of the host may hide an address to go to, nor cache who is logged in.
  @Controller({ path, version: VERSION_NEUTRAL })
  class ExhibitorLoginRoutes {
    constructor(
      @Inject(HttpAdapterHost) private readonly host: HttpAdapterHost,
      @Inject(ApplicationConfig) config: ApplicationConfig,
      @Inject(ModulesContainer) modules: ModulesContainer,
      @Inject(CHECKED_OPTIONS) options: CheckedOptions,
    ) {
      if (!hasBrowser(options.settings.session)) {
        const expected = "need a session with logins, not 'bearer' alone";
        throw new ConfigurationError([{ path: 'routes', expected }]);
      }
      const { getCallbackPath } = Object(guards.callback ?? ExhibitorCallbackGuard).prototype;
      // An override is for a proxy that changes the path.
      if (getCallbackPath === ExhibitorCallbackGuard.prototype['getCallbackPath']) {
        host.listen$.subscribe(() => {
          const home = [...modules.values()].find(({ controllers }) => controllers.has(ExhibitorLoginRoutes));
          // Of Nest's `RouterModule`.
          const key = MODULE_PATH + modules.applicationId;
          const modulePath = home && new Reflector().get<string | undefined>(key, home.metatype);
          const globalPrefix = config.getGlobalPrefix();
          const route = { modulePath, ctrlPath: path, methodPath: 'callback', globalPrefix };
          // `exclude` of the prefix may name a method.
          const pathBy = (method: RequestMethod) => new RoutePathFactory(config).create(route, method)[0];
          compareCallback(options, pathBy, host.httpAdapter);
        });
      }
    }

    @Get('login')
    @UseGuards(guards.login ?? ExhibitorLoginGuard)
    login(): void {}

    @Get('callback')
    @UseGuards(guards.callback ?? ExhibitorCallbackGuard)
    callback(@CurrentIdentity() { returnTo = '/' }: ExhibitorIdentity, @Res() response: object): void {
      this.host.httpAdapter.redirect(response, 303, returnTo);
    }

    @Post('callback')
    @UseGuards(guards.callback ?? ExhibitorCallbackGuard)
    postedCallback(@CurrentIdentity() identity: ExhibitorIdentity, @Res() response: object): void {
      this.callback(identity, response);
    }

    @Post('logout')
    @UseGuards(guards.logout ?? ExhibitorLogoutGuard)
    logout(@Res() response: object): void {
      this.host.httpAdapter.redirect(response, 303, '/');
    }

    @Get('me')
    @UseGuards(ExemptFromGlobalGuards, ExhibitorIdentityGuard)
    me(@CurrentIdentity() identity: ExhibitorIdentity, @Res() response: object): void {
      const { email, tenant, eventId, expiresAt } = identity;
      // Fastify's reply is thenable: it must not be returned.
      void this.host.httpAdapter.reply(response, { email, tenant, eventId, expiresAt }, 200);
    }
  }

  @Controller({ path, version: VERSION_NEUTRAL })
  class ExhibitorBackChannelRoute {
    @Post('backchannel-logout')
    @UseGuards(ExhibitorBackChannelLogoutGuard)
    backChannelLogout(): void {}
  }

  return backChannelLogout ? [ExhibitorLoginRoutes, ExhibitorBackChannelRoute] : [ExhibitorLoginRoutes];
}

/** Warns of the first `redirectUri` whose path the router does not serve as the callback: its logins would end with a 404. */
function compareCallback(
  { tenants, pathOf }: CheckedOptions,
  pathBy: (method: RequestMethod) => string | undefined,
  adapter: HttpServer,
): void {
  const isExpress = adapter.getType() === 'express';
  // Nest 11 does not tell: these are the defaults of the routers.
  const { caseSensitive = !isExpress, ignoreTrailingSlash = isExpress } =
    adapter.getRouteMatchingOptions?.() ?? {};
  const asMatched = (path: string): string =>
    (caseSensitive ? path : path.toLowerCase()).replace(ignoreTrailingSlash ? /\/$/ : '', '');
  for (const [key, { login }] of 'find' in tenants ? [] : tenants) {
    const given = login?.redirectUri && new URL(login.redirectUri).pathname;
    const parts = given?.split('/') ?? [];
    const served = pathBy(login?.responseType === 'code' ? RequestMethod.GET : RequestMethod.POST) ?? '';
    // Express compares a path as it is sent, Fastify decodes it first.
    const callback = (isExpress ? served : encodeURI(served)).split('/');
    const own = callback.map((part, at) => (part.includes(':') ? parts[at] : part)).join('/');
    if (given && asMatched(given) !== asMatched(own)) {
      const line = `its path is ${given}, but that of the callback is ${callback.join('/')}`;
      new Logger('nestjs-exhibitor').warn(`${pathOf(key)}.login.redirectUri: ${line}`);
      return;
    }
  }
}
