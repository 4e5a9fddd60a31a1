import { Inject, Injectable } from '@nestjs/common';
import { ExhibitorError } from '../errors/exhibitor.error.js';
import { isExhibitorError } from '../errors/is-exhibitor-error.js';
import { isCrossSiteRequest } from '../http/fetch-metadata.js';
import type { HttpContext } from '../http/http-context.js';
import { OpenIdProvider } from '../oidc/openid-provider.service.js';
import { CHECKED_OPTIONS, type CheckedOptions } from '../options/check-options.js';
import { IdentitySession, type DepartingUser } from '../session/identity-session.service.js';
import { identityFor } from '../session/stored-identity.js';
import { TenantRegistry } from '../tenants/tenant-registry.service.js';
import { Clock } from '../time/clock.js';
import { Deadlines } from '../time/deadlines.service.js';
import { browserLoginOf } from '../tenants/tenant.js';

/** Ends logins in the browser: at this host, then at the provider (OpenID Connect RP-Initiated Logout 1.0). */
@Injectable()
export class LogoutService {
  readonly #trustedOrigins: readonly string[];

  constructor(
    @Inject(CHECKED_OPTIONS) { settings }: CheckedOptions,
    @Inject(TenantRegistry) private readonly tenants: TenantRegistry,
    @Inject(OpenIdProvider) private readonly provider: OpenIdProvider,
    @Inject(IdentitySession) private readonly session: IdentitySession,
    @Inject(Clock) private readonly clock: Clock,
    @Inject(Deadlines) private readonly deadlines: Deadlines,
  ) {
    this.#trustedOrigins = settings.trustedOrigins;
  }

  /**
   * Logs the user out of this host. Answers the address that logs the user out at the provider, where `endSession` is set and
   * somebody was logged in.
   *
   * @throws {ExhibitorError} `invalid_argument` for a request that a page of another site caused
   */
  async end(http: HttpContext): Promise<string | undefined> {
    const departing = await this.session.departing(http);
    // As it is known now: a source of tenants may be slow just then.
    const tenant = departing && this.tenants.peek(departing.identity.tenant);
    if (isCrossSiteRequest(http, tenant?.login?.redirectUri, this.#trustedOrigins)) {
      throw new ExhibitorError('invalid_argument', 'a logout must come from this site');
    }
    await this.session.forget(http);
    return departing && this.#endSessionUrl(departing).catch(unknown);
  }

  /** `undefined` where the tenant has no `endSession`, or the provider has no such endpoint. */
  async #endSessionUrl({ identity, secure, idToken }: DepartingUser): Promise<string | undefined> {
    // Options that are due to be read again serve as well: their source may be slow.
    const tenant = this.tenants.peek(identity.tenant) ?? (await this.tenants.get(identity.tenant));
    const own = identityFor(identity, tenant, secure, this.clock.epochMs());
    if (tenant.login?.endSession !== true || own === undefined) {
      return undefined;
    }
    const { clientId, postLogoutRedirectUri } = browserLoginOf(tenant);
    const endpoint = await this.deadlines.within(tenant.http.deadline, (deadline) =>
      this.provider.findUrl(tenant, 'endSession', deadline),
    );
    return endpoint && addressOf(endpoint, idToken, clientId, postLogoutRedirectUri);
  }
}

/** A logout does not fail where the tenant is not found or the provider cannot be reached: the user is logged out here. */
function unknown(error: unknown): undefined {
  if (!isExhibitorError(error)) {
    throw error;
  }
}

/** There is no `state`: nothing would check it, since the page after the logout does nothing. */
function addressOf(
  endpoint: string,
  idToken: string | undefined,
  clientId: string,
  postLogoutRedirectUri: string | undefined,
): string {
  const url = new URL(endpoint);
  if (idToken === undefined) {
    url.searchParams.set('client_id', clientId);
  } else {
    url.searchParams.set('id_token_hint', idToken);
  }
  if (postLogoutRedirectUri !== undefined) {
    url.searchParams.set('post_logout_redirect_uri', postLogoutRedirectUri);
  }
  return url.href;
}
