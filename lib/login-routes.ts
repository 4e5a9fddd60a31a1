/** The routes of login and logout that the module registers itself: `routes`, beside `isGlobal`. */
import { Controller, Get, Inject, Post, Res, UseGuards, VERSION_NEUTRAL, type Type } from '@nestjs/common';
import { HttpAdapterHost } from '@nestjs/core';
import * as v from 'valibot';
import { CurrentIdentity } from './decorators/current.decorators.js';
import { ConfigurationError } from './errors/configuration.error.js';
import { ExhibitorBackChannelLogoutGuard } from './guards/exhibitor-back-channel-logout.guard.js';
import { ExhibitorCallbackGuard } from './guards/exhibitor-callback.guard.js';
import { ExhibitorIdentityGuard } from './guards/exhibitor-identity.guard.js';
import { ExhibitorLoginGuard } from './guards/exhibitor-login.guard.js';
import { ExhibitorLogoutGuard } from './guards/exhibitor-logout.guard.js';
import { RouteGuard } from './guards/route-guard.js';
import type { ExhibitorIdentity } from './model/exhibitor-identity.interface.js';
import { CHECKED_OPTIONS, type CheckedOptions } from './options/check-options.js';
import { callable, ONE_PROBLEM, problemsOf, text } from './options/value-schemas.js';

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

const guard = v.optional(callable<Type>());
const loginRoutesSchema = v.strictObject({
  path: v.pipe(text, v.regex(PATH, "must be a path such as 'auth' or ':tenant/auth'")),
  guards: v.optional(v.strictObject({ login: guard, callback: guard, logout: guard }), {}),
  backChannelLogout: v.optional(v.boolean('must be true or false')),
});

/** Leaves `me` to the guard after it: a global one might require an event, or redirect to the login. */
class ExemptFromGlobalGuards extends RouteGuard {
  override canActivate(): boolean {
    return true;
  }
}

/**
 * The controllers of these routes.
 *
 * @throws {ConfigurationError} `routes` with what is wrong in them
 */
export function loginRoutes(routes: string | LoginRoutes): Type[] {
  const given = typeof routes === 'string' ? { path: routes } : routes;
  const parsed = v.safeParse(loginRoutesSchema, given, ONE_PROBLEM);
  if (!parsed.success) {
    throw new ConfigurationError(problemsOf(parsed.issues, 'routes'));
  }
  const { path, guards, backChannelLogout } = parsed.output;

  // Handlers reply by the adapter: no interceptor of the host may hide an address to go to, nor cache who is logged in.
  @Controller({ path, version: VERSION_NEUTRAL })
  class ExhibitorLoginRoutes {
    constructor(
      @Inject(HttpAdapterHost) private readonly host: HttpAdapterHost,
      @Inject(CHECKED_OPTIONS) { settings }: CheckedOptions,
    ) {
      if (settings.session.join() === 'bearer') {
        throw new ConfigurationError([
          { path: 'routes', expected: "need a session with logins, not 'bearer' alone" },
        ]);
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
