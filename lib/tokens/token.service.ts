import { Inject, Injectable } from '@nestjs/common';
import { publish } from '../diagnostics/channels.js';
import { ExhibitorError } from '../errors/exhibitor.error.js';
import { ProblemLog } from '../problems/problem-log.service.js';
import { TenantRegistry } from '../tenants/tenant-registry.service.js';
import type { StateKey, Tenant } from '../tenants/tenant.js';
import { Clock, LONGEST_TIMER } from '../time/clock.js';
import type { Deadline } from '../time/deadline.js';
import { Deadlines } from '../time/deadlines.service.js';
import { HeldToken } from './held-token.js';
import { SharedTokens } from './shared-tokens.service.js';
import type { AccessToken, TimedToken } from './token-lifetime.js';
import { TokenRenewals, type TokenProof } from './token-renewals.js';

/** Options of {@link TokenService.getToken}. */
export interface GetTokenOptions {
  /** Key of the tenant. Default: the only one. */
  tenant?: string | undefined;
  /** Ends the waiting of this caller, not the token request that others wait for. */
  signal?: AbortSignal | undefined;
}

/** Options of {@link TokenService.invalidate}. */
export interface InvalidateOptions {
  /** Key of the tenant. Default: the only one. */
  tenant?: string | undefined;
  /** Invalidates only this token. A newer one is kept. */
  rejected?: string | undefined;
}

/**
 * Client-credentials access tokens of the tenants: cached, renewed in the background before they expire, and requested once
 * for all concurrent callers; with a `store`, once for all processes.
 *
 * @example
 * const { accessToken } = await tokens.getToken({ tenant: 'acme' });
 */
@Injectable()
export class TokenService {
  readonly #held = new WeakMap<StateKey, HeldToken>();
  readonly #renewals: TokenRenewals;
  /** The last answer of {@link getToken}: creating it is most of the cost of a hit. All of them would be 200 bytes a tenant. */
  #last: { timed: TimedToken; answer: AccessToken } | undefined;

  /** @internal */
  constructor(
    @Inject(TenantRegistry) private readonly tenants: TenantRegistry,
    @Inject(Clock) private readonly clock: Clock,
    @Inject(Deadlines) private readonly deadlines: Deadlines,
    @Inject(SharedTokens) tokens: SharedTokens,
    @Inject(ProblemLog) log: ProblemLog,
  ) {
    this.#renewals = new TokenRenewals(clock, deadlines, tokens, log);
  }

  /**
   * A valid access token.
   *
   * @throws {ExhibitorError} `token_rejected` (see {@link TokenRejectedError}), `token_unavailable`, `rate_limited`,
   * `malformed_response`, `deadline_exceeded`, `aborted`, `unknown_tenant`, `tenant_required`
   */
  async getToken(options?: GetTokenOptions): Promise<AccessToken> {
    const signal = options?.signal;
    const known = this.tenants.resolve(options?.tenant);
    if (known instanceof Promise) {
      // The search for the tenant takes its part of the deadline.
      const startedAt = this.clock.now();
      const tenant = await this.#found(known, signal);
      return this.#get(tenant, tenant.http.deadline - (this.clock.now() - startedAt), signal);
    }
    return this.#get(known, known.http.deadline, signal);
  }

  /**
   * Removes the token of a tenant, so that the next call requests a new one, and a remembered rejection. With `rejected`,
   * only where that is the current token.
   *
   * @throws {ExhibitorError} `unknown_tenant`, `tenant_required`
   */
  async invalidate(options?: InvalidateOptions): Promise<void> {
    const tenant = await this.tenants.resolve(options?.tenant);
    const now = this.clock.now();
    if (options?.rejected === undefined) {
      // Also where this process holds none: it must not take an older one from the store.
      this.#heldOf(tenant).invalidate(now);
    } else {
      this.#held.get(tenant.stateKey)?.removeRefused(options.rejected, now, 'refused');
    }
  }

  /** The token of a tenant, within the deadline of a call; synchronously where one is cached. @internal */
  tokenFor(tenant: Tenant, deadline: Deadline): TimedToken | Promise<TimedToken> {
    return this.#fresh(tenant) ?? this.#wait(tenant, deadline);
  }

  /** For health checks, within `timeout` ms: see {@link TokenRenewals.prove}. Errors as {@link getToken}. @internal */
  prove(key: string | undefined, maxAge: number, timeout: number): Promise<TokenProof> {
    return this.deadlines.within(timeout, async (deadline) => {
      const tenant = await deadline.race(Promise.resolve(this.tenants.resolve(key)));
      return this.#renewals.prove(tenant, this.#heldOf(tenant), maxAge, deadline);
    });
  }

  /**
   * The service answered 401 to a request with this token, which was sent at `sentAt` (ms of {@link Clock.now}): removes it,
   * unless it was renewed meanwhile. A token of another process replaces it only if that was requested later than `sentAt`, or
   * where this one was about to end, later than this one.
   *
   * @param reason `refused-again`: it came in place of a refused one, and no token of another process replaces it. @internal
   */
  removeRefused(
    tenant: Tenant,
    token: TimedToken,
    sentAt: number,
    reason: 'refused' | 'refused-again',
  ): void {
    this.#held.get(tenant.stateKey)?.removeRefused(token.accessToken, sentAt, reason);
  }

  /** Answers no promise where a token is cached. */
  #get(tenant: Tenant, ms: number, signal: AbortSignal | undefined): AccessToken | Promise<AccessToken> {
    const fresh = signal?.aborted === true ? undefined : this.#fresh(tenant);
    if (fresh !== undefined) {
      return this.#answer(fresh);
    }
    if (this.deadlines.isClosed) {
      throw new ExhibitorError('token_unavailable', 'no token: the module was closed', {
        tenant: tenant.key,
        attempts: 0,
      });
    }
    const left = Math.max(1, Math.ceil(ms));
    const wait = async (deadline: Deadline): Promise<AccessToken> =>
      this.#answer(await this.#wait(tenant, deadline));
    return this.deadlines.within(left, wait, signal);
  }

  /** The registry limits the time of the search, so this deadline ends only by signal or closing. */
  #found(tenant: Promise<Tenant>, signal: AbortSignal | undefined): Promise<Tenant> {
    return this.deadlines.within(LONGEST_TIMER, (search) => search.race(tenant), signal);
  }

  #answer(timed: TimedToken): AccessToken {
    if (this.#last?.timed !== timed) {
      this.#last = { timed, answer: timed.toAccessToken() };
    }
    return this.#last.answer;
  }

  #fresh(tenant: Tenant): TimedToken | undefined {
    const now = this.clock.now();
    const held = this.#held.get(tenant.stateKey);
    const timed = held?.goodAt(now);
    if (held === undefined || timed === undefined) {
      return undefined;
    }
    if (now >= timed.renewAt) {
      this.#renewals.renewEarly(tenant, held, now);
    }
    publish('token', () => ({ tenant: tenant.key, outcome: 'hit' }));
    return timed;
  }

  #wait(tenant: Tenant, deadline: Deadline): Promise<TimedToken> {
    return this.#renewals.wait(tenant, this.#heldOf(tenant), deadline);
  }

  #heldOf(tenant: Tenant): HeldToken {
    const held = this.#held.get(tenant.stateKey) ?? new HeldToken();
    this.#held.set(tenant.stateKey, held);
    return held;
  }
}
