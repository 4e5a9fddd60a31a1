import { Injectable, type ExecutionContext } from '@nestjs/common';
import { ExhibitorError } from '../errors/exhibitor.error.js';
import { isExhibitorError } from '../errors/is-exhibitor-error.js';
import type { HttpContext } from '../http/http-context.js';
import type { SessionState } from '../session/identity-reader.service.js';
import { runSteps, settled, type MaybePromise, type Steps } from '../time/steps.js';
import { rememberState, stateOf } from './request-memory.js';
import { userOf } from './request-user.js';
import { RouteGuard, RUN, SERVICES, SET_HEADERS } from './route-guard.js';

/** Key of the method that finds what the guard is about. @internal */
export const FIND = Symbol('find');

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
  /** @internal */
  protected override [SET_HEADERS](http: HttpContext): void {
    // Replies depend on the user and must not be cached for others. A header that the handler sets replaces this one.
    // Where an earlier guard accepted the request, it has set the header.
    if (stateOf(http.request) === undefined) {
      http.setHeader('Cache-Control', 'private, no-store');
    }
  }

  /** @internal */
  protected override [RUN](http: HttpContext, context: ExecutionContext): MaybePromise<void> {
    return runSteps(this[FIND](http, context));
  }

  /** @internal */
  protected *[FIND](http: HttpContext, context: ExecutionContext): Steps<void> {
    const session = yield* this.requireIdentity(http, context);
    rememberState(http.request, { session }, context);
  }

  /** Finds the tenant and the identity, and sets `request.user`. @internal */
  protected *requireIdentity(http: HttpContext, context: ExecutionContext): Steps<SessionState> {
    const tenantKey = yield* settled(this.getTenant(http, context));
    const session =
      (yield* settled(this.getIdentity(http, tenantKey))) ?? (yield* settled(this.onNoIdentity(http)));
    http.request.user = session.identity;
    return session;
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
    return userOf(this[SERVICES].reader, http, tenantKey);
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
