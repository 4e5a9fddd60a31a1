import { Inject, Injectable } from '@nestjs/common';
import type { JWTPayload } from 'jose';
import { ExhibitorError } from '../errors/exhibitor.error.js';
import { isExhibitorError } from '../errors/is-exhibitor-error.js';
import { LoginFailedError } from '../errors/login-failed.error.js';
import { OwnCookies } from '../browser/cookies.js';
import { isCrossSiteRequest } from '../browser/fetch-metadata.js';
import type { HttpContext } from '../browser/http-context.js';
import type { ExhibitorIdentity } from '../model/exhibitor-identity.interface.js';
import { isRecord, isText } from '../model/json-values.js';
import { OpenIdProvider } from '../oidc/openid-provider.service.js';
import { isAddressedTo } from '../oidc/token-rules.js';
import { TokenValidator } from '../oidc/token-validator.service.js';
import { unverified } from '../oidc/verify-signature.js';
import { CHECKED_OPTIONS, type CheckedOptions } from '../config/check-options.js';
import type { ExhibitorSettings } from '../config/exhibitor-settings.js';
import { UNREAD_FORM } from '../config/problems/host-problems.js';
import { described } from '../config/problems/claim-text.js';
import { ProblemLog } from '../config/problems/problem-log.service.js';
import { EndedLogins } from './ended-logins.service.js';
import type { KeptIdToken } from './id-token-cookie.service.js';
import { IdentityReader } from './identity-reader.service.js';
import { formerOf, isIdentityOf } from './identity.js';
import { TenantRegistry } from '../config/tenant-registry.service.js';
import { browserLoginOf, type Tenant } from '../config/tenant.js';
import { Clock } from '../call/clock.js';
import { Calls } from '../call/calls.service.js';

/** Longest logout token, in characters. */
const MAX_LENGTH = 16_384;

/** Ends logins: of a browser, here and at the provider (RP-Initiated Logout 1.0), and those that the provider ended. */
@Injectable()
export class LogoutService {
  readonly #settings: ExhibitorSettings;
  readonly #cookies: OwnCookies;

