import { Inject, Injectable } from '@nestjs/common';
import { ConfigurationError } from '../errors/configuration.error.js';
import { ExhibitorError } from '../errors/exhibitor.error.js';
import { clearHeldCookies, cookieNames, type CookieNames } from '../http/cookies.js';
import type { HttpContext } from '../http/http-context.js';
import type { ExhibitorIdentity } from '../model/exhibitor-identity.interface.js';
import { CHECKED_OPTIONS, type CheckedOptions } from '../options/check-options.js';
import type { SessionMode } from '../options/exhibitor-options.interface.js';
import { Sealer } from '../store/sealer.service.js';
import { TenantRegistry } from '../tenants/tenant-registry.service.js';
import type { Tenant } from '../tenants/tenant.js';
import { Clock } from '../time/clock.js';
import { DeniedIdentities, type FormerIdentity } from './denied-identities.service.js';
import { logInToHost, logOutOfHost, readHostUser, setUser, writeSelections } from './host-session.js';
import { IdTokenHints, type BrowserMode } from './id-token-hints.js';
import { IdentityCookie } from './identity-cookie.service.js';
import { IdentityExtensions } from './identity-extensions.service.js';
import type { SessionState } from './session-state.interface.js';
import type { IdentityData } from './stored-identity.js';
import { withSelection } from './stored-selections.js';

export interface NewLogin {
  identity: ExhibitorIdentity;
  idToken: string;
  /** The identities that the browser had when the login was started: the callback of another site's form brings no cookie. */
  former: readonly FormerIdentity[];
}

export interface DepartingUser {
  /** Not compared with its tenant yet. */
  identity: IdentityData;
  /** True where its cookie has the `__Host-` prefix; `undefined` in the host's session. */
  secure: boolean | undefined;
  /** The ID token of the login, if it was kept. */
  idToken: string | undefined;
}

/** Keeps the identity of a login in the cookie or the host's session, and ends it. */
@Injectable()
export class IdentitySession {
  readonly #modes: readonly SessionMode[];
  readonly #idTokens: IdTokenHints;
  readonly #names: CookieNames;
  readonly #sameSite: CheckedOptions['settings']['cookies']['sameSite'];
  /** By how much a login may outlast its identity, in ms. */
  readonly #longestExtension: number;

  constructor(
    @Inject(CHECKED_OPTIONS) { settings }: CheckedOptions,
    @Inject(TenantRegistry) private readonly tenants: TenantRegistry,
    @Inject(IdentityCookie) private readonly cookie: IdentityCookie,
    @Inject(IdentityExtensions) private readonly extensions: IdentityExtensions,
    @Inject(Sealer) sealer: Sealer,
    @Inject(DeniedIdentities) private readonly denied: DeniedIdentities,
    @Inject(Clock) clock: Clock,
  ) {
    this.#modes = settings.session;
    const { name, sameSite, identityTtl, absoluteTtl } = settings.cookies;
    this.#names = cookieNames(name);
    this.#sameSite = sameSite;
    this.#idTokens = new IdTokenHints(sealer, clock, this.#names, sameSite);
    this.#longestExtension = absoluteTtl - identityTtl;
  }

  /** The identities of the browser, for a {@link NewLogin}. With `'host'` none: the host's session changes its id at a login. */
  async former(http: HttpContext): Promise<FormerIdentity[]> {
    const identities = this.#browserMode() === 'cookie' ? await this.cookie.identities(http) : [];
    return identities.map(({ id, tenant, expiresAt }) => ({ id, tenant, expiresAt }));
  }

  /** Starts the session of a new login. It replaces the former identity, and denies copies of it. */
  async establish(
    http: HttpContext,
    tenant: Tenant,
    { identity, idToken, former }: NewLogin,
  ): Promise<SessionState> {
    const mode = this.#browserMode();
    if (mode === undefined) {
      throw new ConfigurationError([
        { path: 'session', expected: "'bearer' has no login: add 'cookie' or 'host'" },
      ]);
    }
    if (mode === 'host') {
      await logInToHost(http, identity);
    }
    const endsAt = identity.expiresAt + (mode === 'cookie' ? this.#longestExtension : 0);
    if (mode === 'cookie') {
      clearHeldCookies(http, this.#names.extension, this.#sameSite);
      await this.cookie.write(http, tenant, identity, [], endsAt);
    }
    // Last: no ID token is kept of a login that fails.
    await this.#idTokens.keep(http, mode, tenant, { id: identity.id, expiresAt: endsAt }, idToken);
    await this.denied.deny([...former, ...(await this.former(http))]);
    const state: SessionState = { identity, tenant, selections: [], mode, endsAt };
    setUser(http, state);
    return state;
  }

  extend(http: HttpContext, state: SessionState): Promise<void> {
    return this.extensions.extend(http, state);
  }

  /** The user of the browser, unless a logout ended the identity before. Asks for no tenant, which may be slow. */
  async departing(http: HttpContext): Promise<DepartingUser | undefined> {
    const mode = this.#browserMode();
    if (mode === undefined) {
      return undefined;
    }
    const content = mode === 'cookie' ? await this.cookie.read(http) : undefined;
    const identity = mode === 'cookie' ? content?.identity : readHostUser(http);
    if (identity === undefined || (await this.denied.has(identity, this.tenants.peek(identity.tenant)))) {
      return undefined;
    }
    const secure = content?.secure;
    return { identity, secure, idToken: await this.#idTokens.read(http, mode, identity.id, secure === true) };
  }

  /**
   * Removes identity and selections, and denies copies of the identity, such as an older cookie. It asks for no tenant:
   * a logout must not fail because the tenant cannot be found.
   */
  async forget(http: HttpContext): Promise<void> {
    const { identity, extension, idToken } = this.#names;
    for (const name of [identity, extension, idToken]) {
      clearHeldCookies(http, name, this.#sameSite);
    }
    const usesHost = this.#modes.includes('host');
    const user = usesHost ? readHostUser(http) : undefined;
    await this.denied.deny([...(await this.cookie.identities(http)), ...(user === undefined ? [] : [user])]);
    if (usesHost) {
      await logOutOfHost(http);
    }
    http.request.user = undefined;
  }

  /** Stores the selection for an event; `undefined` removes it. */
  async select(
    http: HttpContext,
    state: SessionState,
    eventId: string,
    exhibitorId: string | undefined,
  ): Promise<void> {
    if (state.mode === 'bearer') {
      throw new ExhibitorError(
        'invalid_argument',
        "a selection cannot be stored with session 'bearer': send exhibitorId with each request",
      );
    }
    const selections = withSelection(state.selections, eventId, exhibitorId);
    if (state.mode === 'host') {
      writeSelections(http, state.identity, selections);
    } else {
      const { tenant, identity, endsAt = identity.expiresAt } = state;
      await this.cookie.write(http, tenant, identity, selections, endsAt);
    }
  }

  #browserMode(): BrowserMode | undefined {
    return this.#modes.find((name) => name !== 'bearer');
  }
}
