import { Inject, Injectable, type OnModuleDestroy } from '@nestjs/common';
import { channels, type TokenMessage } from '../diagnostics/channels.js';
import { isExhibitorError } from '../errors/exhibitor.error.js';
import { TokenRejectedError } from '../errors/token-rejected.error.js';
import { PerTenant } from '../tenants/per-tenant.js';
import { OperatorLog } from '../tenants/operator-log.service.js';
import { TenantRegistry } from '../tenants/tenant-registry.service.js';
import type { Tenant } from '../tenants/tenant.js';
import { Clock, LONGEST_TIMER } from '../time/clock.js';
import { Deadline } from '../time/deadline.js';
import type { AccessToken, GetTokenOptions, InvalidateOptions } from './access-token.interface.js';
import { HeldToken, type Renewal, type TimedToken } from './held-token.js';
import { clientProblem } from './oauth-refusal.js';
import { isRemembered, remember, repeated } from './refusal.js';
import { TokenEndpoint } from './token-endpoint.service.js';

/** Pause in ms after a failed early renewal. The old token is still good. */
const PAUSE_AFTER_FAILURE = 5_000;

/**
 * Client-credentials access tokens of the tenants: cached, renewed in the background before they expire, and requested once
 * for all concurrent callers.
 *
 * @example
 * const { accessToken } = await tokens.getToken({ tenant: 'acme' });
 */
@Injectable()
export class TokenService implements OnModuleDestroy {
  /** Deadlines of renewals and of callers that wait. */
  readonly #deadlines = new Set<Deadline>();
  readonly #held = new PerTenant<HeldToken>();
  readonly #tenants: TenantRegistry;
  readonly #clock: Clock;
  readonly #endpoint: TokenEndpoint;
  readonly #log: OperatorLog;

  constructor(
    @Inject(TenantRegistry) tenants: TenantRegistry,
    @Inject(Clock) clock: Clock,
    @Inject(TokenEndpoint) endpoint: TokenEndpoint,
    @Inject(OperatorLog) log: OperatorLog,
  ) {
    this.#log = log;
    this.#tenants = tenants;
    this.#clock = clock;
    this.#endpoint = endpoint;
  }

  /**
   * A valid access token.
   *
   * @throws {ExhibitorError} `token_rejected` (see {@link TokenRejectedError}), `token_unavailable`, `rate_limited`,
   * `malformed_response`, `deadline_exceeded`, `aborted`, `unknown_tenant`, `tenant_required`
   */
  getToken(options?: GetTokenOptions): Promise<AccessToken> {
    try {
      const tenant = this.#tenants.resolve(options?.tenant);
      if (tenant instanceof Promise) {
        return this.#tokenOfFound(tenant, options?.signal);
      }
      return this.#tokenWithin(tenant, options?.signal);
    } catch (error) {
      return Promise.reject(error);
    }
  }

  /**
   * Removes the token of a tenant, so that the next call requests a new one, and a remembered refusal. With `rejected`,
   * only where that is the current token.
   *
   * @throws {ExhibitorError} `unknown_tenant`, `tenant_required`
   */
  async invalidate(options?: InvalidateOptions): Promise<void> {
    const tenant = await this.#tenants.resolve(options?.tenant);
    if (options?.rejected !== undefined) {
      return this.refused(tenant, options.rejected);
    }
    const held = this.#held.get(tenant);
    if (held === undefined) {
      return;
    }
    held.drop();
    held.refusal = undefined;
  }

  /** The token of a tenant, within the deadline of a call; synchronously where one is cached. @internal */
  tokenFor(tenant: Tenant, deadline: Deadline): AccessToken | Promise<AccessToken> {
    return this.#fresh(tenant)?.token ?? this.#wait(tenant, deadline);
  }

  /** The service answered 401 to this token: removes it, unless it was renewed meanwhile. @internal */
  refused(tenant: Tenant, accessToken: string): void {
    const held = this.#held.get(tenant);
    if (held?.timed?.token.accessToken === accessToken) {
      held.drop();
    }
  }

  /** Aborts all token requests and ends all waiting, also for a `clientSecret` function or a tenant source. */
  onModuleDestroy(): void {
    for (const deadline of this.#deadlines) {
      deadline.close();
    }
  }

  /** The registry limits the time of the search, so this deadline ends only by signal or closing. */
  async #tokenOfFound(tenant: Promise<Tenant>, signal: AbortSignal | undefined): Promise<AccessToken> {
    const search = this.#start(LONGEST_TIMER, signal);
    const found = await search.race(tenant).finally(() => this.#end(search));
    return this.#tokenWithin(found, signal);
  }

