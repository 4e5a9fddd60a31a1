import { Injectable } from '@nestjs/common';
import type { HttpContext } from '../browser/http-context.js';
import { callPassport } from './passport.js';
import { DECIDE, neverSettle, RouteGuard, SERVICES, setLoginHeaders } from './route-guard.js';

/**
 * Removes identity and selections, ends the login, then runs the handler. Where `login.endSession` is set and the request brings an
 * identity, be it expired, or its ID token, the handler does not run: the guard answers 303 to the provider, which ends its session and
 * then shows `login.postLogoutRedirectUri`. The handler does run for a login that has already ended, and where the address of the provider
 * is not known: neither fails a logout. Refuses requests that a page of another origin caused (400 `invalid_argument`). Use it on a POST
 * route: any page can cause a GET.
 *
 * @example
 * @Post('auth/logout') @UseGuards(ExhibitorLogoutGuard) @Redirect('/', 303) logout() {}
 */
@Injectable()
export class ExhibitorLogoutGuard extends RouteGuard {
  /** @internal */
  protected override async [DECIDE](http: HttpContext): Promise<undefined> {
    setLoginHeaders(http);
    const { led, logout } = this[SERVICES];
    const endSessionUrl = await logout.end(http, () => this.removeIdentity(http));
    led.clear(http);
    if (endSessionUrl !== undefined) {
      http.redirect(endSessionUrl, 303);
      await neverSettle();
    }
  }

  /**
   * Removes what this host keeps of the user, after the login was ended. By default with `session: 'host'` calls and awaits Passport's
   * `request.logOut()`, and fails with `configuration_invalid` where there is none; else nothing.
   *
   * @example
   * protected override async removeIdentity({ request }: HttpContext): Promise<void> {
   *   await new Promise<void>((resolve, reject) =>
   *     (request as Request).session.destroy((error) => (error ? reject(error) : resolve())),
   *   );
   * }
   */
  protected removeIdentity(http: HttpContext): void | Promise<void> {
    return this[SERVICES].logout.isOfHost
      ? callPassport(http, 'logOut', 'ExhibitorLogoutGuard.removeIdentity')
      : undefined;
  }
}
