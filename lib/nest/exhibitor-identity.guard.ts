import { Injectable, type ExecutionContext } from '@nestjs/common';
import type { ExhibitorErrorCode } from '../errors/error-codes.js';
import { isExhibitorError } from '../errors/is-exhibitor-error.js';
import type { HttpContext } from '../browser/http-context.js';
import type { ExhibitorIdentity } from '../model/exhibitor-identity.interface.js';
import { checkEventId } from '../model/path-parameters.js';
import type { FoundIdentity } from '../login/identity.js';
import { setUser } from '../login/request-user.js';
import { declaredOn, FIND_EVENT, isOverHttp, resultsIn, type Results } from './execution-context.js';
import { eventOf, fieldOf, returnToOf } from './request-fields.js';
import { nobody, noEvent, type Place } from './refusals.js';
import { addressOf, LOGIN_CONTROLLER, type OwnRoutes } from './route-addresses.js';
import { DECIDE, PLACE, RouteGuard, SERVICES } from './route-guard.js';

/** `WWW-Authenticate` of refusals, where requests may carry a bearer token (RFC 6750 §3). */
const CHALLENGES: Partial<Record<ExhibitorErrorCode, string>> = {
  unauthenticated: 'Bearer',
  login_failed: 'Bearer error="invalid_token"',
};

/** Who a request comes from. */
export const WHO = Symbol('nestjs-exhibitor.who');

/** Who a request comes from. Nobody passes only where the route is public. @internal */
export type Visitor = User | Nobody;

interface User {
  isPublic: boolean;
  /** Key of the tenant of the user. */
  tenant: string;
  /** The identity as it was checked. */
  who: FoundIdentity;
  /** `request.user`: a copy of that identity, to which the host may add members. */
  user: ExhibitorIdentity;
}

