import { Inject, Injectable } from '@nestjs/common';
import { publish } from '../call/channels.js';
import { isExhibitorError } from '../errors/is-exhibitor-error.js';
import { TokenRejectedError } from '../errors/token-rejected.error.js';
import { ProblemLog } from '../config/problems/problem-log.service.js';
import { SharedValues } from '../store/shared-values.service.js';
import { TenantRegistry } from '../config/tenant-registry.service.js';
import type { StateKey, Tenant } from '../config/tenant.js';
import { Clock, LONGEST_TIMER } from '../call/clock.js';
import { Deadlines, type Deadline } from '../call/deadline.js';
import { TokenEndpoint } from './token-endpoint.service.js';
import type { AccessToken, TimedToken } from './token-lifetime.js';
import type { GetTokenOptions, InvalidateOptions } from './token-options.interface.js';
import { remember, repeated, type TokenRefusal } from './token-reply.js';
import { TokenSource } from './token-source.js';

/** Pause of early renewals after one failed, in ms. The old token is still good. */
const QUIET_AFTER_FAILURE = 5_000;

/** What is held of the token of a tenant. To invalidate it, a new one takes its place: an older renewal fills the old one. */
class Held {
  /** It may have expired. */
  token: TimedToken | undefined;
  refusal: TokenRefusal | undefined;
  renewal: { readonly deadline: Deadline; readonly result: Promise<TimedToken> } | undefined;
  /** No early renewal before this time, in ms of {@link Clock.now}. */
  quietUntil = 0;

  /** @param invalidated the access token in whose place the next one comes, and since when */
  constructor(public invalidated?: { readonly text: string; readonly at: number }) {}
}

/**
 * Client-credentials access tokens of the tenants: cached, renewed in the background before they expire, and requested once
 * for all concurrent callers; with a `store`, usually once for all processes.
 *
 * @example
 * const { accessToken } = await tokens.getToken({ tenant: 'acme' });
 */
@Injectable()
export class TokenService {
  /** Tenants with equal credentials have separate tokens: forgetting or revoking one does not affect the other. */
  readonly #held = new WeakMap<StateKey, Held>();
  readonly #source: TokenSource;

