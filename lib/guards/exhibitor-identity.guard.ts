import { Inject, Injectable, type CanActivate, type ExecutionContext } from '@nestjs/common';
import { ExhibitorError, isExhibitorError } from '../errors/exhibitor.error.js';
import type { HttpExchange } from '../login/http-exchange.js';
import { IdentitySession, type SessionState } from '../login/identity-session.service.js';
import type { ExhibitorRequest } from '../options/exhibitor-request.interface.js';
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
    const exchange = this.getExchange(context);
    // What depends on the person must not come out of a cache for another; a handler's own header wins later.
    exchange.setHeader('Cache-Control', 'private, no-store');
    try {
      await this.check(exchange, context);
      return true;
    } catch (error) {
      return this.onFailure(error, exchange);
    }
  }

  /** The steps of this guard. */
  protected async check(exchange: HttpExchange, context: ExecutionContext): Promise<void> {
    const state = await this.requireIdentity(exchange, context);
    rememberState(exchange.request, { session: state }, context);
  }

  protected async requireIdentity(exchange: HttpExchange, context: ExecutionContext): Promise<SessionState> {
    const tenantKey = await this.getTenant(exchange, context);
    const state = (await this.getIdentity(exchange, tenantKey)) ?? (await this.onNoIdentity(exchange));
    exchange.request.user = state.identity;
    return state;
  }

  protected getExchange(context: ExecutionContext): HttpExchange {
    return this.resolver.exchange({ request: this.getRequest(context), response: this.getResponse(context) });
  }

  protected getRequest(context: ExecutionContext): ExhibitorRequest {
    return requestPairOf(context).request;
  }

  protected getResponse(context: ExecutionContext): unknown {
    return requestPairOf(context).response;
  }

  protected getTenant(exchange: HttpExchange, context: ExecutionContext): Promise<string | undefined> {
    return this.resolver.tenantKey(exchange, context);
  }

  protected getIdentity(
    exchange: HttpExchange,
    tenantKey: string | undefined,
  ): Promise<SessionState | undefined> {
    return this.resolver.identity(exchange, tenantKey);
  }

  /**
   * Nobody is logged in. Override it to throw something else, or to redirect to the login page: then answer a promise
   * that never settles, since the request is answered.
   *
   * @example
   * protected override onNoIdentity(exchange: HttpExchange): Promise<never> {
   *   exchange.redirect('/auth/login');
   *   return new Promise(() => undefined);
   * }
   */
  protected onNoIdentity(exchange: HttpExchange): SessionState | Promise<SessionState> {
    if (this.session.acceptsBearer) exchange.setHeader('WWW-Authenticate', 'Bearer');
    throw new ExhibitorError('unauthenticated', 'nobody is logged in');
  }

  /** Turns an {@link ExhibitorError} into the reply of its code; other errors are the host's and pass as they are. */
  protected onFailure(error: unknown, exchange: HttpExchange): never {
    if (!isExhibitorError(error)) throw error;
    if (error.code === 'login_failed' && this.session.acceptsBearer) {
      exchange.setHeader('WWW-Authenticate', 'Bearer error="invalid_token"');
    }
    const retryAfter = retryAfterOf(error);
    if (retryAfter !== undefined) exchange.setHeader('Retry-After', retryAfter);
    throw toHttpException(error);
  }
}
