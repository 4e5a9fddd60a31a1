import { Inject, Injectable } from '@nestjs/common';
import { isExhibitorError } from '../errors/is-exhibitor-error.js';
import { OpenIdProvider } from '../oidc/openid-provider.service.js';
import type { DepartingUser } from '../session/identity-session.service.js';
import { belongsTo } from '../session/stored-identity.js';
import { TenantRegistry } from '../tenants/tenant-registry.service.js';
import { Clock } from '../time/clock.js';
import { Deadlines } from '../time/deadlines.service.js';
import { browserLoginOf } from './browser-login.js';

/** Logouts at the provider (OpenID Connect RP-Initiated Logout 1.0). */
@Injectable()
export class EndSession {
  readonly #tenants: TenantRegistry;
  readonly #provider: OpenIdProvider;
  readonly #clock: Clock;
  readonly #deadlines: Deadlines;

  constructor(
    @Inject(TenantRegistry) tenants: TenantRegistry,
    @Inject(OpenIdProvider) provider: OpenIdProvider,
    @Inject(Clock) clock: Clock,
    @Inject(Deadlines) deadlines: Deadlines,
  ) {
    this.#tenants = tenants;
    this.#provider = provider;
    this.#clock = clock;
    this.#deadlines = deadlines;
  }

  /**
   * The address that ends the session of a user at the provider. `undefined` where the tenant has no `endSession`, the provider
   * has no such endpoint, or either cannot be found: the user is logged out here already, so this must not fail.
   */
  async urlFor(user: DepartingUser): Promise<string | undefined> {
    try {
      return await this.#urlFor(user);
    } catch (error) {
      if (isExhibitorError(error)) {
        return undefined;
      }
      throw error;
    }
  }

  async #urlFor({ identity, secure, idToken }: DepartingUser): Promise<string | undefined> {
    // Options that are due to be read again serve as well: their source may be slow.
    const tenant = this.#tenants.peek(identity.tenant) ?? (await this.#tenants.get(identity.tenant));
    if (tenant.login?.endSession !== true || !belongsTo(identity, tenant, secure, this.#clock.epochMs())) {
      return undefined;
    }
    const { clientId, postLogoutRedirectUri } = browserLoginOf(tenant);
    const deadline = this.#deadlines.start(tenant.http.deadline);
    try {
      const endpoint = await this.#provider.findUrl(tenant, 'endSession', deadline);
      return endpoint && addressOf(endpoint, idToken, clientId, postLogoutRedirectUri);
    } finally {
      deadline.end();
    }
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
