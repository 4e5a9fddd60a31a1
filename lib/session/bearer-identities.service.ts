import { Inject, Injectable, Optional } from '@nestjs/common';
import type { HttpContext } from '../http/http-context.js';
import { digestOf } from '../model/digest.js';
import type { ExhibitorIdentity } from '../model/exhibitor-identity.interface.js';
import { weighEntry } from '../model/json-values.js';
import { TokenValidator } from '../oidc/token-validator.service.js';
import { UserInfo } from '../oidc/user-info.service.js';
import type { Tenant } from '../tenants/tenant.js';
import { Clock } from '../time/clock.js';
import { Deadlines } from '../time/deadlines.service.js';
import { FairCache } from '../time/fair-cache.js';
import { KeptClaims } from './kept-claims.js';

/** Estimated bytes of heap of all identities in the cache: those of about 30,000 people. */
const MAX_BYTES = 64 * 1024 * 1024;

/** Largest claims of an identity, in bytes of JSON. Userinfo may have 256 KiB. */
const MAX_CLAIMS = 16 * 1024;

/** Tokens whose concurrent requests share one verification. */
const MAX_PENDING = 1_000;

/** Nest never provides it, so the default applies. Tests call the constructor with a lower limit. */
const BEARER_IDENTITIES_BYTES = Symbol('nestjs-exhibitor:bearer-identities-bytes');

/**
 * Identities of requests that carry the user's access token. A token is verified, and userinfo read, once; the identity is
 * cached by the digest of the token until the token expires.
 */
@Injectable()
export class BearerIdentities {
  readonly #verified: FairCache<ExhibitorIdentity>;
  /** Apart from the verified ones, so that forged tokens push out no identity. */
  readonly #pending: FairCache<Promise<ExhibitorIdentity>>;
  readonly #claims: KeptClaims;

  constructor(
    @Inject(TokenValidator) private readonly validator: TokenValidator,
    @Inject(UserInfo) private readonly userInfo: UserInfo,
    @Inject(Clock) private readonly clock: Clock,
    @Inject(Deadlines) private readonly deadlines: Deadlines,
    @Optional() @Inject(BEARER_IDENTITIES_BYTES) maxBytes = MAX_BYTES,
  ) {
    this.#verified = new FairCache(clock, maxBytes);
    this.#pending = new FairCache(clock, MAX_PENDING);
    this.#claims = new KeptClaims(clock);
  }

  /** @throws {LoginFailedError} where the token is refused */
  identify(tenant: Tenant, token: string): ExhibitorIdentity | Promise<ExhibitorIdentity> {
    const digest = digestOf(token);
    const key = `${tenant.stateKey.id}:${digest}`;
    const known = this.#verified.get(key) ?? this.#pending.get(key);
    if (known !== undefined) {
      return known;
    }
    const identity = this.#verify(tenant, token, digest)
      .then((verified) => this.#keep(key, verified))
      .finally(() => this.#pending.delete(key));
    this.#pending.set(key, identity, { tenant: tenant.key });
    return identity;
  }

  /** Caches the identity for the lifetime of the token. A refusal is not cached. */
  #keep(key: string, identity: ExhibitorIdentity): ExhibitorIdentity {
    const { tenant, subject, email, clientId, claims, expiresAt } = identity;
    const weight = weighEntry([subject, email, clientId, claims]);
    const ttl = Math.max(1, expiresAt - this.clock.epochMs());
    this.#verified.set(key, identity, { tenant, weight, ttl });
    return identity;
  }

  async #verify(tenant: Tenant, token: string, digest: string): Promise<ExhibitorIdentity> {
    return this.deadlines.within(tenant.http.deadline, async (deadline) => {
      const { payload } = await this.validator.verify(tenant, { use: 'access_token', token }, deadline);
      const { subject, email, claims } = await this.userInfo.userOf(tenant, payload, token, deadline);
      const chosen = this.#claims.chosen(tenant, claims);
      const isTooLarge = Buffer.byteLength(JSON.stringify(chosen)) > MAX_CLAIMS;
      return Object.freeze({
        id: digest,
        issuer: String(payload.iss),
        subject,
        email,
        claims: Object.freeze(isTooLarge ? this.#claims.fewest(tenant, chosen) : chosen),
        tenant: tenant.key,
        tenantId: tenant.tenantId,
        clientId: String(payload['azp'] ?? payload['client_id'] ?? ''),
        expiresAt: Number(payload.exp) * 1000,
      });
    });
  }
}

/** The bearer token of a request (RFC 6750 §2.1). Tokens in the query or in a form are not accepted. */
export function bearerTokenOf(http: HttpContext): string | undefined {
  return /^Bearer +([\x21-\x7e]+) *$/i.exec(http.header('authorization') ?? '')?.[1];
}