  constructor(
    @Inject(CHECKED_OPTIONS) { settings }: CheckedOptions,
    @Inject(TenantRegistry) private readonly tenants: TenantRegistry,
    @Inject(OpenIdProvider) private readonly provider: OpenIdProvider,
    @Inject(TokenValidator) private readonly validator: TokenValidator,
    @Inject(IdentityReader) private readonly reader: IdentityReader,
    @Inject(EndedLogins) private readonly ended: EndedLogins,
    @Inject(Clock) private readonly clock: Clock,
    @Inject(Calls) private readonly calls: Calls,
    @Inject(ProblemLog) private readonly log: ProblemLog,
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
    const isOpen = identity !== undefined && !(await this.ended.has(identity, identity.registration ?? ''));
    const ownUrl = isOpen ? identity.redirectUri : undefined;
    if (isCrossSiteRequest(http, ownUrl, this.#settings.trustedOrigins)) {
      throw new ExhibitorError('invalid_argument', 'a logout must come from this site');
    }
    this.#clearCookies(http);
    await this.ended.endAll(formerOf(identities));
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
    await this.ended.end(id);
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

  /**
   * Verifies the `logout_token` of a request (Back-Channel Logout 1.0) and ends the logins that it names. Returns false where the
   * `store` did not take it. `tenantKey` names a tenant of a source.
   *
   * @throws {LoginFailedError} `token_type` without a token, `audience` for no tenant of this host; else where every tenant that it may be
   * for refuses it
   * @throws {ExhibitorError} where one of them could not check it, as {@link TokenValidator.verify}, and as {@link TenantRegistry.resolve}
   */
  async receive(
    http: HttpContext,
    tenantKey: () => string | undefined | Promise<string | undefined>,
  ): Promise<boolean> {
    const token = this.#readLogoutToken(http);
    const claims = unverified(token, 'claims');
    const addressed = this.#addresseesOf(claims);
    const tenants = addressed.length > 0 ? addressed : [await this.#namedTenant(await tenantKey(), claims)];
    // All are done before the reply: where one cannot check the token, the logins at the others have ended.
    const outcomes = await Promise.allSettled(tenants.map((tenant) => this.#record(tenant, token)));
    const accepting = tenants.filter((_, index) => outcomes[index]?.status === 'fulfilled');
    // Where one tenant of a registration accepts it, the logins of all its tenants have ended.
    const registrations = new Set(accepting.map(({ registration }) => registration));
    const failures = outcomes.flatMap((one, index): unknown[] =>
      one.status === 'rejected' && !registrations.has(tenants[index]?.registration ?? '') ? [one.reason] : [],
    );
    const unchecked = failures.find((failure) => !isRefusal(failure));
    if (unchecked !== undefined || accepting.length === 0) {
      throw unchecked ?? failures[0];
    }
    return outcomes.every((one) => one.status === 'rejected' || one.value);
  }

  #readLogoutToken(http: HttpContext): string {
    const { method, body } = http.request;
    const token = method === 'POST' && isRecord(body) ? body['logout_token'] : undefined;
    if (typeof token === 'string' && token.length <= MAX_LENGTH) {
      return token;
    }
    const detail = http.isUnreadForm ? UNREAD_FORM : 'the request has no form with a logout_token';
    const refusal = { reason: 'token_type', detail, isUnverified: true } as const;
    throw this.log.refusal(undefined, 'logout token', refusal, {
      message: 'the request has no logout_token',
    });
  }

  /** The tenant of this key, else the only one. */
  #namedTenant(tenantKey: string | undefined, { iss, aud }: JWTPayload): Tenant | Promise<Tenant> {
    if (tenantKey === undefined && this.tenants.fixed.length > 1) {
      const received = `iss ${described(iss)}, aud ${described(aud)}`;
      const detail = 'it is for none of the tenants';
      const option = ['login.issuer', 'login.clientId'];
      const refusal = { reason: 'audience', option, detail, received, isUnverified: true } as const;
      throw this.log.refusal(undefined, 'logout token', refusal);
    }
    return this.tenants.resolve(tenantKey);
  }

  /**
   * The fixed tenants that may accept this token: one of those that check it alike, so that each check is made once. Those of one
   * registration may differ in options.
   */
  #addresseesOf(claims: JWTPayload): Tenant[] {
    const addressed = this.tenants.fixed.filter(
      ({ login }) => login !== undefined && isAddressedTo(claims, login.issuer, login.clientId),
    );
    const dispatchers = [...new Set(addressed.map(({ http }) => http.dispatcher))];
    const checks = addressed.map((tenant): [string, Tenant] => {
      const { registration, login, http } = tenant;
      const options = [login?.algorithms, login?.clockTolerance, dispatchers.indexOf(http.dispatcher)];
      return [JSON.stringify([registration, ...options]), tenant];
    });
    return [...new Map(checks).values()];
  }

  async #record(tenant: Tenant, token: string): Promise<boolean> {
    const { payload } = await this.calls
      .start(tenant.http.deadline)
      .run((call) => this.validator.verify(tenant, { use: 'logout_token', token }, call));
    const { sub: subject, sid, iat } = payload;
    return this.ended.recordLogout({
      registration: tenant.registration,
      subject,
      sid: isText(sid) ? sid : undefined,
      // A logout in the future would end logins that begin after it.
      at: Math.min(Number(iat) * 1000, this.clock.epochMs()),
    });
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

/**
 * True where a tenant refuses the token, which must not stop others of the same issuer and client. Not for `provider`, keys that cannot be
 * used: the token was not checked.
 */
function isRefusal(failure: unknown): boolean {
  return failure instanceof LoginFailedError && failure.reason !== 'provider';
}
