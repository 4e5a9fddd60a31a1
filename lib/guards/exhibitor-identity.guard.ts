import { Injectable, type ExecutionContext } from '@nestjs/common';
import { ExhibitorError } from '../errors/exhibitor.error.js';
import { isExhibitorError } from '../errors/is-exhibitor-error.js';
import type { HttpContext } from '../http/http-context.js';
import { setUser } from '../session/host-session.js';
import type { SessionState } from '../session/identity-reader.service.js';
import type { GuardResults } from './execution-context.js';
import { HEADERS, RouteGuard, RUN, SERVICES } from './route-guard.js';

/**
 * Requires a user who is logged in; for routes without an event. Sets `request.user`. 401 `unauthenticated` without an
 * identity, 404 `unknown_tenant`.
 *
 * @example
 * @Get('profile') @UseGuards(ExhibitorIdentityGuard)
 * profile(@CurrentIdentity() identity: ExhibitorIdentity) { return identity.claims; }
 */
@Injectable()
export class ExhibitorIdentityGuard extends RouteGuard {
  /** Replies depend on the user and must not be cached for others. A header that the handler sets replaces this one. @internal */
  protected override readonly [HEADERS] = { 'Cache-Control': 'private, no-store' };

  /** @internal */
  protected override async [RUN](http: HttpContext, context: ExecutionContext): Promise<GuardResults> {
    const tenantKey = await this.getTenant(http, context);
    const session = (await this.getIdentity(http, tenantKey)) ?? (await this.onNoIdentity(http));
    setUser(http, session);
    return { session };
  }

  /** Key of the tenant: that of `resolveTenant`, else of the only tenant; `undefined` leaves it to the identity. */
  protected getTenant(
    http: HttpContext,
    context: ExecutionContext,
  ): string | undefined | Promise<string | undefined> {
    return this[SERVICES].resolver.tenantKey(http, context);
  }

  /** The user of the request; `undefined` where there is none. An identity of another tenant does not count. */
  protected getIdentity(
    http: HttpContext,
    tenantKey: string | undefined,
  ): SessionState | undefined | Promise<SessionState | undefined> {
    return this[SERVICES].reader.read(http, tenantKey);
  }

  /**
   * No user is logged in. By default throws 401 `unauthenticated`. To redirect to the login instead, answer a promise that
   * never settles, since the request is answered.
   *
   * @example
   * protected override onNoIdentity(http: HttpContext): Promise<never> {
   *   http.redirect('/auth/login');
   *   return new Promise(() => undefined);
   * }
   */
  protected onNoIdentity(http: HttpContext): SessionState | Promise<SessionState> {
    if (this[SERVICES].reader.acceptsBearer) {
      http.setHeader('WWW-Authenticate', 'Bearer');
    }
    throw new ExhibitorError('unauthenticated', 'nobody is logged in');
  }

  protected override onFailure(error: unknown, http: HttpContext): never | Promise<never> {
    const isLoginFailure = isExhibitorError(error) && error.code === 'login_failed';
    if (isLoginFailure && this[SERVICES].reader.acceptsBearer) {
      http.setHeader('WWW-Authenticate', 'Bearer error="invalid_token"');
    }
    return super.onFailure(error, http);
  }
}
