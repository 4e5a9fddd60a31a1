import { Inject, Injectable, type CanActivate, type ExecutionContext } from '@nestjs/common';
import { ExhibitorError, isExhibitorError } from '../errors/exhibitor.error.js';
import type { HttpContext } from '../http/http-context.js';
import { IdentitySession, type SessionState } from '../session/identity-session.service.js';
import type { ExhibitorRequest } from '../model/exhibitor-request.interface.js';
import { requestPairOf } from './execution-request.js';
import { rememberState } from './request-state.js';
import { RequestResolver } from './request-resolver.service.js';
import { retryAfterOf, toHttpException } from './to-http-exception.js';

/**
 * Needs a logged-in person, nothing else: for pages without an event. Sets `request.user`; 401 `unauthenticated`
 * without an identity, 404 `unknown_tenant`.
 *
 * @example
 * @Get('profile') @UseGuards(ExhibitorIdentityGuard)
 * profile(@CurrentIdentity() identity: ExhibitorIdentity) { return identity.claims; }
 */
@Injectable()
export class ExhibitorIdentityGuard implements CanActivate {
  constructor(
    @Inject(RequestResolver) protected readonly resolver: RequestResolver,
    @Inject(IdentitySession) protected readonly session: IdentitySession,
  ) {}

  async canActivate(context: ExecutionContext): Promise<boolean> {
    const http = this.getHttp(context);
    // What depends on the person must not come out of a cache for another; a handler's own header wins later.
    http.setHeader('Cache-Control', 'private, no-store');
    try {
      await this.check(http, context);
      return true;
    } catch (error) {
      return this.onFailure(error, http);
    }
  }

  /** The steps of this guard. */
  protected async check(http: HttpContext, context: ExecutionContext): Promise<void> {
    const state = await this.requireIdentity(http, context);
    rememberState(http.request, { session: state }, context);
  }

  protected async requireIdentity(http: HttpContext, context: ExecutionContext): Promise<SessionState> {
    const tenantKey = await this.getTenant(http, context);
    const state = (await this.getIdentity(http, tenantKey)) ?? (await this.onNoIdentity(http));
    http.request.user = state.identity;
    return state;
  }

  protected getHttp(context: ExecutionContext): HttpContext {
    return this.resolver.httpOf({ request: this.getRequest(context), response: this.getResponse(context) });
  }

  protected getRequest(context: ExecutionContext): ExhibitorRequest {
    return requestPairOf(context).request;
  }

  protected getResponse(context: ExecutionContext): unknown {
    return requestPairOf(context).response;
  }

  protected getTenant(http: HttpContext, context: ExecutionContext): Promise<string | undefined> {
    return this.resolver.tenantKey(http, context);
  }

  protected getIdentity(http: HttpContext, tenantKey: string | undefined): Promise<SessionState | undefined> {
    return this.resolver.identity(http, tenantKey);
  }

  /**
   * Nobody is logged in. Override it to throw something else, or to redirect to the login page: then answer a promise
   * that never settles, since the request is answered.
   *
   * @example
   * protected override onNoIdentity(http: HttpContext): Promise<never> {
   *   http.redirect('/auth/login');
   *   return new Promise(() => undefined);
   * }
   */
  protected onNoIdentity(http: HttpContext): SessionState | Promise<SessionState> {
    if (this.session.acceptsBearer) {
      http.setHeader('WWW-Authenticate', 'Bearer');
    }
    throw new ExhibitorError('unauthenticated', 'nobody is logged in');
  }

  /** Turns an {@link ExhibitorError} into the reply of its code; other errors are the host's and pass as they are. */
  protected onFailure(error: unknown, http: HttpContext): never {
    if (!isExhibitorError(error)) {
      throw error;
    }
    if (error.code === 'login_failed' && this.session.acceptsBearer) {
      http.setHeader('WWW-Authenticate', 'Bearer error="invalid_token"');
    }
    const retryAfter = retryAfterOf(error);
    if (retryAfter !== undefined) {
      http.setHeader('Retry-After', retryAfter);
    }
    throw toHttpException(error);
  }
}
