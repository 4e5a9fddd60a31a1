import { Injectable, type ExecutionContext } from '@nestjs/common';
import type { HttpContext } from '../http/http-context.js';
import { answered, LOGIN_HEADERS, RouteGuard } from './route-guard.js';

/**
 * Removes identity and selections, then runs the handler. Where `login.endSession` is set and somebody was logged in, the
 * handler does not run: the guard answers 303 to the provider, which ends its session and then shows
 * `login.postLogoutRedirectUri`. Refuses requests that a page of another site caused (400
 * `invalid_argument`). Use it on a POST route: any page can cause a GET.
 *
 * @example
 * @Post('auth/logout') @UseGuards(ExhibitorLogoutGuard) @Redirect('/', 303) logout() {}
 */
@Injectable()
export class ExhibitorLogoutGuard extends RouteGuard {
  /** Logs the user out; called by Nest. */
  override canActivate(context: ExecutionContext): boolean | Promise<boolean> {
    return RouteGuard.run(this, context, LOGIN_HEADERS, (http) => this.#decide(http));
  }

  async #decide(http: HttpContext): Promise<void> {
    const endSessionUrl = await RouteGuard.servicesOf(this).logout.end(http);
    if (endSessionUrl !== undefined) {
      http.redirect(endSessionUrl, 303);
      await answered();
    }
  }
}
