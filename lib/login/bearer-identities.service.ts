import { Inject, Injectable } from '@nestjs/common';
import { ExhibitorError } from '../errors/exhibitor.error.js';
import type { HttpContext } from '../browser/http-context.js';
import { digestOf } from '../model/digest.js';
import type { ExhibitorIdentity } from '../model/exhibitor-identity.interface.js';
import { freezeJson } from '../model/json-values.js';
import { partyClaimOf } from '../oidc/token-rules.js';
import { TokenValidator } from '../oidc/token-validator.service.js';
import { UserInfo } from '../oidc/user-info.service.js';
import { ProblemLog } from '../config/problems/problem-log.service.js';
import type { StateKey, Tenant } from '../config/tenant.js';
import { Clock } from '../call/clock.js';
import type { Call, SharedWork } from '../call/call.js';
import { Calls, SharedWorks } from '../call/calls.service.js';
import { createCache, type ExpiringCache } from '../call/expiring-cache.js';
import { authorizedIdentity, NOT_AUTHORIZED } from './identity.js';

/** Estimated bytes of heap of all answers in the cache. An identity takes about three times its JSON. */
const MAX_BYTES = 64 * 1024 * 1024;

/** Longest time for which an answer is kept, in ms. */
const LONGEST_KEPT = 300_000;

/** Verifications of a tenant under way, so that forged tokens of one take no place of another. */
const MAX_PENDING = 250;

/** The identity of a verified token, or that `login.authorize` refused it. */
type Answer = ExhibitorIdentity | 'refused';

/**
 * Identities of requests that carry the user's access token. A token is verified, userinfo read and `login.authorize` asked
 * once; the answer is kept by the digest of the token until the token ends, for 5 minutes at most.
 */
@Injectable()
export class BearerIdentities {
  readonly #answers: ExpiringCache<Answer>;
  /** Outside the cache, so that forged tokens push out no verified one. */
  readonly #pending = new WeakMap<StateKey, SharedWorks<string, Answer>>();

  constructor(
    @Inject(TokenValidator) private readonly validator: TokenValidator,
    @Inject(UserInfo) private readonly userInfo: UserInfo,
    @Inject(Clock) private readonly clock: Clock,
    @Inject(Calls) private readonly calls: Calls,
    @Inject(ProblemLog) private readonly log: ProblemLog,
  ) {
    this.#answers = createCache(clock, { maxSize: MAX_BYTES });
  }

  /**
   * @throws {LoginFailedError} where the token is refused
   * @throws {ExhibitorError} `service_unavailable` where too many verifications are under way
   */
  async identify(tenant: Tenant, token: string): Promise<ExhibitorIdentity> {
    const key = `${tenant.stateKey.id}:${digestOf(token)}`;
    const wait = (caller: Call): Promise<Answer> => caller.join(this.#verification(tenant, token, key));
    const answer = this.#answers.get(key) ?? (await this.calls.start(tenant.http.deadline).run(wait));
    if (answer === 'refused') {
      throw this.log.refusal(tenant, 'user', NOT_AUTHORIZED);
    }
    return answer;
  }

  /** The one under way, else a new one. */
  #verification(tenant: Tenant, token: string, key: string): SharedWork<Answer> {
    const pending = this.#pending.get(tenant.stateKey) ?? new SharedWorks<string, Answer>(this.calls);
    this.#pending.set(tenant.stateKey, pending);
    const joined = pending.joinable(key);
    if (joined === undefined && pending.size >= MAX_PENDING) {
      throw new ExhibitorError('service_unavailable', 'too many bearer tokens are being verified', {
        tenant: tenant.key,
      });
    }
    return (
      joined ?? pending.start(key, tenant.http.deadline, (call) => this.#verify(tenant, token, key, call))
    );
  }

  async #verify(tenant: Tenant, token: string, key: string, call: Call): Promise<Answer> {
    call.tenant = tenant.key;
    const { payload } = await this.validator.verify(tenant, { use: 'access_token', token }, call);
    const user = await this.userInfo.userOf(tenant, payload, token, call);
    const verified = {
      id: digestOf(token),
      issuer: String(payload.iss),
      ...user,
      tenant: tenant.key,
      tenantId: tenant.tenantId,
      clientId: String(payload[partyClaimOf(payload)] ?? ''),
      redirectUri: tenant.login?.redirectUri ?? '',
      expiresAt: Number(payload.exp) * 1000,
    };
    const answer = (await authorizedIdentity(tenant, verified, call, this.log)) ?? 'refused';
    freezeJson(answer);
    const ttl = Math.min(LONGEST_KEPT, verified.expiresAt - this.clock.epochMs());
    const size = 3 * Buffer.byteLength(JSON.stringify([key, answer]));
    // A `ttl` of 0 would mean for ever.
    this.#answers.set(key, answer, { ttl: Math.max(1, ttl), size });
    return answer;
  }
}

/** The bearer token of a request (RFC 6750 §2.1). Tokens in the query or in a form are not accepted. */
export function bearerTokenOf(http: HttpContext): string | undefined {
  return /^Bearer +([\x21-\x7e]+) *$/i.exec(http.header('authorization') ?? '')?.[1];
}
