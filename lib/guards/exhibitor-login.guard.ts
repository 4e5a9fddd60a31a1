import { Injectable, type ExecutionContext } from '@nestjs/common';
import type { HttpContext } from '../http/http-context.js';
import { requireNavigation } from '../login/login.service.js';
import { RouteGuard, setLoginHeaders } from './route-guard.js';

/**
 * Redirects the browser to the identity provider. `returnTo` is read from the query (a path of this origin, else it is
 * dropped), the event from the request. The handler never runs.
 *
 * @example
 * @Get('auth/login') @UseGuards(ExhibitorLoginGuard) login() {}
 */
@Injectable()
export class ExhibitorLoginGuard extends RouteGuard {
  /** @internal */
  protected override setHeaders(http: HttpContext): void {
    setLoginHeaders(http);
  }

  /** @internal */
  protected override async run(http: HttpContext, context: ExecutionContext): Promise<never> {
    requireNavigation(http);
    const tenant = await this.getTenant(http, context);
    const eventId = await this.getEvent(http, context);
    const returnTo = await this.getReturnTo(http);
    http.redirect(await this.services.login.start(http, { tenant, eventId, returnTo }));
    // The request is answered: `true` would run the handler, `false` would answer 403.
    return new Promise<never>(() => undefined);
  }

  /** The event to log in for; `undefined` where there is none. */
  protected getEvent(
    http: HttpContext,
    context: ExecutionContext,
  ): string | undefined | Promise<string | undefined> {
    return this.services.resolver.eventId(http, context);
  }

  /** Where to go after the login. Anything but a path of this origin is dropped. */
  protected getReturnTo(http: HttpContext): string | undefined | Promise<string | undefined> {
    const returnTo = http.request.query?.['returnTo'];
    return typeof returnTo === 'string' ? returnTo : undefined;
  }
}