interface Nobody {
  isPublic: true;
  /** Key of the tenant that the request names. */
  tenant: string | undefined;
  who?: undefined;
  user?: undefined;
}

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
  /** Runs the steps of this guard, unless the route is one of login or logout; called by Nest. */
  override canActivate(context: ExecutionContext): boolean | Promise<boolean> {
    return this.#isExempt(context) || super.canActivate(context);
  }

  /**
   * A global guard leaves the routes of login and logout, and all routes of the module, to their own guards: else nobody could log in
   * where a user is required, nor log out while lookups fail. A guard is global where no `@UseGuards` of handler or controller has it. The
   * first row that fits counts, the last three by {@link allowsAnonymous}:
   *
   * | this guard is in `@UseGuards` of | the route                                            | it              |
   * | -------------------------------- | ---------------------------------------------------- | --------------- |
   * | any or none                      | has `@AllowAnonymous(false)` on its handler          | requires a user |
   * | none                             | is of the module, or has one of our guards of logins | does nothing    |
   * | any or none                      | has `@AllowAnonymous()` on its handler               | requires none   |
   * | the controller alone, or none    | has `@AllowAnonymous()` on its controller            | requires none   |
   * | any or none                      | is any other                                         | requires a user |
   */
  #isExempt(context: ExecutionContext): boolean {
    const { allowsAnonymous, guards, controller } = declaredOn(context);
    const ofRoute = [...guards, ...controller.guards];
    if (allowsAnonymous === false || this.#isAmong(ofRoute)) {
      return false;
    }
    return LOGIN_CONTROLLER in context.getClass() || ofRoute.some(isGuardOfLogins);
  }

  /** True where this guard is one of those in a `@UseGuards`, which have classes and instances. */
  #isAmong(guards: readonly unknown[]): boolean {
    return guards.some((one) => one === this || one === this.constructor);
  }

  /** @internal */
  protected override async [DECIDE](http: HttpContext): Promise<Results> {
    const { isPublic, tenant, who, user } = await this[WHO](http);
    let event: Promise<string | undefined> | undefined;
    const found: Results = {
      identity: user,
      tenant,
      [FIND_EVENT]: () => (event ??= this.#findEvent(http, who?.identity, isPublic)),
    };
    const before = resultsIn(http.context, http.request);
    // An earlier ExhibitorGuard may have found more for this user.
    return before?.identity === user && before?.tenant === tenant ? { ...before, ...found } : found;
  }

  /** The event for `@CurrentEvent()`. An identity alone needs none, so that it is looked for when a handler asks for it. */
  async #findEvent(
    http: HttpContext,
    identity: ExhibitorIdentity | undefined,
    isPublic: boolean,
  ): Promise<string | undefined> {
    try {
      const named = await this.getEvent(http, identity);
      if (named === undefined && !isPublic) {
        throw noEvent(identity?.tenant);
      }
      return named === undefined ? undefined : checkEventId(named);
    } catch (error) {
      return await this.onFailure(http, error);
    }
  }

  /** Who the request comes from, and of which tenant. @internal */
  protected async [WHO](http: HttpContext): Promise<Visitor> {
    // Replies depend on the user and must not be cached for others. A header that the handler sets replaces this one.
    http.setHeader('Cache-Control', 'private, no-store');
    const isPublic = (await this.allowsAnonymous(http)) === true;
    const tenant = await this.getTenant(http);
    const identity = isPublic
      ? await this.#identityOrNobody(http, tenant)
      : ((await this.getIdentity(http, tenant)) ?? (await this.onNoIdentity(http)));
    if (identity !== undefined) {
      const who = await this[SERVICES].withTenant(http, identity);
      return { isPublic, tenant: who.tenant.key, who, user: setUser(http, who) };
    }
    if (isPublic) {
      return { isPublic, tenant };
    }
    throw nobody();
  }

  /** A refused token counts as nobody, as a cookie that does not open. */
  async #identityOrNobody(http: HttpContext, tenant?: string): Promise<ExhibitorIdentity | undefined> {
    try {
      return (await this.getIdentity(http, tenant)) ?? undefined;
    } catch (error) {
      if (isExhibitorError(error) && error.code === 'login_failed') {
        return undefined;
      }
      throw error;
    }
  }

  /**
   * True where requests without a user pass. By default that is what {@link AllowAnonymous} says on the handler, else on the
   * controller; there it does not count for a guard in `@UseGuards` of the handler. Override it for controllers that cannot be
   * decorated.
   *
   * @example
   * protected override allowsAnonymous(http: HttpContext): boolean | Promise<boolean> {
   *   return http.context.getClass() === MetricsController || super.allowsAnonymous(http);
   * }
   */
  protected allowsAnonymous({ context }: HttpContext): boolean | Promise<boolean> {
    const { allowsAnonymous, guards, controller } = declaredOn(context);
    return allowsAnonymous ?? (controller.allowsAnonymous === true && !this.#isAmong(guards));
  }

  /**
   * The user of the request; `undefined` where there is none. By default an identity of another tenant does not count. One of your own
   * names its tenant by `tenant`, and is neither compared with the request nor looked for among ended logins.
   */
  protected getIdentity(
    http: HttpContext,
    tenant?: string,
  ): ExhibitorIdentity | undefined | Promise<ExhibitorIdentity | undefined> {
    return this[SERVICES].identityOf(http, tenant);
  }

  /**
   * The event of the request, for {@link ExhibitorGuard} and `redirectToLogin`: the route parameter `eventId`; on routes without it, the
   * query `eventId`, else the event of the login. With the option, that of `resolveEvent`, else the event of the login: neither parameter
   * nor query is read. On a route with other parameters than `tenant` and `exhibitorId`, and in GraphQL, query and login do not count:
   * the handler may act on another event. The event of the login counts for GET and HEAD only: a link of any page may have started it. The
   * route `choose` of the module takes its event from its query alone, or its form.
   *
   * @param identity `undefined` where nobody is logged in
   */
  protected getEvent(
    http: HttpContext,
    identity?: ExhibitorIdentity,
  ): string | undefined | Promise<string | undefined> {
    return eventOf(http, identity, this[SERVICES]);
  }

  /**
   * No user is logged in. By default leads a navigation to the login of `routes`, and throws 401 `unauthenticated` for anything else; may
   * return an identity instead.
   *
   * @example
   * protected override onNoIdentity(http: HttpContext): Promise<never> {
   *   return this.redirectToLogin(http, '/auth/login');
   * }
   */
  protected onNoIdentity(http: HttpContext): ExhibitorIdentity | Promise<ExhibitorIdentity> {
    return this.#leadToLogin(http);
  }

  /** Once: a browser that comes back and still is nobody is shown the page. */
  async #leadToLogin(http: HttpContext): Promise<never> {
    const { pages, led, tenants } = this[SERVICES];
    if (isOverHttp(http) && pages.leadsToLogin && pages.mayLead(http)) {
      const tenant = await this.getTenant(http);
      const routes = await pages.routesFor(tenant);
      if (routes !== undefined && !led.take(http, await tenants.resolve(tenant))) {
        const { eventId, returnTo } = await this[PLACE](http, routes);
        return this.redirect(http, routes.urlOf('login', { eventId, returnTo, led: '1' }));
      }
    }
    throw nobody();
  }

  protected override onFailure(http: HttpContext, error: unknown): never | Promise<never> {
    const challenge = isExhibitorError(error) ? CHALLENGES[error.code] : undefined;
    if (challenge !== undefined && this[SERVICES].settings().session.includes('bearer')) {
      http.setHeader('WWW-Authenticate', challenge);
    }
    return super.onFailure(http, error);
  }

  /** @internal */
  protected override async [PLACE](http: HttpContext, routes?: OwnRoutes): Promise<Place> {
    const eventId = await this.getEvent(http);
    if (declaredOn(http.context).isChoosing && http.request.method === 'POST') {
      // No login leads back to a form, but to the page that has it.
      const returnTo = returnToOf(fieldOf(http, 'returnTo'));
      return { eventId, returnTo: routes?.urlOf('choose', { eventId, returnTo }) };
    }
    return { eventId, returnTo: addressOf(http, routes) };
  }
}

/** True for a class or an instance, in a `@UseGuards`, of our guards of login, callback and logouts: those which ask for no user. */
function isGuardOfLogins(guard: unknown): boolean {
  const prototype: unknown = typeof guard === 'function' ? guard.prototype : guard;
  return prototype instanceof RouteGuard && !(WHO in prototype);
}
