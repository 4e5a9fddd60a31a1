import { Inject, Injectable, Optional, type CanActivate, type ExecutionContext } from '@nestjs/common';
import { ConfigurationError } from '../errors/configuration.error.js';
import { isExhibitorError } from '../errors/is-exhibitor-error.js';
import { isNavigation, isWithoutUser } from '../browser/fetch-metadata.js';
import type { HttpContext } from '../browser/http-context.js';
import type { ExhibitorRequest } from '../model/exhibitor-request.interface.js';
import { browserLoginOf } from '../config/tenant.js';
import { isOverHttp, keepResults, requestPairOf, type Results } from './execution-context.js';
import { ExhibitorGuardServices, requireServices } from './guard-services.js';
import { keepPlace, markRefusal, nobody, type Place } from './refusals.js';
import { addressOf, withQuery, type OwnRoutes } from './route-addresses.js';

// Symbols, so that no member of a host's subclass replaces one by accident: the guard would then let every request pass.

/** What a guard does for a request: throws, answers the request itself and never settles, or returns what it has found. */
export const DECIDE = Symbol('nestjs-exhibitor.decide');
export const SERVICES = Symbol('nestjs-exhibitor.services');
/** What a new login would be for, where a request is led to it or refused. */
export const PLACE = Symbol('nestjs-exhibitor.place');

/** Common steps of all guards. Every step may be overridden; all but `getRequest` and `getResponse` may return a promise. */
@Injectable()
export abstract class RouteGuard implements CanActivate {
  readonly #services: ExhibitorGuardServices;

  constructor(@Optional() @Inject(ExhibitorGuardServices) services?: ExhibitorGuardServices) {
    this.#services = requireServices(services, new.target.name);
  }

  /** @internal */
  protected abstract [DECIDE](http: HttpContext): Promise<Results | undefined>;

  /** A getter, so that no log of a guard shows them. @internal */
  protected get [SERVICES](): ExhibitorGuardServices {
    return this.#services;
  }

  /** Runs the steps of this guard; called by Nest. */
  canActivate(context: ExecutionContext): boolean | Promise<boolean> {
    const http = this.#services.httpOf(this.getRequest(context), this.getResponse(context), context);
    return this.#run(http);
  }

