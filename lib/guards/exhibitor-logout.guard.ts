import { Inject, Injectable, type CanActivate, type ExecutionContext } from '@nestjs/common';
import { ExhibitorError } from '../errors/exhibitor.error.js';
import type { HttpContext } from '../http/http-context.js';
import { IdentitySession, type SessionState } from '../session/identity-session.service.js';
import { LoginRoute } from './login-route.js';
import { RequestResolver } from './request-resolver.service.js';
import { isSameOrigin } from '../http/cross-site-request.js';

/**
 * Forgets identity and selection, then runs the handler. A request of another site is refused (400
 * `invalid_argument`). Put it on a POST route: a GET can be caused by any page.
 *
 * @example
 * @Post('auth/logout') @UseGuards(ExhibitorLogoutGuard) @Redirect('/', 303) logout() {}
 */
@Injectable()
export class ExhibitorLogoutGuard extends LoginRoute implements CanActivate {
  constructor(
    @Inject(RequestResolver) resolver: RequestResolver,
    @Inject(IdentitySession) private readonly session: IdentitySession,
  ) {
    super(resolver);
  }

  protected override async handle(http: HttpContext, _context: ExecutionContext): Promise<boolean> {
    const state = await this.#currentSession(http);
    if (!isSameOrigin(http, originOf(state))) {
      throw new ExhibitorError('invalid_argument', 'a logout must come from this site');
    }
    await this.session.forget(http, state);
    return true;
  }

  /** A bearer token that is refused is nobody's: there is nothing to forget then. */
  async #currentSession(http: HttpContext): Promise<SessionState | undefined> {
    try {
      return await this.session.read(http, undefined);
    } catch (error) {
      if (error instanceof ExhibitorError && ['login_failed', 'tenant_required'].includes(error.code)) {
        return undefined;
      }
      throw error;
    }
  }
}

function originOf(state: SessionState | undefined): string | undefined {
  const redirectUri = state?.tenant.login?.redirectUri;
  return redirectUri === undefined ? undefined : new URL(redirectUri).origin;
}
