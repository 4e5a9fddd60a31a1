/** Where a browser finds the routes of the module: as the router serves them, and as the `redirectUri` of a tenant shows them. */
import { Inject, Injectable, Logger, Optional, RequestMethod, type HttpServer } from '@nestjs/common';
import { MODULE_PATH } from '@nestjs/common/constants.js';
import { Reflector } from '@nestjs/core';
import { RoutePathFactory } from '@nestjs/core/router/route-path-factory.js';
import type { HttpContext } from '../browser/http-context.js';
import type { CheckedOptions } from '../config/check-options.js';
import { browserLoginOf, type BrowserLogin, type Tenant } from '../config/tenant.js';
import { safeReturnTo } from '../login/return-to.js';
import { parseUrl } from '../model/urls.js';
import { NestParts } from './nest-parts.service.js';
import { ROUTE_SETTINGS, type RouteSettings } from './route-settings.js';

type Query = Record<string, string | undefined>;

/** The routes of the module as the browsers of a tenant see them. */
export interface OwnRoutes {
  /** Address of one of them, with a query of what is given. */
  urlOf(route: 'login' | 'failed' | 'choose' | 'logout', query?: Query): string;
  /** Address of this request, as its browser knows it. */
  urlOfRequest(http: HttpContext): string | undefined;
  /** Origin of `redirectUri`. */
  readonly origin: string;
  readonly afterLogin: string;
  readonly afterLogout: string;
}

/** Marks the controller, so that its module is found, and global guards leave its routes to their own guards. */
export const LOGIN_CONTROLLER = Symbol('nestjs-exhibitor.login-controller');

/** Added to the address of a login that was sent to the origin of its `redirectUri`: it is sent there once. */
const MOVED = 'moved';

@Injectable()
export class RouteAddresses {
  /** Private, since it holds all of the application, which no log of a guard may show. */
  readonly #parts: NestParts;

  constructor(
    @Optional() @Inject(ROUTE_SETTINGS) private readonly settings: RouteSettings | undefined,
    @Inject(NestParts) parts: NestParts,
  ) {
    this.#parts = parts;
  }

  /** Without routes, and for a tenant whose users do not log in here, there are none. */
  of(tenant: Tenant | undefined): OwnRoutes | undefined {
    return tenant?.login?.redirectUri === undefined || this.settings === undefined
      ? undefined
      : this.#routesOf(this.settings, tenant);
  }

  /** Where a person goes whose tenant is not known, after a login or a logout. */
  after(event: 'login' | 'logout'): string {
    const { afterLogin, afterLogout } = this.settings ?? {};
    return (event === 'login' ? afterLogin : afterLogout) ?? this.#startPage();
  }

  /** Address of a route beside that of a request, for a person whose tenant is not known. */
  beside(http: HttpContext, route: string, query: Query): string {
    const parts = segmentsOf(http.target.pathname).slice(0, -1);
    return withQuery(toPath([...parts, route]), query);
  }

  /**
   * The address of this login at the origin of `redirectUri`, where its cookies are read. `undefined` where the request is there, or was
   * sent there before: behind some proxies the host of a request is another one.
   */
  elsewhere(tenant: Tenant, http: HttpContext): string | undefined {
    const routes = this.of(tenant);
    const { searchParams } = http.target;
    if (routes === undefined || http.authority === undefined || searchParams.has(MOVED)) {
      return undefined;
    }
    const own = new URL(routes.origin);
    const asked = parseUrl(`${own.protocol}//${http.authority}`);
    if (asked === undefined || asked.host === own.host) {
      return undefined;
    }
    // A login route of the host has parameters and a guard of its own.
    const isOfHost = !(LOGIN_CONTROLLER in http.context.getClass());
    const ownRoute = isOfHost ? addressOf(http, routes) : undefined;
    const login = ownRoute ?? routes.urlOf('login', Object.fromEntries(searchParams));
    return `${own.origin}${withQuery(login, { [MOVED]: '1' })}`;
  }

