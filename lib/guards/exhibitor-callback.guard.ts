import { Inject, Injectable, type CanActivate } from '@nestjs/common';
import { channels } from '../diagnostics/channels.js';
import { isExhibitorError } from '../errors/exhibitor.error.js';
import { LoginFailedError } from '../errors/login-failed.error.js';
import { fitsLogin, readCallback, type CallbackParameters } from '../login/callback-parameters.js';
import { CallbackService } from '../login/callback.service.js';
import type { HttpContext } from '../http/http-context.js';
import { IdentitySession } from '../session/identity-session.service.js';
import { LoginCookies } from '../login/login-cookies.service.js';
import type { PendingLogin } from '../login/pending-login.js';
import { CHECKED_OPTIONS, type CheckedOptions } from '../options/check-options.js';
import { ReplayCache } from '../store/replay-cache.service.js';
import { TenantRegistry } from '../tenants/tenant-registry.service.js';
import { LoginRoute } from './login-route.js';
import { rememberState } from './request-state.js';
import { RequestResolver } from './request-resolver.service.js';

/**
 * Finishes a login, GET for `code` and POST for `form_post`. Sets `request.user`, keeps the identity, and runs the
 * handler; every refusal is 401 `login_failed` with a `reason`.
 *
 * @example
 * @Get('auth/callback') @UseGuards(ExhibitorCallbackGuard) @Redirect('/', 303)
 * callback(@CurrentIdentity() identity: ExhibitorIdentity) { return { url: identity.returnTo ?? '/' }; }
 */
@Injectable()
export class ExhibitorCallbackGuard extends LoginRoute implements CanActivate {
  readonly #loginTtl: number;

  constructor(
    @Inject(RequestResolver) resolver: RequestResolver,
    @Inject(CHECKED_OPTIONS) { settings }: CheckedOptions,
    @Inject(TenantRegistry) private readonly tenants: TenantRegistry,
    @Inject(LoginCookies) private readonly cookies: LoginCookies,
    @Inject(ReplayCache) private readonly marks: ReplayCache,
    @Inject(CallbackService) private readonly callback: CallbackService,
    @Inject(IdentitySession) private readonly session: IdentitySession,
  ) {
    super(resolver);
    this.#loginTtl = settings.cookies.loginTtl;
  }

  protected override async handle(http: HttpContext): Promise<boolean> {
    try {
      await this.finish(http);
      return true;
    } catch (error) {
      if (channels.login.hasSubscribers) {
        channels.login.publish(failureOf(error));
      }
      throw error;
    }
  }

  /** Path the provider called. Override it behind a proxy that strips a prefix of the path. */
  protected getCallbackPath(http: HttpContext): string {
    return http.target.pathname;
  }

  private async finish(http: HttpContext): Promise<void> {
    const { pending, parameters } = await this.match(http);
    const tenant = await this.tenants.get(pending.tenant);
    const identity = await this.callback.finish(tenant, pending, parameters);
    const session = await this.session.establish(http, tenant, identity);
    rememberState(http.request, { session, eventId: identity.eventId });
    if (channels.login.hasSubscribers) {
      channels.login.publish({ tenant: tenant.key, outcome: 'succeeded' });
    }
  }

  /** The pending login this response belongs to, spent by now. What belongs to none burns none. */
  private async match(http: HttpContext): Promise<{ pending: PendingLogin; parameters: CallbackParameters }> {
    const parameters = readCallback(http);
    const pending = parameters && (await this.cookies.find(http, parameters.state));
    const fits = pending && fitsLogin(parameters, pending, http.request.method, this.getCallbackPath(http));
    if (!fits) {
      throw new LoginFailedError('state', 'this response belongs to no pending login');
    }
    this.cookies.spend(http, pending);
    if (await this.marks.claim('spent-state', pending.state, this.#loginTtl)) {
      return { pending, parameters };
    }
    throw new LoginFailedError('state', 'this login was finished before', { tenant: pending.tenant });
  }
}

function failureOf(error: unknown): Record<string, unknown> {
  const tenant = isExhibitorError(error) ? error.tenant : undefined;
  const reason = error instanceof LoginFailedError ? error.reason : undefined;
  return {
    outcome: 'failed',
    ...(tenant === undefined ? {} : { tenant }),
    ...(reason === undefined ? {} : { reason }),
  };
}
