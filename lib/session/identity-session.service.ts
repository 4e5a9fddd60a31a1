import { Inject, Injectable } from '@nestjs/common';
import { ConfigurationError } from '../errors/configuration.error.js';
import { ExhibitorError } from '../errors/exhibitor.error.js';
import { isSecure } from '../http/cookies.js';
import type { HttpContext } from '../http/http-context.js';
import type { ExhibitorIdentity } from '../model/exhibitor-identity.interface.js';
import { CHECKED_OPTIONS, type CheckedOptions } from '../options/check-options.js';
import type { SessionMode } from '../options/exhibitor-options.interface.js';
import { CLOCK_MARGIN, ReplayCache } from '../store/replay-cache.service.js';
import { TenantRegistry } from '../tenants/tenant-registry.service.js';
import type { Tenant } from '../tenants/tenant.js';
import { Clock } from '../time/clock.js';
import { runSteps, settled, type MaybePromise, type Steps } from '../time/steps.js';
import { BearerIdentities, bearerTokenOf } from './bearer-identities.service.js';
import { DeniedIdentities } from './denied-identities.service.js';
import { logInToHost, logOutOfHost, readSelections, writeSelections } from './host-session.js';
import { IdTokenHints, type BrowserMode } from './id-token-hints.service.js';
import { IdentityCookie } from './identity-cookie.service.js';
import {
  identityFor,
  ownerOf,
  parseIdentity,
  withSelection,
  type IdentityData,
  type Selections,
} from './stored-identity.js';

/** The user of a request. */
export interface SessionState {
  identity: ExhibitorIdentity;
  /** Selected exhibitor by event. */
  selections: Selections;
  tenant: Tenant;
  /** Where the identity was found. */
  mode: SessionMode;
}

/** The user whom a logout ends. */
export interface DepartingUser {
  /** Not compared with its tenant yet. */
  identity: IdentityData;
  /** True where its cookie has the `__Host-` prefix; `undefined` in the host's session. */
  secure: boolean | undefined;
  /** The ID token of the login, if it was kept. */
  idToken: string | undefined;
}

/** Reads identities from the cookie, the host's session or the bearer token, and keeps those of a login. @internal */
@Injectable()
export class IdentitySession {
  readonly #modes: readonly SessionMode[];
  readonly #tenants: TenantRegistry;
  readonly #cookie: IdentityCookie;
  readonly #idTokens: IdTokenHints;
  readonly #bearer: BearerIdentities;
  readonly #denied: DeniedIdentities;
  readonly #replays: ReplayCache;
  readonly #clock: Clock;

  constructor(
    @Inject(CHECKED_OPTIONS) { settings }: CheckedOptions,
    @Inject(TenantRegistry) tenants: TenantRegistry,
    @Inject(IdentityCookie) cookie: IdentityCookie,
    @Inject(IdTokenHints) idTokens: IdTokenHints,
    @Inject(BearerIdentities) bearer: BearerIdentities,
    @Inject(DeniedIdentities) denied: DeniedIdentities,
    @Inject(ReplayCache) replays: ReplayCache,
    @Inject(Clock) clock: Clock,
  ) {
    this.#modes = settings.session;
    this.#tenants = tenants;
    this.#cookie = cookie;
    this.#idTokens = idTokens;
    this.#bearer = bearer;
    this.#denied = denied;
    this.#replays = replays;
    this.#clock = clock;
  }

  /** True where requests may carry a bearer token. Refusals then have a `WWW-Authenticate` header (RFC 6750 §3). */
  get acceptsBearer(): boolean {
    return this.#modes.includes('bearer');
  }

  /**
   * The user of a request.
   *
   * @param tenantKey tenant the identity must belong to; `undefined` accepts the tenant of the identity
   * @throws {LoginFailedError} where a bearer token is refused
   */
  read(http: HttpContext, tenantKey: string | undefined): MaybePromise<SessionState | undefined> {
    return runSteps(this.#readAll(http, tenantKey));
  }

  *#readAll(http: HttpContext, tenantKey: string | undefined): Steps<SessionState | undefined> {
    for (const mode of this.#modes) {
      const state = yield* this.#readers[mode](http, tenantKey);
      if (state !== undefined) {
        return state;
      }
    }
    return undefined;
  }

  /** Starts the session of a new login. It replaces the former identity. */
  async establish(
    http: HttpContext,
    tenant: Tenant,
    identity: ExhibitorIdentity,
    idToken: string,
  ): Promise<SessionState> {
    const mode = this.#requireBrowserMode();
    if (mode === 'host') {
      await logInToHost(http, identity);
    }
    await this.#idTokens.keep(http, mode, tenant, identity, idToken);
    if (mode === 'cookie') {
      await this.#cookie.write(http, tenant, identity, []);
    }
    http.request.user = identity;
    return { identity, tenant, selections: [], mode };
  }