  async #run(http: HttpContext): Promise<boolean> {
    try {
      const results = await this[DECIDE](http);
      if (results !== undefined) {
        keepResults(http, results);
      }
      return true;
    } catch (error) {
      await this.#fail(http, error);
      // An override of `onFailure` has thrown nothing: Nest answers 403.
      return false;
    }
  }

  /** Throws what `onFailure` throws, for the filter. Where the filter shows a page to a person, it reads what the request was about. */
  async #fail(http: HttpContext, error: unknown): Promise<void> {
    try {
      await this.onFailure(http, error);
    } catch (thrown) {
      const isPage = isOverHttp(http) && this.#services.pages.isFor(http);
      if (!isPage) {
        throw thrown;
      }
      keepPlace(http.request, await this.#placeOf(http));
      // A step may throw anything; the filter knows objects only.
      const told = Object(thrown) === thrown ? thrown : new Error(`a step threw no error: ${typeof thrown}`);
      throw markRefusal(told);
    }
  }

  /** What cannot be found is left out: it may be what has just failed. */
  async #placeOf(http: HttpContext): Promise<Place> {
    try {
      const tenant = await this.getTenant(http);
      return { tenant, ...(await this[PLACE](http, await this.#services.pages.routesFor(tenant))) };
    } catch {
      return { returnTo: undefined };
    }
  }

  /** The request of Nest's context, HTTP or GraphQL. */
  protected getRequest(context: ExecutionContext): ExhibitorRequest {
    return requestPairOf(context, this.constructor.name).request;
  }

  /** The response of Nest's context. Never a promise: Fastify's reply is thenable, and to await it would wait until it is sent. */
  protected getResponse(context: ExecutionContext): unknown {
    return requestPairOf(context, this.constructor.name).response;
  }

  /**
   * Key of the tenant: that of `resolveTenant`, else of the only tenant; `undefined` leaves it to the identity, and fails with
   * `tenant_required` where a login starts. The callback takes its tenant from the `state`, a logout from the cookies or
   * the session of the host.
   */
  protected getTenant(http: HttpContext): string | undefined | Promise<string | undefined> {
    return this.#services.resolvers.resolveTenant === undefined
      ? this.#services.tenants.onlyKey
      : this.#namedTenant(http);
  }

  async #namedTenant(http: HttpContext): Promise<string | undefined> {
    const { tenants } = this.#services;
    const named = await this.#services.ask('resolveTenant', http);
    if (named === undefined) {
      return tenants.onlyKey;
    }
    // An unknown one is 404, also where nobody is logged in.
    await tenants.find(named);
    return named;
  }

  /** Throws the reply for an {@link ExhibitorError}, by its code. Other errors are thrown as they are. */
  protected onFailure(http: HttpContext, error: unknown): never | Promise<never> {
    throw isExhibitorError(error) ? this.#services.exceptionFor(error, http, http.context) : error;
  }

  /**
   * Answers the request by a redirect, 302 to a GET and else 303, and never settles, so that nothing of the route runs. For steps that
   * end in it. Over HTTP only.
   *
   * @param url a path or a URL, in ASCII
   * @example
   * protected override onNoExhibitor(http: HttpContext): Promise<never> {
   *   return this.redirect(http, '/welcome');
   * }
   */
  protected async redirect(http: HttpContext, url: string): Promise<never> {
    if (!isOverHttp(http)) {
      throw new Error(`${this.constructor.name} can redirect requests over HTTP only`);
    }
    http.redirect(url, http.request.method === 'GET' ? 302 : 303);
    return neverSettle();
  }

  /**
   * Leads a navigation of a browser to the login route, which then leads back: with `returnTo`, the address of this request, and
   * its event; at the callback, with those of the login that failed. Any other request is refused with 401 `unauthenticated`: a script,
   * a form, GraphQL.
   *
   * @param path of the login route, `/auth/login`. It may have a query. Default: that of `routes`; `configuration_invalid` without them
   */
  protected async redirectToLogin(http: HttpContext, path?: string): Promise<never> {
    const { pages } = this.#services;
    const routes = pages.hasRoutes ? await pages.routesFor(await this.getTenant(http)) : undefined;
    const login = path ?? routes?.urlOf('login') ?? (await this.#loginMissing(http));
    if (!isOverHttp(http) || !isNavigation(http, this.#services.settings().cookies.sameSite)) {
      throw nobody();
    }
    const { eventId, returnTo } = await this[PLACE](http, routes);
    return this.redirect(http, withQuery(login, { eventId, returnTo }));
  }

  /** Says why `routes` have no address of a login. */
  async #loginMissing(http: HttpContext): Promise<never> {
    const { pages, tenants } = this.#services;
    if (pages.hasRoutes) {
      browserLoginOf(await tenants.resolve(await this.getTenant(http)));
    }
    const expected = 'must be set, or redirectToLogin be called with the path of the login route';
    throw new ConfigurationError([{ path: 'routes', expected }]);
  }

  /** @internal */
  protected async [PLACE](http: HttpContext, routes?: OwnRoutes): Promise<Place> {
    return { returnTo: addressOf(http, routes) };
  }
}

/** Sets the headers of the login routes: no cache, and no referrer, since the address of a callback contains the code. */
export function setLoginHeaders(http: HttpContext): void {
  http.setHeader('Cache-Control', 'private, no-store');
  http.setHeader('Referrer-Policy', 'no-referrer');
}

/** Answers a page that a browser loads ahead, and HEAD: neither must begin a login, nor spend one. */
export async function requirePerson(http: HttpContext): Promise<void> {
  setLoginHeaders(http);
  if (isWithoutUser(http)) {
    http.setHeader('Cache-Control', 'no-store');
    // Browsers keep each 2xx of a page that they load ahead: the click that follows a kept 204 does nothing.
    http.reply(http.request.method === 'HEAD' ? 204 : 503);
    await neverSettle();
  }
}

/** What a guard awaits once it has answered the request: `true` would run the handler, `false` would answer 403. */
export function neverSettle(): Promise<never> {
  return new Promise(() => undefined);
}
