import { Injectable, type ExecutionContext } from '@nestjs/common';
import type { ExhibitorErrorCode } from '../errors/error-codes.js';
import { ExhibitorError } from '../errors/exhibitor.error.js';
import { isExhibitorError } from '../errors/is-exhibitor-error.js';
import { isNavigation } from '../browser/fetch-metadata.js';
import type { HttpContext } from '../browser/http-context.js';
import { safeReturnTo } from '../login/return-to.js';
import { checkEventId } from '../model/path-parameters.js';
import { setUser, type SessionState } from '../login/request-user.js';
import {
  declaredOn,
  FIND_EVENT,
  guardsOn,
  keepResults,
  resultsIn,
  type Results,
} from './execution-context.js';
import { neverSettle, RouteGuard, textOf } from './route-guard.js';

/** Replies depend on the user and must not be cached for others. A header that the handler sets replaces this one. */
const HEADERS = Object.entries({ 'Cache-Control': 'private, no-store' });

/** `WWW-Authenticate` of refusals, where requests may carry a bearer token (RFC 6750 §3). */
const CHALLENGES: Partial<Record<ExhibitorErrorCode, string>> = {
  unauthenticated: 'Bearer',
  login_failed: 'Bearer error="invalid_token"',
};

/** Parameters of a route that name no event. */
const OTHER_PARAMETERS = ['tenant', 'exhibitorId'];

/**
 * Requires a user who is logged in; for routes without an event. Sets `request.user`. 401 `unauthenticated` without an
 * identity, 401 `login_failed` for a refused bearer token, 404 `unknown_tenant`; 503 or 504 where what it needs is slow or down: the
 * tenant source, and for a new bearer token keys, userinfo and `authorize`.
 *
 * @example
 * @Get('profile') @UseGuards(ExhibitorIdentityGuard)
 * profile(@CurrentIdentity() identity: ExhibitorIdentity) { return identity.claims; }
 */
@Injectable()
export class ExhibitorIdentityGuard extends RouteGuard {
  /** Runs the steps of this guard; called by Nest. */
  override canActivate(context: ExecutionContext): boolean | Promise<boolean> {
    return ExhibitorIdentityGuard.enter(this, context, async (http) => {
      const { results, session, isPublic } = await ExhibitorIdentityGuard.identify(this, http, context);
      let event: Promise<string | undefined> | undefined;
      results[FIND_EVENT] = () => (event ??= this.#findEvent(http, context, session, isPublic));
      const before = resultsIn(context, http.request);
      // An earlier ExhibitorGuard may have found more for this user.
      const isSame = before?.identity === results.identity && before?.tenant === results.tenant;
      keepResults(context, http.request, isSame ? { ...before, ...results } : results);
    });
  }

  /** Runs `decide`, unless the route is not for this guard. Static for the reason of {@link RouteGuard.run}. @internal */
  static enter(
    guard: ExhibitorIdentityGuard,
    context: ExecutionContext,
    decide: (http: HttpContext) => Promise<void>,
  ): boolean | Promise<boolean> {
    return isExempt(guard, context) || RouteGuard.run(guard, context, HEADERS, decide);
  }

  /** The `session` of a request, `undefined` for nobody, and the `results` for the decorators. @internal */
  static async identify(guard: ExhibitorIdentityGuard, http: HttpContext, context: ExecutionContext) {
    const isPublic = await guard.allowsAnonymous(context);
    const tenant = await guard.getTenant(http, context);
    const session = isPublic
      ? await guard.#userOrNobody(http, tenant)
      : ((await guard.getIdentity(http, tenant)) ?? (await guard.onNoIdentity(http)));
    const results: Results =
      session === undefined
        ? { identity: undefined, tenant }
        : { identity: setUser(http, session), tenant: session.tenant.key };
    return { isPublic, session, results };
  }

  /**
   * True where requests without a user pass. By default that is what {@link AllowAnonymous} says on the handler, else on the
   * controller; there it does not count for a guard in `@UseGuards` of the handler. Override it for controllers that cannot be
   * decorated.
   *
   * @example
   * protected override allowsAnonymous(context: ExecutionContext): boolean | Promise<boolean> {
   *   return context.getClass() === MetricsController || super.allowsAnonymous(context);
   * }
   */
  protected allowsAnonymous(context: ExecutionContext): boolean | Promise<boolean> {
    const handler = context.getHandler();
    return (
      declaredOn(handler) ?? (declaredOn(context.getClass()) === true && !isAmong(guardsOn(handler), this))
    );
  }

  /** The user of the request; `undefined` where there is none. An identity of another tenant does not count. */
  protected getIdentity(
    http: HttpContext,
    tenantKey: string | undefined,
  ): SessionState | undefined | Promise<SessionState | undefined> {
    return RouteGuard.servicesOf(this).reader.read(http, tenantKey);
  }

  /**
   * The event of the request, for {@link ExhibitorGuard} and `redirectToLogin`: the route parameter `eventId`; on routes without it, the
   * query `eventId`, else the event of the login. With the option, that of `resolveEvent`, else the event of the login: neither parameter
   * nor query is read. On a route with other parameters than `tenant` and `exhibitorId`, and in GraphQL, query and login do not count:
   * the handler may act on another event. The event of the login counts for GET and HEAD only: a link of any page may have started it.
   *
   * @param session `undefined` where nobody is logged in
   */
  protected getEvent(
    http: HttpContext,
    context: ExecutionContext,
    session: SessionState | undefined,
  ): string | undefined | Promise<string | undefined> {
    const services = RouteGuard.servicesOf(this);
    const { method, params = {}, query } = http.request;
    const isHttp = context.getType<string>() === 'http';
    const mayUseDefault = isHttp && Object.keys(params).every((name) => OTHER_PARAMETERS.includes(name));
    const isReading = method === 'GET' || method === 'HEAD';
    const eventOfLogin = mayUseDefault && isReading ? session?.identity.eventId : undefined;
    if (services.settings().resolveEvent !== undefined) {
      return services.ask('resolveEvent', http, context).then((named) => named ?? eventOfLogin);
    }
    if (isHttp && 'eventId' in params) {
      return textOf(params['eventId']);
    }
    // The handler may read the event of a list or an object, so that the one of the login does not count.
    const inQuery = mayUseDefault ? (query?.['eventId'] ?? '') : '';
    return inQuery === '' ? eventOfLogin : textOf(inQuery);
  }

  /**
   * No user is logged in. By default throws 401 `unauthenticated`.
   *
   * @example
   * protected override onNoIdentity(http: HttpContext): Promise<never> {
   *   return this.redirectToLogin(http, '/auth/login');
   * }
   */
  protected onNoIdentity(_http: HttpContext): SessionState | Promise<SessionState> {
    throw nobody();
  }

  /**
   * Leads a navigation of a browser to the login route, which then leads back: with `returnTo`, the address of this request, and
   * its event. Any other request is refused with 401 `unauthenticated`: a script, a form, GraphQL. Only for `onNoIdentity`.
   *
   * @param path of the login route, `/auth/login`. It may have a query
   */
  protected async redirectToLogin(http: HttpContext, path: string): Promise<never> {
    const { context } = http;
    if (context?.getType<string>() !== 'http' || !isNavigation(http)) {
      throw nobody();
    }
    const eventId = await this.getEvent(http, context, undefined);
    const { pathname, search } = http.target;
    const returnTo = safeReturnTo(`${pathname}${search}`);
    const query = new URLSearchParams({
      ...(eventId === undefined ? {} : { eventId }),
      ...(returnTo === undefined ? {} : { returnTo }),
    });
    http.redirect(`${path}${path.includes('?') ? '&' : '?'}${query}`);
    return neverSettle();
  }

  /** The event for `@CurrentEvent()`. An identity alone needs none, so that it is looked for when a handler asks for it. */
  async #findEvent(
    http: HttpContext,
    context: ExecutionContext,
    session: SessionState | undefined,
    isPublic: boolean,
  ): Promise<string | undefined> {
    try {
      const named = await this.getEvent(http, context, session);
      if (named !== undefined || isPublic) {
        return named === undefined ? undefined : checkEventId(named);
      }
      throw noEvent(session);
    } catch (error) {
      return await this.onFailure(error, http);
    }
  }

