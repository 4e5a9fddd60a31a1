import { Inject, Injectable } from '@nestjs/common';
import type { JWTPayload } from 'jose';
import { LoginFailedError } from '../errors/login-failed.error.js';
import type { HttpContext } from '../browser/http-context.js';
import { isRecord, isText } from '../model/json-values.js';
import { isAddressedTo } from '../oidc/token-rules.js';
import { TokenValidator } from '../oidc/token-validator.service.js';
import { unverified } from '../oidc/verify-signature.js';
import { UNREAD_FORM } from '../config/problems/host-problems.js';
import { described } from '../config/problems/claim-text.js';
import { ProblemLog } from '../config/problems/problem-log.service.js';
import { EndedLogins } from './ended-logins.service.js';
import { TenantRegistry } from '../config/tenant-registry.service.js';
import type { Tenant } from '../config/tenant.js';
import { Clock } from '../call/clock.js';
import { Calls } from '../call/calls.service.js';

/** Longest logout token, in characters. */
const MAX_LENGTH = 16_384;

/** What one tenant made of a logout token: whether the store took the logout, or why it did not accept the token. */
interface OfferedLogout {
  readonly registration: string;
  readonly isStored?: boolean;
  readonly failure?: unknown;
}

/** Logouts at the provider, which sends us a token for each (OpenID Connect Back-Channel Logout 1.0). */
@Injectable()
export class ProviderLogouts {
  constructor(
    @Inject(TenantRegistry) private readonly tenants: TenantRegistry,
    @Inject(TokenValidator) private readonly validator: TokenValidator,
    @Inject(EndedLogins) private readonly ended: EndedLogins,
    @Inject(Clock) private readonly clock: Clock,
    @Inject(Calls) private readonly calls: Calls,
    @Inject(ProblemLog) private readonly log: ProblemLog,
  ) {}

  /**
   * Verifies the `logout_token` of a request and ends the logins that it names. Returns false where the
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
    const results = await Promise.all(tenants.map((tenant) => this.#offer(tenant, token)));
    const accepted = results.filter(({ isStored }) => isStored !== undefined);
    // Where one tenant of a registration accepts it, the logins of all its tenants have ended.
    const ended = new Set(accepted.map(({ registration }) => registration));
    const failed = results.filter(({ registration }) => !ended.has(registration));
    const unchecked = failed.find(({ failure }) => !isRefusal(failure));
    if (unchecked !== undefined || accepted.length === 0) {
      throw (unchecked ?? failed[0])?.failure;
    }
    return accepted.every(({ isStored }) => isStored);
  }

  async #offer(tenant: Tenant, token: string): Promise<OfferedLogout> {
    const { registration } = tenant;
    try {
      return { registration, isStored: await this.#record(tenant, token) };
    } catch (failure) {
      return { registration, failure };
    }
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
    // Of those that are equal, the last one stays.
    return [...new Map(checks).values()];
  }

  async #record(tenant: Tenant, token: string): Promise<boolean> {
    const { payload } = await this.calls
      .start(tenant.http.deadline)
      .run((call) => this.validator.verify(tenant, { use: 'logout_token', token }, call));
    const { sub: subject, sid, iat } = payload;
    return this.ended.logouts.record({
      registration: tenant.registration,
      subject,
      sid: isText(sid) ? sid : undefined,
      // A logout in the future would end logins that begin after it.
      at: Math.min(Number(iat) * 1000, this.clock.epochMs()),
    });
  }
}

/**
 * True where a tenant refuses the token, which must not stop others of the same issuer and client. Not for `provider`, keys that cannot be
 * used: the token was not checked.
 */
function isRefusal(failure: unknown): boolean {
  return failure instanceof LoginFailedError && failure.reason !== 'provider';
}