  #tokenWithin(tenant: Tenant, signal: AbortSignal | undefined): Promise<AccessToken> {
    if (signal?.aborted !== true) {
      const fresh = this.#fresh(tenant);
      if (fresh !== undefined) {
        return fresh.answer;
      }
    }
    const deadline = this.#start(tenant.http.deadline, signal);
    return this.#wait(tenant, deadline).finally(() => this.#end(deadline));
  }

  #start(ms: number, signal?: AbortSignal): Deadline {
    const deadline = Deadline.start(this.#clock, ms, signal);
    this.#deadlines.add(deadline);
    return deadline;
  }

  #end(deadline: Deadline): void {
    deadline.end();
    this.#deadlines.delete(deadline);
  }

  #fresh(tenant: Tenant): TimedToken | undefined {
    const held = this.#held.get(tenant);
    const timed = held?.timed;
    if (held === undefined || timed === undefined) {
      return undefined;
    }
    const now = this.#clock.now();
    if (now >= timed.expiresAt) {
      return undefined;
    }
    if (now >= timed.renewAt) {
      this.#renewEarly(tenant, held, now);
    }
    if (channels.token.hasSubscribers) {
      publish({ tenant: tenant.key, outcome: 'hit' });
    }
    return timed;
  }

  async #wait(tenant: Tenant, deadline: Deadline): Promise<AccessToken> {
    try {
      if (deadline.isOver) {
        throw deadline.failure({ tenant: tenant.key });
      }
      return await this.#join(
        tenant,
        this.#held.getOrCreate(tenant, () => new HeldToken()),
        deadline,
      );
    } catch (error) {
      const code = isExhibitorError(error) ? error.code : undefined;
      if (channels.token.hasSubscribers) {
        publish({ tenant: tenant.key, outcome: 'failed', code });
      }
      throw error;
    }
  }

  async #join(tenant: Tenant, held: HeldToken, deadline: Deadline): Promise<AccessToken> {
    for (;;) {
      if (held.refusal !== undefined && this.#clock.now() < held.refusal.until) {
        throw repeated(held.refusal);
      }
      const isShared = held.renewal !== undefined;
      const renewal = held.renewal ?? this.#renew(tenant, held);
      try {
        const { token } = await deadline.race(renewal.result, renewal.deadline);
        const outcome = isShared ? 'shared' : renewal.outcome;
        if (channels.token.hasSubscribers) {
          publish({ tenant: tenant.key, outcome });
        }
        return token;
      } catch (error) {
        if (deadline.isOver) {
          throw error;
        }
        // The renewal ran out of time. This caller joined later and has time left.
        const wasLate = isShared && isExhibitorError(error) && error.code === 'deadline_exceeded';
        if (!wasLate) {
          throw error;
        }
      }
    }
  }

  #renewEarly(tenant: Tenant, held: HeldToken, now: number): void {
    if (held.renewal !== undefined || now < held.pausedUntil) {
      return;
    }
    if (held.refusal !== undefined && now < held.refusal.until) {
      return;
    }
    void this.#reportEarly(tenant, held, this.#renew(tenant, held));
  }

  async #reportEarly(tenant: Tenant, held: HeldToken, renewal: Renewal): Promise<void> {
    try {
      await renewal.result;
      if (channels.token.hasSubscribers) {
        publish({ tenant: tenant.key, outcome: 'renewed-early' });
      }
    } catch (error) {
      held.pausedUntil = this.#clock.now() + PAUSE_AFTER_FAILURE;
      const code = isExhibitorError(error) ? error.code : undefined;
      if (channels.token.hasSubscribers) {
        publish({ tenant: tenant.key, outcome: 'failed', code });
      }
    }
  }

  /** Starts a renewal with a deadline of its own. No caller's abort cancels it. */
  #renew(tenant: Tenant, held: HeldToken): Renewal {
    const deadline = this.#start(tenant.http.deadline);
    deadline.tenant = tenant.key;
    const result = this.#fetch(tenant, held, deadline);
    const renewal: Renewal = { result, deadline, outcome: held.isForced ? 'forced' : 'fetched' };
    held.renewal = renewal;
    // Every caller handles a failure itself. Without callers, an unhandled rejection would end the process.
    result.catch(() => undefined);
    return renewal;
  }

  async #fetch(tenant: Tenant, held: HeldToken, deadline: Deadline): Promise<TimedToken> {
    try {
      const unlike = held.timed?.token.accessToken ?? held.replaced;
      const { timed, isShared } = await this.#endpoint.fetch(tenant, deadline, unlike);
      if (isShared && held.renewal !== undefined) {
        held.renewal.outcome = 'shared';
      }
      held.keep(timed);
      return timed;
    } catch (error) {
      this.#reportReply(tenant, error);
      if (error instanceof TokenRejectedError) {
        this.#log.report(tenant, clientProblem(tenant, '', error));
        if (isRemembered(error)) {
          held.refusal = remember(error, this.#clock.now(), this.#clock.random());
        }
      }
      throw error;
    } finally {
      this.#end(deadline);
      held.renewal = undefined;
    }
  }

  #reportReply(tenant: Tenant, error: unknown): void {
    if (isExhibitorError(error) && error.code === 'malformed_response') {
      const option = tenant.endpointOption('token');
      this.#log.report(tenant, { cause: `${option} reply`, options: [option], message: error.message });
    }
  }
}

function publish(message: TokenMessage): void {
  channels.token.publish(message);
}
