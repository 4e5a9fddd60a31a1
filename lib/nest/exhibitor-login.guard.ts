import { Injectable } from '@nestjs/common';
import { mayShowPage } from '../browser/fetch-metadata.js';
import type { HttpContext } from '../browser/http-context.js';
import type { LoginParameters } from '../login/login.interface.js';
import { safeReturnTo } from '../login/return-to.js';
import { textOf } from './request-fields.js';
import type { Place } from './refusals.js';
import { DECIDE, PLACE, requirePerson, RouteGuard, SERVICES } from './route-guard.js';

/**
 * Redirects the browser to the identity provider. `returnTo` is read from the query (a path of this origin, else it is
 * dropped), the event from the request. The handler never runs. 400 `invalid_argument` where the request is no navigation or a
 * parameter is wrong, 404 `unknown_tenant`; with `login.discovery`, 401 `login_failed`, 503 or 504 for metadata that cannot be used. A
 * page that a browser loads ahead is 503, and HEAD 204. With `routes`, a request at another origin than that of `redirectUri` is led there
 * once, since cookies of a login are of one origin.
 *
 * @example
 * @Get('auth/login') @UseGuards(ExhibitorLoginGuard) login() {}
 */
@Injectable()
export class ExhibitorLoginGuard extends RouteGuard {
  /** @internal */
  protected override async [DECIDE](http: HttpContext): Promise<never> {
    await requirePerson(http);
    const { login, pages, tenants } = this[SERVICES];
    const tenant = await this.getTenant(http);
    const mayBeLed = pages.hasRoutes && mayShowPage(http);
    const elsewhere = mayBeLed && pages.addresses.elsewhere(await tenants.resolve(tenant), http);
    if (elsewhere) {
      return this.redirect(http, elsewhere);
    }
    const url = await login.start(http, tenant, async () => ({
      eventId: await this.getEvent(http),
      returnTo: await this.getReturnTo(http),
      led: http.request.query['led'] === '1',
      parameters: await this.#parametersOf(http),
    }));
    return this.redirect(http, url);
  }

  /** With `routes`, the link "Use another account" asks for the login page of the provider. */
  async #parametersOf(http: HttpContext): Promise<LoginParameters | undefined> {
    const parameters = await this.getLoginParameters(http);
    const isOtherAccount = this[SERVICES].pages.hasRoutes && http.request.query['prompt'] === 'login';
    return isOtherAccount ? { ...parameters, prompt: 'login' } : parameters;
  }

  /** @internal */
  protected override async [PLACE](http: HttpContext): Promise<Place> {
    return { eventId: await this.getEvent(http), returnTo: safeReturnTo(await this.getReturnTo(http)) };
  }

  /**
   * The event to log in for; `undefined` where there is none. By default the route parameter `eventId`, else the query. With
   * `resolveEvent` the query, where `redirectToLogin` puts the event of the request, else what it answers. A forged event does no harm:
   * each guarded request checks its own.
   */
  protected getEvent(http: HttpContext): string | undefined | Promise<string | undefined> {
    const services = this[SERVICES];
    const { params, query } = http.request;
    const inQuery = textOf(query?.['eventId']);
    return services.resolvers.resolveEvent === undefined
      ? (textOf(params?.['eventId']) ?? inQuery)
      : (inQuery ?? services.ask('resolveEvent', http));
  }

  /** Where to go after the login. Anything but a path of this origin is dropped. */
  protected getReturnTo(http: HttpContext): string | undefined | Promise<string | undefined> {
    return textOf(http.request.query?.['returnTo']);
  }

  /**
   * Parameters of this login, over the options of the tenant. By default none. Values are checked: a wrong one answers 400
   * `invalid_argument`, so they may be taken from the request. A browser can remove them from the address: where it matters,
   * check `auth_time` and `acr` in `identity.claims`. `maxAge` is enforced at the callback.
   *
   * @example
   * protected override getLoginParameters({ request }: HttpContext): LoginParameters {
   *   return request.query['switch'] === undefined ? {} : { prompt: 'login' };
   * }
   */
  protected getLoginParameters(
    _http: HttpContext,
  ): LoginParameters | undefined | Promise<LoginParameters | undefined> {
    return undefined;
  }
}
