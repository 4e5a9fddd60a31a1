import { Injectable } from '@nestjs/common';
import type { HttpContext } from '../http/http-context.js';
import { rememberState } from './request-memory.js';
import { RouteGuard, RUN, SERVICES, SET_HEADERS, setLoginHeaders } from './route-guard.js';

/**
 * Finishes a login: on a GET route for `code`, on a POST route for `form_post`. Sets `request.user`, stores the identity and
 * runs the handler. Every refusal is 401 `login_failed` with a `reason`.
 *
 * @example
 * @Get('auth/callback') @UseGuards(ExhibitorCallbackGuard) @Redirect('/', 303)
 * callback(@CurrentIdentity() identity: ExhibitorIdentity) { return { url: identity.returnTo ?? '/' }; }
 */
@Injectable()
export class ExhibitorCallbackGuard extends RouteGuard {
  /** @internal */
  protected override [SET_HEADERS](http: HttpContext): void {
    setLoginHeaders(http);
  }

  /** @internal */
  protected override async [RUN](http: HttpContext): Promise<void> {
    const session = await this[SERVICES].login.finish(http, () => this.getCallbackPath(http));
    rememberState(http.request, { session, eventId: session.identity.eventId });
  }

  /** Path that the provider called. Override it behind a proxy that removes a prefix of the path. */
  protected getCallbackPath(http: HttpContext): string | Promise<string> {
    return http.target.pathname;
  }
}
