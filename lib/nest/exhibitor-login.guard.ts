import { Injectable } from '@nestjs/common';
import type { HttpContext } from '../browser/http-context.js';
import type { LoginParameters } from '../login/authorization-request.js';
import { DECIDE, requirePerson, RouteGuard, SERVICES, textOf } from './route-guard.js';

/**
 * Redirects the browser to the identity provider. `returnTo` is read from the query (a path of this origin, else it is
 * dropped), the event from the request. The handler never runs. 400 `invalid_argument` where the request is no navigation or a
 * parameter is wrong, 404 `unknown_tenant`; with `login.discovery`, 401 `login_failed`, 503 or 504 for metadata that cannot be used. A
 * page that a browser loads ahead is 503, and HEAD 204.
 *
 * @example
 * @Get('auth/login') @UseGuards(ExhibitorLoginGuard) login() {}
 */
@Injectable()
export class ExhibitorLoginGuard extends RouteGuard {
  /** @internal */
  protected override async [DECIDE](http: HttpContext): Promise<never> {
    await requirePerson(http);
    const tenant = await this.getTenant(http);
    const url = await this[SERVICES].login.start(http, tenant, async () => ({
      eventId: await this.getEvent(http),
      returnTo: await this.getReturnTo(http),
      parameters: await this.getLoginParameters(http),
    }));
    return this.redirect(http, url);
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
    return services.settings().resolveEvent === undefined
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