  /** A refused token counts as nobody, as a cookie that does not open. */
  async #userOrNobody(http: HttpContext, tenantKey: string | undefined): Promise<SessionState | undefined> {
    try {
      return (await this.getIdentity(http, tenantKey)) ?? undefined;
    } catch (error) {
      if (isExhibitorError(error) && error.code === 'login_failed') {
        return undefined;
      }
      throw error;
    }
  }

  protected override onFailure(error: unknown, http: HttpContext): never | Promise<never> {
    const challenge = isExhibitorError(error) ? CHALLENGES[error.code] : undefined;
    if (challenge !== undefined && RouteGuard.servicesOf(this).settings().session.includes('bearer')) {
      http.setHeader('WWW-Authenticate', challenge);
    }
    return super.onFailure(error, http);
  }
}

/** The request names no event. */
export const noEvent = (session?: SessionState): ExhibitorError =>
  new ExhibitorError('event_required', 'the request names no event', { tenant: session?.tenant.key });

function nobody(): ExhibitorError {
  return new ExhibitorError('unauthenticated', 'nobody is logged in');
}

/**
 * A global guard leaves the routes of login and logout to their own guards, else nobody could log in where a user is required, nor log
 * out while lookups fail. `@AllowAnonymous(false)` on the handler wins over that. A guard in `@UseGuards` of the route is not global.
 */
function isExempt(guard: ExhibitorIdentityGuard, context: ExecutionContext): boolean {
  const handler = context.getHandler();
  const ofRoute = [...guardsOn(handler), ...guardsOn(context.getClass())];
  return ofRoute.some(isGuardOfLogins) && declaredOn(handler) !== false && !isAmong(ofRoute, guard);
}

/** True where this guard is one of those in a `@UseGuards`, which have classes and instances. */
function isAmong(guards: readonly unknown[], guard: object): boolean {
  return guards.some((one) => one === guard || one === guard.constructor);
}

/**
 * True for our guards of login, callback and logouts: for a class or an instance. The method `allowsAnonymous` tells the others, since
 * `ExhibitorIdentityGuard.prototype` is no instance of its own class.
 */
function isGuardOfLogins(guard: unknown): boolean {
  const prototype: unknown = typeof guard === 'function' ? guard.prototype : guard;
  return prototype instanceof RouteGuard && !('allowsAnonymous' in prototype);
}
