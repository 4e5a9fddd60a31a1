import { Inject, Injectable } from '@nestjs/common';
import { ExhibitorError } from '../errors/exhibitor.error.js';
import { CHECKED_OPTIONS, type CheckedOptions } from '../options/check-options.js';
import type { ExhibitorIdentity } from '../model/exhibitor-identity.interface.js';
import type { SessionMode } from '../options/exhibitor-options.interface.js';
import { ReplayCache } from '../store/replay-cache.service.js';
import { TenantRegistry } from '../tenants/tenant-registry.service.js';
import type { Tenant } from '../tenants/tenant.js';
import { Clock } from '../time/clock.js';
import { BearerIdentities } from './bearer-identities.service.js';
import { bearerTokenOf } from './bearer-token.js';
import { isSecureLogin } from '../login/browser-login.js';
import { logInToHost, logOutOfHost, readSelections, writeSelections } from './host-session.js';
import type { HttpContext } from '../http/http-context.js';
import { IdentityCookie } from './identity-cookie.service.js';
import {
  identityFor,
  parseIdentity,
  withSelection,
  type IdentityData,
  type Selections,
} from './stored-identity.js';

/** Who a request comes from, and what that person chose. */
export interface SessionState {
  identity: ExhibitorIdentity;
  selections: Selections;
  tenant: Tenant;
  mode: SessionMode;
}

/** Keeps identities between requests, in the cookie or in the host's session, or reads them off each request. */
@Injectable()
export class IdentitySession {
  readonly #modes: readonly SessionMode[];

  constructor(
    @Inject(CHECKED_OPTIONS) { settings }: CheckedOptions,
    @Inject(TenantRegistry) private readonly tenants: TenantRegistry,
    @Inject(IdentityCookie) private readonly cookie: IdentityCookie,
    @Inject(BearerIdentities) private readonly bearer: BearerIdentities,
    @Inject(ReplayCache) private readonly marks: ReplayCache,
    @Inject(Clock) private readonly clock: Clock,
  ) {
    this.#modes = settings.session;
  }

  /** True where requests may carry a bearer token, so that a refusal says so (RFC 6750 §3). */
  get acceptsBearer(): boolean {
    return this.#modes.includes('bearer');
  }

  /**
   * The identity of a request at this tenant, or at its own where none is asked for.
   *
   * @throws {LoginFailedError} for a bearer token that was sent and is refused
   */
  async read(http: HttpContext, tenantKey: string | undefined): Promise<SessionState | undefined> {
    for (const mode of this.#modes) {
      const state = await this.#readers[mode](http, tenantKey);
      if (state !== undefined) {
        return state;
      }
    }
    return undefined;
  }

  /** Starts the session of a fresh login; what was there before is replaced. */
  async establish(http: HttpContext, tenant: Tenant, identity: ExhibitorIdentity): Promise<SessionState> {
    const mode = this.#browserMode();
    if (mode === 'host') {
      await logInToHost(http, identity);
    } else {
      await this.cookie.write(http, tenant, identity, []);
    }
    http.request.user = identity;
    return { identity, tenant, selections: [], mode };
  }

  /** Forgets identity and choices, and denies the identity wherever else it may still be. */
  async forget(http: HttpContext, state: SessionState | undefined): Promise<void> {
    if (state !== undefined && state.mode !== 'bearer' && state.identity.id !== '') {
      const ttl = state.identity.expiresAt - this.clock.epochMs();
      await this.marks.claim('denied-identity', state.identity.id, ttl);
    }
    this.cookie.clear(http);
    if (this.#modes.includes('host')) {
      await logOutOfHost(http);
    }
    http.request.user = undefined;
  }

  /** Keeps or, with `undefined`, drops the choice for an event. */
  async select(
    http: HttpContext,
    state: SessionState,
    eventId: string,
    exhibitorId: string | undefined,
  ): Promise<void> {
    const selections = withSelection(state.selections, eventId, exhibitorId);
    if (state.mode === 'bearer') {
      throw new ExhibitorError(
        'invalid_argument',
        "a selection cannot be kept with session 'bearer': send exhibitorId with each request",
      );
    }
    if (state.mode === 'host') {
      writeSelections(http, { owner: ownerOf(state.identity), selections });
    } else {
      await this.cookie.write(http, state.tenant, state.identity, selections);
    }
  }

  #browserMode(): SessionMode {
    const mode = this.#modes.find((name) => name !== 'bearer');
    if (mode !== undefined) {
      return mode;
    }
    throw new ExhibitorError(
      'configuration_invalid',
      "session 'bearer' has no login: add 'cookie' or 'host'",
    );
  }

  readonly #readers: Record<
    SessionMode,
    (http: HttpContext, tenantKey?: string) => Promise<SessionState | undefined>
  > = {
    cookie: async (http, tenantKey) => {
      const content = await this.cookie.read(http);
      if (content === undefined) {
        return undefined;
      }
      const state = await this.#accept(content.identity, tenantKey, 'cookie', content.selections);
      // Without its prefix a cookie may have been set by a sibling domain.
      return state !== undefined && isSecureLogin(state.tenant.login ?? {}) === content.secure
        ? state
        : undefined;
    },
    host: async (http, tenantKey) => {
      const data = parseIdentity(http.request.user);
      return data && this.#accept(data, tenantKey, 'host', readSelections(http, ownerOf(data)));
    },
    bearer: async (http, tenantKey) => {
      const token = bearerTokenOf(http);
      if (token === undefined) {
        return undefined;
      }
      const tenant = await this.tenants.resolve(tenantKey);
      return { identity: await this.bearer.identify(tenant, token), selections: [], tenant, mode: 'bearer' };
    },
  };

  async #accept(
    data: IdentityData,
    tenantKey: string | undefined,
    mode: SessionMode,
    selections: Selections,
  ): Promise<SessionState | undefined> {
    if (tenantKey !== undefined && tenantKey !== data.tenant) {
      return undefined;
    }
    const tenant = await this.#known(data.tenant);
    const identity = tenant && identityFor(data, tenant, this.clock.epochMs());
    if (tenant === undefined || identity === undefined) {
      return undefined;
    }
    if (identity.id !== '' && (await this.marks.has('denied-identity', identity.id))) {
      return undefined;
    }
    return { identity, selections, tenant, mode };
  }

  async #known(key: string): Promise<Tenant | undefined> {
    try {
      return await this.tenants.get(key);
    } catch (error) {
      if (error instanceof ExhibitorError && error.code === 'unknown_tenant') {
        return undefined;
      }
      throw error;
    }
  }
}

function ownerOf({ tenant, issuer, subject }: Pick<IdentityData, 'tenant' | 'issuer' | 'subject'>): string {
  return JSON.stringify([tenant, issuer, subject]);
}
