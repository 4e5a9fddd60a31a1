import { Inject, Injectable } from '@nestjs/common';
import { ExhibitorError } from '../errors/exhibitor.error.js';
import { isExhibitorError } from '../errors/is-exhibitor-error.js';
import { OwnCookies } from '../browser/cookies.js';
import { isCrossSiteRequest } from '../browser/fetch-metadata.js';
import type { HttpContext } from '../browser/http-context.js';
import type { ExhibitorIdentity } from '../model/exhibitor-identity.interface.js';
import { OpenIdProvider } from '../oidc/openid-provider.service.js';
import { CHECKED_OPTIONS, type CheckedOptions } from '../config/check-options.js';
import type { ExhibitorSettings } from '../config/exhibitor-settings.js';
import { EndedLogins } from './ended-logins.service.js';
import type { KeptIdToken } from './id-token-cookie.service.js';
import { IdentityReader } from './identity-reader.service.js';
import { formerOf, isIdentityOf } from './identity.js';
import { TenantRegistry } from '../config/tenant-registry.service.js';
import { browserLoginOf } from '../config/tenant.js';
import { Calls } from '../call/calls.service.js';

/** Ends the login of a browser, here and at the provider (RP-Initiated Logout 1.0). */
@Injectable()
export class LogoutService {
  readonly #settings: ExhibitorSettings;
  readonly #cookies: OwnCookies;

  constructor(
    @Inject(CHECKED_OPTIONS) { settings }: CheckedOptions,
    @Inject(TenantRegistry) private readonly tenants: TenantRegistry,
    @Inject(OpenIdProvider) private readonly provider: OpenIdProvider,
    @Inject(IdentityReader) private readonly reader: IdentityReader,
    @Inject(EndedLogins) private readonly ended: EndedLogins,
    @Inject(Calls) private readonly calls: Calls,
  ) {
    this.#settings = settings;
    this.#cookies = new OwnCookies(settings.cookies);
  }

  /**
   * Logs the user out of this host: removes identity, ID token and selections, and ends the login, so that copies of the identity are
   * worth nothing. Returns the address that does so at the provider, where `endSession` is set.
   *
   * @param removeIdentity removes what the host keeps of it
   */
  async end(http: HttpContext, removeIdentity: () => void | Promise<void>): Promise<string | undefined> {
    const { identities, idToken } = await this.reader.readAll(http);
    // That of the ID token, where a user was idle for so long that only this cookie is left.
    const identity = identities[0]?.identity;
    // Also one that has ended tells the origin of this host: a proxy may change `Host`.
    if (isCrossSiteRequest(http, identity?.redirectUri, this.#settings.trustedOrigins)) {
      throw new ExhibitorError('invalid_argument', 'a logout must come from this site');
    }
    // Before it ends here.
    const isOpen = identity !== undefined && !(await this.ended.has(identity, identity.registration ?? ''));
    this.#clearCookies(http);
    await this.ended.ends.endAll(formerOf(identities));
    await removeIdentity();
    http.request.user = undefined;
    if (!isOpen) {
      return undefined;
    }
    try {
      return await this.#endSessionUrl(identity, idToken);
    } catch (error) {
      // The user is logged out here: that the tenant is not found, or the provider not reached, fails no logout.
      if (isExhibitorError(error)) {
        return undefined;
      }
      throw error;
    }
  }

  /** Removes and ends the identity that was just kept for this request. */
  async takeBack(
    http: HttpContext,
    { id }: ExhibitorIdentity,
    removeIdentity: () => void | Promise<void>,
  ): Promise<void> {
    this.#clearCookies(http);
    await this.ended.ends.end(id);
    if (this.isOfHost) {
      await removeIdentity();
    }
    http.request.user = undefined;
  }

  #clearCookies(http: HttpContext): void {
    for (const cookie of ['identity', 'id-token', 'selection'] as const) {
      this.#cookies.clearAll(http, cookie);
    }
  }

  /** True where identities are kept by the host. */
  get isOfHost(): boolean {
    return this.#settings.session.includes('host');
  }

  /** `undefined` where the tenant has no `endSession`, or the provider has no such endpoint. */
  async #endSessionUrl(
    identity: ExhibitorIdentity,
    kept: KeptIdToken | undefined,
  ): Promise<string | undefined> {
    // Options past their `ttl` will do: to ask their source could delay the logout.
    const tenant = this.tenants.peek(identity.tenant) ?? (await this.tenants.get(identity.tenant));
    // An expired identity counts: the session at the provider may live longer.
    if (tenant.login?.endSession !== true || !isIdentityOf(tenant, identity, 0)) {
      return undefined;
    }
    const { clientId, postLogoutRedirectUri } = browserLoginOf(tenant);
    const endpoint = await this.calls
      .start(tenant.http.deadline)
      .run((call) => this.provider.findUrl(tenant, 'endSession', call));
    if (endpoint === undefined) {
      return undefined;
    }
    // No `state`: nothing would check it, since the page after the logout does nothing.
    const url = new URL(endpoint);
    if (kept?.identity.id === identity.id) {
      url.searchParams.set('id_token_hint', kept.idToken);
    } else {
      url.searchParams.set('client_id', clientId);
    }
    if (postLogoutRedirectUri !== undefined) {
      url.searchParams.set('post_logout_redirect_uri', postLogoutRedirectUri);
    }
    return url.href;
  }
}