  /** @internal */
  constructor(
    @Inject(TenantRegistry) private readonly tenants: TenantRegistry,
    @Inject(Clock) private readonly clock: Clock,
    @Inject(Deadlines) private readonly deadlines: Deadlines,
    @Inject(TokenEndpoint) endpoint: TokenEndpoint,
    @Inject(SharedValues) values: SharedValues,
    @Inject(ProblemLog) log: ProblemLog,
  ) {
    this.#source = new TokenSource(endpoint, values, clock, log);
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
      // The search takes its part of the deadline. The registry limits it, so it ends here only by signal or closing.
      const startedAt = this.clock.now();
      const tenant = await this.deadlines.within(LONGEST_TIMER, (search) => search.race(known), signal);
      return this.#get(tenant, tenant.http.deadline - (this.clock.now() - startedAt), signal);
    }
    return this.#get(known, known.http.deadline, signal);
  }

  /**
   * Removes the token of a tenant, so that the next call requests a new one, and a remembered refusal. With `rejected`,
   * only where that is the current token; the next one may then be one that another process requests from now on.
   *
   * @throws {ExhibitorError} `unknown_tenant`, `tenant_required`
   */
  async invalidate(options?: InvalidateOptions): Promise<void> {
    const tenant = await this.tenants.resolve(options?.tenant);
    if (options?.rejected === undefined) {
      // Also where this process holds none: it must not take an older one from the store.
      this.#invalidate(tenant, '', Number.POSITIVE_INFINITY);
    } else {
      this.removeRefused(tenant, options.rejected, this.clock.now());
    }
  }

  /** The token of a tenant, within the deadline of a call; synchronously where one is cached. @internal */
  tokenFor(tenant: Tenant, deadline: Deadline): TimedToken | Promise<TimedToken> {
    return this.#fresh(tenant) ?? this.#wait(tenant, deadline);
  }

  /**
   * The service answered 401 to a request with this token, which was sent at `sentAt` (ms of {@link Clock.now}): removes it,
   * unless it was renewed meanwhile. @internal
   */
  removeRefused(tenant: Tenant, accessToken: string, sentAt: number): void {
    if (this.#held.get(tenant.stateKey)?.token?.accessToken === accessToken) {
      this.#invalidate(tenant, accessToken, sentAt);
    }
  }

  /** Answers no promise where a token is cached. */
  #get(tenant: Tenant, ms: number, signal: AbortSignal | undefined): AccessToken | Promise<AccessToken> {
    const fresh = signal?.aborted === true ? undefined : this.#fresh(tenant);
    if (fresh !== undefined) {
      return fresh.toAccessToken();
    }
    const left = Math.max(1, Math.ceil(ms));
    const wait = async (deadline: Deadline): Promise<AccessToken> =>
      (await this.#wait(tenant, deadline)).toAccessToken();
    return this.deadlines.within(left, wait, signal);
  }

  /** The token that is held and has not expired. In its early window it is renewed in the background. */
  #fresh(tenant: Tenant): TimedToken | undefined {
    const now = this.clock.now();
    const held = this.#held.get(tenant.stateKey);
    const token = held?.token;
    if (held === undefined || token === undefined || now >= token.expiresAt) {
      return undefined;
    }
    if (now >= token.renewAt && now >= held.quietUntil && held.renewal === undefined) {
      held.renewal = this.#renew(tenant, held);
      held.renewal.result.then(
        ({ isShared }) => publishOutcome(tenant, isShared ? 'shared' : 'renewed-early'),
        (error: unknown) => publishFailure(tenant, error),
      );
    }
    publish('token', () => ({ tenant: tenant.key, outcome: 'hit' }));
    return token;
  }

  /** Waits for the next token within the deadline of a call: that of the renewal under way, else of a new one. */
  async #wait(tenant: Tenant, deadline: Deadline): Promise<TimedToken> {
    try {
      return await this.#join(tenant, deadline);
    } catch (error) {
      publishFailure(tenant, error);
      throw error;
    }
  }

  async #join(tenant: Tenant, deadline: Deadline): Promise<TimedToken> {
    for (;;) {
      if (deadline.isOver) {
        throw deadline.failure({ tenant: tenant.key });
      }
      const held = this.#heldOf(tenant);
      if (held.refusal !== undefined && this.clock.now() < held.refusal.until) {
        throw repeated(held.refusal);
      }
      const isJoined = held.renewal !== undefined;
      // Published, where this call itself starts the renewal and no other process had the token.
      const outcome = held.invalidated === undefined ? 'fetched' : 'forced';
      held.renewal ??= this.#renew(tenant, held);
      try {
        const token = await deadline.race(held.renewal.result, held.renewal.deadline);
        publishOutcome(tenant, isJoined || token.isShared ? 'shared' : outcome);
        return token;
      } catch (error) {
        // A renewal that ran out of time does not fail a caller that joined later and has time left.
        const wasLate = isJoined && isExhibitorError(error) && error.code === 'deadline_exceeded';
        if (deadline.isOver || !wasLate) {
          throw error;
        }
      }
    }
  }

  /** Starts a renewal with a deadline of its own. No caller's abort cancels it. */
  #renew(tenant: Tenant, held: Held): NonNullable<Held['renewal']> {
    const deadline = this.deadlines.start(tenant.http.deadline);
    deadline.tenant = tenant.key;
    const result = this.#fetch(tenant, held, deadline).finally(() => {
      deadline.clear();
      held.renewal = undefined;
    });
    // Every caller handles a failure itself. Without callers, an unhandled rejection would end the process.
    result.catch(() => undefined);
    return { deadline, result };
  }

  async #fetch(tenant: Tenant, held: Held, deadline: Deadline): Promise<TimedToken> {
    const { token, invalidated } = held;
    try {
      const next = await this.#source.next(
        tenant,
        {
          replaced: token?.accessToken ?? invalidated?.text ?? '',
          requestedAfter: invalidated?.at ?? Number.NEGATIVE_INFINITY,
          expiresAfter: Math.max(token?.expiresAt ?? 0, this.clock.now()),
          isNeeded: () => this.#held.get(tenant.stateKey) === held,
        },
        deadline,
      );
      held.token = next;
      held.refusal = undefined;
      held.invalidated = undefined;
      return next;
    } catch (error) {
      const now = this.clock.now();
      if (error instanceof TokenRejectedError) {
        held.refusal = remember(error, now);
      }
      held.quietUntil = Math.max(now + QUIET_AFTER_FAILURE, held.refusal?.until ?? 0);
      throw error;
    }
  }

  #invalidate(tenant: Tenant, text: string, at: number): void {
    this.#held.set(tenant.stateKey, new Held({ text, at }));
  }

  #heldOf(tenant: Tenant): Held {
    const held = this.#held.get(tenant.stateKey) ?? new Held();
    this.#held.set(tenant.stateKey, held);
    return held;
  }
}

function publishOutcome({ key }: Tenant, outcome: 'fetched' | 'forced' | 'shared' | 'renewed-early'): void {
  publish('token', () => ({ tenant: key, outcome }));
}

function publishFailure({ key }: Tenant, error: unknown): void {
  const code = isExhibitorError(error) ? error.code : undefined;
  publish('token', () => ({ tenant: key, outcome: 'failed', code }));
}