  /**
   * The routes are beside the callback. For example, the path of `redirectUri` is `/shop/api/auth/callback`, and the router serves
   * `/api/auth/callback`, with `api` as global prefix. So `/shop` is the outer part of all paths, which a proxy removes, or an application
   * of Express in which this one is mounted. To a browser
   *
   * - the login is at `/shop/api/auth/login`,
   * - the start page, where the host names none, at `/shop/api`,
   * - and what is requested here as `/api/profile` at `/shop/api/profile`.
   */
  #routesOf(settings: RouteSettings, tenant: Tenant): OwnRoutes {
    const login = browserLoginOf(tenant);
    const callback = this.callbackInBrowser(tenant);
    const outer = outerPart(callback, segmentsOf(this.callbackInRouter(methodOf(login))));
    const folder = toPath(callback.slice(0, -1));
    const startPage = this.#startPage(outer);
    return {
      urlOf: (route, query) => withQuery(`${folder}/${route}`, query),
      urlOfRequest: ({ request, target: { pathname, search } }) => {
        // `pathname` has the end of the outer part that an application of Express has removed, but not what a proxy has.
        const inPathname = segmentsOf(request.baseUrl ?? '').length;
        const missing = outer.slice(0, Math.max(outer.length - inPathname, 0));
        return safeReturnTo(`${toPath(missing)}${pathname}${search}`);
      },
      origin: new URL(login.redirectUri).origin,
      afterLogin: settings.afterLogin ?? startPage,
      afterLogout: settings.afterLogout ?? startPage,
    };
  }

  /** The start page of the application: `/`, or `/api` with a global prefix; with the outer part `/shop`, `/shop/` or `/shop/api`. */
  #startPage(outer: readonly string[] = []): string {
    const prefix = segmentsOf(this.#parts.config.getGlobalPrefix());
    return prefix.length === 0 ? `${toPath(outer)}/` : toPath([...outer, ...prefix]);
  }

  /** The parts of the path of the callback, as a browser sees it. */
  callbackInBrowser(tenant: Tenant): readonly string[] {
    return segmentsOf(new URL(browserLoginOf(tenant).redirectUri).pathname);
  }

  /** The path of the callback as the router serves it. `exclude` of a global prefix may name a method. */
  callbackInRouter(method: RequestMethod): string {
    const ownModule = [...this.#parts.modules.values()].find(({ controllers }) =>
      [...controllers.keys()].some((one) => typeof one === 'function' && LOGIN_CONTROLLER in one),
    );
    // Of Nest's `RouterModule`.
    const key = MODULE_PATH + this.#parts.modules.applicationId;
    const modulePath = ownModule && new Reflector().get<string | undefined>(key, ownModule.metatype);
    const globalPrefix = this.#parts.config.getGlobalPrefix();
    const route = { modulePath, ctrlPath: this.settings?.path ?? '', methodPath: 'callback', globalPrefix };
    return new RoutePathFactory(this.#parts.config).create(route, method)[0] ?? '';
  }

  /** Warns of the first `redirectUri` whose path the router does not serve as the callback: its logins would end with a 404. */
  compare({ tenants, pathOf }: CheckedOptions): void {
    const adapter: HttpServer = this.#parts.adapterHost.httpAdapter;
    const isExpress = adapter.getType() === 'express';
    // Nest 11 does not tell: these are the defaults of the routers.
    const { caseSensitive = !isExpress, ignoreTrailingSlash = isExpress } =
      adapter.getRouteMatchingOptions?.() ?? {};
    const asMatched = (path: string): string =>
      (caseSensitive ? path : path.toLowerCase()).replace(ignoreTrailingSlash ? /\/$/ : '', '');
    for (const [key, { login }] of 'find' in tenants ? [] : tenants) {
      if (login?.redirectUri === undefined) {
        continue;
      }
      const given = new URL(login.redirectUri).pathname;
      const served = this.callbackInRouter(methodOf(login));
      // Express compares a path as it is sent, Fastify decodes it first.
      const callback = isExpress ? served : encodeURI(served);
      // A parameter of the path, such as `:tenant`, stands for any value: here for that of the `redirectUri`.
      const values = given.split('/');
      const filled = callback.split('/').map((part, at) => (part.includes(':') ? values[at] : part));
      if (asMatched(given) !== asMatched(filled.join('/'))) {
        const line = `its path is ${given}, but that of the callback is ${callback}`;
        new Logger('nestjs-exhibitor').warn(`${pathOf(key)}.login.redirectUri: ${line}`);
        return;
      }
    }
  }
}

/** The address with what is given of the query. It may have one already. */
export function withQuery(address: string, query: Query = {}): string {
  const given = Object.entries(query).filter((one): one is [string, string] => one[1] !== undefined);
  const mark = address.includes('?') ? '&' : '?';
  return given.length === 0 ? address : `${address}${mark}${new URLSearchParams(given)}`;
}

/** Where a browser can come back to: the address of a GET, as it knows it. */
export function addressOf(http: HttpContext, routes: OwnRoutes | undefined): string | undefined {
  if (http.request.method !== 'GET') {
    return undefined;
  }
  const { pathname, search } = http.target;
  return routes === undefined ? safeReturnTo(`${pathname}${search}`) : routes.urlOfRequest(http);
}

function segmentsOf(path: string): string[] {
  return path.split('/').filter(Boolean);
}

/** Empty for no segments. */
function toPath(segments: readonly string[]): string {
  return segments.map((segment) => `/${segment}`).join('');
}

/** What a path in the browser has before that in the router; none where it does not end in that. */
function outerPart(inBrowser: readonly string[], inRouter: readonly string[]): readonly string[] {
  const end = inBrowser.slice(-inRouter.length);
  const isSamePath = inRouter.every((part, at) => part.includes(':') || isSame(part, end[at]));
  return isSamePath ? inBrowser.slice(0, -inRouter.length) : [];
}

function isSame(inRouter: string, inBrowser = ''): boolean {
  return [inRouter, encodeURI(inRouter)].some((one) => one.toLowerCase() === inBrowser.toLowerCase());
}

function methodOf(login: Partial<Pick<BrowserLogin, 'responseType'>>): RequestMethod {
  return login.responseType === 'code' ? RequestMethod.GET : RequestMethod.POST;
}
