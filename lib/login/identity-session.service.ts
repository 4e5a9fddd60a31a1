import { Inject, Injectable } from '@nestjs/common';
import { ExhibitorError } from '../errors/exhibitor.error.js';
import { CHECKED_OPTIONS, type CheckedOptions } from '../options/check-options.js';
import type { ExhibitorIdentity } from '../options/exhibitor-identity.interface.js';
import type { SessionMode } from '../options/exhibitor-options.interface.js';
import { Marks } from '../store/marks.service.js';
import { TenantRegistry } from '../tenants/tenant-registry.service.js';
import type { Tenant } from '../tenants/tenant.js';
import { Clock } from '../transport/clock.js';
import { BearerIdentities } from './bearer-identities.service.js';
import { bearerTokenOf } from './bearer-token.js';
import { isSecureLogin } from './browser-login.js';
import { logInToHost, logOutOfHost, readSelections, writeSelections } from './host-session.js';
import type { HttpExchange } from './http-exchange.js';
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
    @Inject(Marks) private readonly marks: Marks,
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
  async read(exchange: HttpExchange, tenantKey: string | undefined): Promise<SessionState | undefined> {
    for (const mode of this.#modes) {
      const state = await this.#readers[mode](exchange, tenantKey);
      if (state !== undefined) return state;
    }
    return undefined;
  }

  /** Starts the session of a fresh login; what was there before is replaced. */
  async establish(
    exchange: HttpExchange,
    tenant: Tenant,
    identity: ExhibitorIdentity,
  ): Promise<SessionState> {
    const mode = this.#browserMode();
    if (mode === 'host') await logInToHost(exchange, identity);
    else await this.cookie.write(exchange, tenant, identity, []);
    exchange.request.user = identity;
    return { identity, tenant, selections: [], mode };
  }

  /** Forgets identity and choices, and denies the identity wherever else it may still be. */
  async forget(exchange: HttpExchange, state: SessionState | undefined): Promise<void> {
    if (state !== undefined && state.mode !== 'bearer' && state.identity.id !== '') {
      const ttl = state.identity.expiresAt - this.clock.wall();
      await this.marks.claim('denied-identity', state.identity.id, ttl);
    }
    this.cookie.clear(exchange);
    if (this.#modes.includes('host')) await logOutOfHost(exchange);
    exchange.request.user = undefined;
  }

  /** Keeps or, with `undefined`, drops the choice for an event. */
  async select(
    exchange: HttpExchange,
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
    if (state.mode === 'host') writeSelections(exchange, { owner: ownerOf(state.identity), selections });
    else await this.cookie.write(exchange, state.tenant, state.identity, selections);
  }

  #browserMode(): SessionMode {
    const mode = this.#modes.find((name) => name !== 'bearer');
    if (mode !== undefined) return mode;
    throw new ExhibitorError(
      'configuration_invalid',
      "session 'bearer' has no login: add 'cookie' or 'host'",
    );
  }

  readonly #readers: Record<
    SessionMode,
    (exchange: HttpExchange, tenantKey?: string) => Promise<SessionState | undefined>
  > = {
    cookie: async (exchange, tenantKey) => {
      const content = await this.cookie.read(exchange);
      if (content === undefined) return undefined;
      const state = await this.#accept(content.identity, tenantKey, 'cookie', content.selections);
      // Without its prefix a cookie may have been set by a sibling domain.
      return state !== undefined && isSecureLogin(state.tenant.login ?? {}) === content.secure
        ? state
        : undefined;
    },
    host: async (exchange, tenantKey) => {
      const data = parseIdentity(exchange.request.user);
      return data && this.#accept(data, tenantKey, 'host', readSelections(exchange, ownerOf(data)));
    },
    bearer: async (exchange, tenantKey) => {
      const token = bearerTokenOf(exchange);
      if (token === undefined) return undefined;
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
    if (tenantKey !== undefined && tenantKey !== data.tenant) return undefined;
    const tenant = await this.#known(data.tenant);
    const identity = tenant && identityFor(data, tenant, this.clock.wall());
    if (tenant === undefined || identity === undefined) return undefined;
    if (identity.id !== '' && (await this.marks.has('denied-identity', identity.id))) return undefined;
    return { identity, selections, tenant, mode };
  }

  async #known(key: string): Promise<Tenant | undefined> {
    try {
      return await this.tenants.get(key);
    } catch (error) {
      if (error instanceof ExhibitorError && error.code === 'unknown_tenant') return undefined;
      throw error;
    }
  }
}

function ownerOf({ tenant, issuer, subject }: Pick<IdentityData, 'tenant' | 'issuer' | 'subject'>): string {
  return JSON.stringify([tenant, issuer, subject]);
}
