import { createHash } from 'node:crypto';
import { Inject, Injectable } from '@nestjs/common';
import type { JWTPayload } from 'jose';
import { LRUCache } from 'lru-cache';
import { LoginFailedError } from '../errors/login-failed.error.js';
import type { ExhibitorIdentity } from '../model/exhibitor-identity.interface.js';
import type { Tenant } from '../tenants/tenant.js';
import { Clock } from '../time/clock.js';
import { Deadline } from '../time/deadline.js';
import { contactEmail, hasContactEmail, personClaims } from '../oidc/contact-email.js';
import { TokenValidator } from '../oidc/token-validator.service.js';
import { UserInfo } from '../oidc/user-info.service.js';

type Identities = LRUCache<string, Promise<ExhibitorIdentity>>;

/**
 * Identities of requests that carry the user's access token. A token is verified, and userinfo asked, once; what came
 * out is remembered by the token's digest until the token expires.
 */
@Injectable()
export class BearerIdentities {
  /** Tokens remembered per tenant. */
  limit = 10_000;
  readonly #known = new WeakMap<object, Identities>();

  constructor(
    @Inject(TokenValidator) private readonly validator: TokenValidator,
    @Inject(UserInfo) private readonly userInfo: UserInfo,
    @Inject(Clock) private readonly clock: Clock,
  ) {}

  /** @throws {LoginFailedError} for a token that is refused */
  async identify(tenant: Tenant, token: string): Promise<ExhibitorIdentity> {
    const known = this.#known.get(tenant.stateKey) ?? new LRUCache({ max: this.limit, perf: this.clock });
    this.#known.set(tenant.stateKey, known);
    const digest = createHash('sha256').update(token).digest('base64url');
    const identity = known.get(digest) ?? this.#remember(known, digest, tenant, token);
    return identity;
  }

  #remember(known: Identities, digest: string, tenant: Tenant, token: string): Promise<ExhibitorIdentity> {
    const identity = this.#verify(tenant, token, digest);
    known.set(digest, identity);
    identity.then(
      ({ expiresAt }) => known.set(digest, identity, { ttl: Math.max(1, expiresAt - this.clock.epochMs()) }),
      () => known.delete(digest),
    );
    return identity;
  }

  async #verify(tenant: Tenant, token: string, digest: string): Promise<ExhibitorIdentity> {
    const deadline = Deadline.start(this.clock, tenant.http.deadline);
    try {
      const { payload } = await this.validator.validateAccessToken(tenant, token, deadline);
      return await this.#identity(tenant, token, digest, payload, deadline);
    } finally {
      deadline.end();
    }
  }

  async #identity(
    tenant: Tenant,
    token: string,
    digest: string,
    payload: JWTPayload,
    deadline: Deadline,
  ): Promise<ExhibitorIdentity> {
    const rules = { emailClaim: 'email', requireVerifiedEmail: false, ...tenant.login };
    const subject = String(payload.sub);
    const userinfo = hasContactEmail(payload, rules)
      ? undefined
      : await this.userInfo.read(tenant, token, subject, deadline);
    const contact = contactEmail(userinfo === undefined ? [payload] : [payload, userinfo], rules);
    if ('refusal' in contact) {
      throw new LoginFailedError(contact.refusal, `the token is refused: ${contact.refusal}`, {
        tenant: tenant.key,
      });
    }
    return Object.freeze({
      id: digest,
      issuer: String(payload.iss),
      subject,
      email: contact.email,
      claims: Object.freeze(personClaims(payload, userinfo)),
      tenant: tenant.key,
      tenantId: tenant.tenantId,
      clientId: String(payload['azp'] ?? payload['client_id'] ?? ''),
      expiresAt: Number(payload.exp) * 1000,
    });
  }
}
