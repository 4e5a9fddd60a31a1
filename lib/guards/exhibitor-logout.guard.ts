import { Injectable } from '@nestjs/common';
import type { HttpContext } from '../http/http-context.js';
import { RouteGuard, RUN, SERVICES, SET_HEADERS, setLoginHeaders } from './route-guard.js';

/**
 * Removes identity and selections, then runs the handler. Refuses requests that a page of another site caused (400
 * `invalid_argument`). Use it on a POST route: any page can cause a GET.
 *
 * @example
 * @Post('auth/logout') @UseGuards(ExhibitorLogoutGuard) @Redirect('/', 303) logout() {}
 */
@Injectable()
export class ExhibitorLogoutGuard extends RouteGuard {
  /** @internal */
  protected override [SET_HEADERS](http: HttpContext): void {
    setLoginHeaders(http);
  }

  /** @internal */
  protected override [RUN](http: HttpContext): Promise<void> {
    return this[SERVICES].login.end(http);
  }
}
