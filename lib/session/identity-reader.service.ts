import { Inject, Injectable } from '@nestjs/common';
import { ExhibitorError } from '../errors/exhibitor.error.js';
import { isSecure } from '../http/cookies.js';
import type { HttpContext } from '../http/http-context.js';
import type { ExhibitorIdentity } from '../model/exhibitor-identity.interface.js';
import { CHECKED_OPTIONS, type CheckedOptions } from '../options/check-options.js';
import type { SessionMode } from '../options/exhibitor-options.interface.js';
import { TenantRegistry } from '../tenants/tenant-registry.service.js';
import type { Tenant } from '../tenants/tenant.js';
import { Clock } from '../time/clock.js';
import { runSteps, settled, type MaybePromise, type Steps } from '../time/steps.js';
import { BearerIdentities, bearerTokenOf } from './bearer-identities.service.js';
import { DeniedIdentities } from './denied-identities.service.js';
import { readSelections } from './host-session.js';
import { IdentityCookie } from './identity-cookie.service.js';
import { identityFor, parseIdentity, type IdentityData, type Selections } from './stored-identity.js';

/** The user of a request. */
export interface SessionState {
  identity: ExhibitorIdentity;
  /** Selected exhibitor by event. */
  selections: Selections;
  tenant: Tenant;
  /** Where the identity was found. */
  mode: SessionMode;
}

/** Finds the user of a request in the cookie, the host's session or the bearer token. @internal */
@Injectable()
export class IdentityReader {
  readonly #modes: readonly SessionMode[];
  readonly #tenants: TenantRegistry;
  readonly #cookie: IdentityCookie;
  readonly #bearer: BearerIdentities;
  readonly #denied: DeniedIdentities;
  readonly #clock: Clock;

  constructor(
    @Inject(CHECKED_OPTIONS) { settings }: CheckedOptions,
    @Inject(TenantRegistry) tenants: TenantRegistry,
    @Inject(IdentityCookie) cookie: IdentityCookie,
    @Inject(BearerIdentities) bearer: BearerIdentities,
    @Inject(DeniedIdentities) denied: DeniedIdentities,
    @Inject(Clock) clock: Clock,
  ) {
    this.#modes = settings.session;
    this.#tenants = tenants;
    this.#cookie = cookie;
    this.#bearer = bearer;
    this.#denied = denied;
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
    return { identity, selections: readSelections(http, data), tenant, mode: 'host' };
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