  /** The user of the browser, unless a logout ended the identity before. Asks for no tenant, which may be slow. */
  async departing(http: HttpContext): Promise<DepartingUser | undefined> {
    const mode = this.#browserMode();
    if (mode === undefined) {
      return undefined;
    }
    const content = mode === 'cookie' ? await this.#cookie.read(http) : undefined;
    const identity = mode === 'cookie' ? content?.identity : parseIdentity(http.request.user);
    if (identity === undefined || (await this.#denied.has(identity))) {
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
    this.#cookie.clear(http);
    this.#idTokens.clear(http);
    const hosted = this.#modes.includes('host') ? parseIdentity(http.request.user) : undefined;
    const identities = [...this.#cookie.identities(http), hosted];
    this.#cookie.forget(http);
    await Promise.all(identities.map((identity) => identity && this.#deny(identity)));
    if (this.#modes.includes('host')) {
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
      writeSelections(http, { owner: ownerOf(state.identity), selections });
    } else {
      await this.#cookie.write(http, state.tenant, state.identity, selections);
    }
  }

  /** Denies an identity until it has expired, by any date that the host may be set back to. */
  async #deny({ id, expiresAt }: IdentityData): Promise<void> {
    const ttl = expiresAt - this.#clock.epochMs() + CLOCK_MARGIN;
    if (id !== '' && ttl > 0) {
      await this.#replays.claim('denied-identity', id, ttl);
    }
  }

  #browserMode(): BrowserMode | undefined {
    return this.#modes.find((name) => name !== 'bearer');
  }

  #requireBrowserMode(): BrowserMode {
    const mode = this.#browserMode();
    if (mode !== undefined) {
      return mode;
    }
    throw new ConfigurationError([
      { path: 'session', expected: "'bearer' has no login: add 'cookie' or 'host'" },
    ]);
  }

  readonly #readers: Record<
    SessionMode,
    (http: HttpContext, tenantKey?: string) => Steps<SessionState | undefined>
  > = {
    cookie: (http, tenantKey) => this.#readCookie(http, tenantKey),
    host: (http, tenantKey) => this.#readHost(http, tenantKey),
    bearer: (http, tenantKey) => this.#readBearer(http, tenantKey),
  };

  *#readCookie(http: HttpContext, tenantKey?: string): Steps<SessionState | undefined> {
    const content = this.#cookie.read(http);
    if (content === undefined) {
      return undefined;
    }
    const { identity: data, selections, secure } = content;
    const accepted = yield* this.#accept(data, tenantKey);
    // A cookie without the __Host- prefix may have been set by a sibling domain.
    if (accepted === undefined || isSecure(accepted.tenant.login?.redirectUri) !== secure) {
      return undefined;
    }
    const { identity, tenant } = accepted;
    if (yield* settled(this.#denied.has(identity))) {
      this.#cookie.forget(http);
      return undefined;
    }
    return { identity, selections, tenant, mode: 'cookie' };
  }

  *#readHost(http: HttpContext, tenantKey?: string): Steps<SessionState | undefined> {
    const data = parseIdentity(http.request.user);
    const accepted = data && (yield* this.#accept(data, tenantKey));
    if (
      data === undefined ||
      accepted === undefined ||
      (yield* settled(this.#denied.has(accepted.identity)))
    ) {
      return undefined;
    }
    const { identity, tenant } = accepted;
    return { identity, selections: readSelections(http, ownerOf(data)), tenant, mode: 'host' };
  }

  *#readBearer(http: HttpContext, tenantKey?: string): Steps<SessionState | undefined> {
    const token = bearerTokenOf(http);
    if (token === undefined) {
      return undefined;
    }
    const tenant = yield* settled(this.#tenants.resolve(tenantKey));
    const identity = yield* settled(this.#bearer.identify(tenant, token));
    return { identity, selections: [], tenant, mode: 'bearer' };
  }

  /** The identity and its tenant, where it belongs to the tenant of the request and has not expired. */
  *#accept(
    data: IdentityData,
    tenantKey: string | undefined,
  ): Steps<Pick<SessionState, 'identity' | 'tenant'> | undefined> {
    if (tenantKey !== undefined && tenantKey !== data.tenant) {
      return undefined;
    }
    const tenant = yield* this.#tenantOf(data);
    const identity = tenant && identityFor(data, tenant, this.#clock.epochMs());
    return tenant && identity && { identity, tenant };
  }

  /** The tenant of an identity; `undefined` where it no longer exists. */
  *#tenantOf({ tenant }: IdentityData): Steps<Tenant | undefined> {
    try {
      return yield* settled(this.#tenants.find(tenant));
    } catch (error) {
      if (error instanceof ExhibitorError && error.code === 'unknown_tenant') {
        return undefined;
      }
      throw error;
    }
  }
}
