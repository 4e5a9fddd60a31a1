/** The routes of login, logout and choosing that the module registers itself: `routes`, beside `isGlobal`. */
import {
  Controller,
  Get,
  Inject,
  Post,
  Req,
  Res,
  UseGuards,
  VERSION_NEUTRAL,
  type Type,
} from '@nestjs/common';
import * as v from 'valibot';
import { ONE_PROBLEM, optionsOf, problemsOf } from '../config/value-schemas.js';
import { CurrentIdentity } from './current.decorators.js';
import { ConfigurationError } from '../errors/configuration.error.js';
import { Choosing } from './execution-context.js';
import { ExhibitorBackChannelLogoutGuard } from './exhibitor-back-channel-logout.guard.js';
import { ExhibitorCallbackGuard } from './exhibitor-callback.guard.js';
import { ExhibitorGuard } from './exhibitor.guard.js';
import { ExhibitorIdentityGuard } from './exhibitor-identity.guard.js';
import { ExhibitorLoginGuard } from './exhibitor-login.guard.js';
import { ExhibitorLogoutGuard } from './exhibitor-logout.guard.js';
import { NestParts } from './nest-parts.service.js';
import { LOGIN_CONTROLLER, RouteAddresses } from './route-addresses.js';
import { RouteReplies } from './route-replies.service.js';
import type { RouteGuard } from './route-guard.js';
import { routeEntries, type RouteSettings } from './route-settings.js';
import type { ExhibitorIdentity } from '../model/exhibitor-identity.interface.js';
import type { ExhibitorRequest } from '../model/exhibitor-request.interface.js';
import { CHECKED_OPTIONS, type CheckedOptions } from '../config/check-options.js';
import { hasBrowser } from '../config/option-rules.js';

/** The routes of the module, and their pages. */
export interface LoginRoutes extends RouteSettings {
  /** Subclasses of the guards. They may inject what global modules export, and the `imports` of `forRootAsync`. */
  guards?:
    | {
        /** Of `GET <path>/login`. Default {@link ExhibitorLoginGuard}. */
        login?: Type<ExhibitorLoginGuard> | undefined;
        /** Of `GET` and `POST <path>/callback`. Default {@link ExhibitorCallbackGuard}. */
        callback?: Type<ExhibitorCallbackGuard> | undefined;
        /** Of `GET` and `POST <path>/choose`. Default {@link ExhibitorGuard}. */
        choose?: Type<ExhibitorGuard> | undefined;
        /** Of `POST <path>/logout`. Default {@link ExhibitorLogoutGuard}. */
        logout?: Type<ExhibitorLogoutGuard> | undefined;
      }
    | undefined;
}

/** A class of the host in place of a guard. */
function guardOf<T extends RouteGuard>(base: Type<T>) {
  const isGuard = (value: unknown): boolean =>
    typeof value === 'function' && (value === base || value.prototype instanceof base);
  return v.optional(v.custom<Type<T>>(isGuard, `must be ${base.name} or a subclass of it`), () => base);
}

const routesSchema = optionsOf(
  {
    ...routeEntries,
    guards: v.optional(
      optionsOf(
        {
          login: guardOf<ExhibitorLoginGuard>(ExhibitorLoginGuard),
          callback: guardOf<ExhibitorCallbackGuard>(ExhibitorCallbackGuard),
          choose: guardOf<ExhibitorGuard>(ExhibitorGuard),
          logout: guardOf<ExhibitorLogoutGuard>(ExhibitorLogoutGuard),
        },
        'must be { login, callback, choose, logout }',
      ),
      {},
    ),
  },
  "must be a path such as 'auth', or an object with a path",
);

type CheckedRoutes = v.InferOutput<typeof routesSchema>;

/**
 * The checked routes, and their controllers.
 *
 * @throws {ConfigurationError} for wrong members of `routes`
 */
export function loginRoutes(routes: string | LoginRoutes): { settings: RouteSettings; controllers: Type[] } {
  const { path = '', ...others }: Partial<LoginRoutes> =
    typeof routes === 'string' ? { path: routes } : Object(routes);
  const given = { path, ...others };
  const { success, output, issues } = v.safeParse(routesSchema, given, ONE_PROBLEM);
  if (!success) {
    throw new ConfigurationError(problemsOf(issues, 'routes'));
  }
  return { settings: output, controllers: controllersOf(output) };
}

function controllersOf({ path, guards, backChannelLogout }: CheckedRoutes): Type[] {
  // Handlers reply by the adapter: no interceptor of the host may hide an address to go to, nor cache who is logged in.
  @Controller({ path, version: VERSION_NEUTRAL })
  class ExhibitorLoginRoutes {
    static readonly [LOGIN_CONTROLLER] = true;

    constructor(
      @Inject(NestParts) { adapterHost }: NestParts,
      @Inject(RouteReplies) private readonly replies: RouteReplies,
      @Inject(RouteAddresses) addresses: RouteAddresses,
      @Inject(CHECKED_OPTIONS) options: CheckedOptions,
    ) {
      if (!hasBrowser(options.settings.session)) {
        const expected = "need a session with logins, not 'bearer' alone";
        throw new ConfigurationError([{ path: 'routes', expected }]);
      }
      // An override is for a proxy that changes the path.
      if (
        guards.callback.prototype['getCallbackPath'] === ExhibitorCallbackGuard.prototype['getCallbackPath']
      ) {
        adapterHost.listen$.subscribe(() => addresses.compare(options));
      }
    }

    @Get('login')
    @UseGuards(guards.login)
    login(): void {}

    @Get('callback')
    @UseGuards(guards.callback)
    callback(
      @CurrentIdentity() identity: ExhibitorIdentity,
      @Req() request: ExhibitorRequest,
      @Res() response: object,
    ): Promise<void> {
      return this.replies.loggedIn({ request, response }, identity);
    }

    @Post('callback')
    @UseGuards(guards.callback)
    postedCallback(
      @CurrentIdentity() identity: ExhibitorIdentity,
      @Req() request: ExhibitorRequest,
      @Res() response: object,
    ): Promise<void> {
      return this.replies.loggedIn({ request, response }, identity);
    }

    @Get('failed')
    failed(@Req() request: ExhibitorRequest, @Res() response: object): Promise<void> {
      return this.replies.failed({ request, response });
    }

    @Get('choose')
    @Choosing()
    @UseGuards(guards.choose)
    choose(@Req() request: ExhibitorRequest, @Res() response: object): Promise<void> {
      return this.replies.choice({ request, response });
    }

    @Post('choose')
    @Choosing()
    @UseGuards(guards.choose)
    postedChoice(@Req() request: ExhibitorRequest, @Res() response: object): Promise<void> {
      return this.replies.chosen({ request, response });
    }

    @Post('logout')
    @UseGuards(guards.logout)
    logout(@Req() request: ExhibitorRequest, @Res() response: object): Promise<void> {
      return this.replies.loggedOut({ request, response });
    }

    @Get('me')
    @UseGuards(ExhibitorIdentityGuard)
    me(
      @CurrentIdentity() identity: ExhibitorIdentity,
      @Req() request: ExhibitorRequest,
      @Res() response: object,
    ): void {
      this.replies.me({ request, response }, identity);
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
