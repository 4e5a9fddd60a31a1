import { publish } from '../diagnostics/channels.js';
import { isExhibitorError } from '../errors/is-exhibitor-error.js';
import { TokenRejectedError } from '../errors/token-rejected.error.js';
import type { ProblemLog } from '../problems/problem-log.service.js';
import { refusedClient, uselessTokenReply } from '../problems/token-endpoint-problems.js';
import type { Tenant } from '../tenants/tenant.js';
import type { Clock } from '../time/clock.js';
import type { Deadline } from '../time/deadline.js';
import type { Deadlines } from '../time/deadlines.service.js';
import { Renewal, type HeldToken } from './held-token.js';
import { repeated } from './remembered-rejection.js';
import type { SharedTokens } from './shared-tokens.service.js';
import type { TimedToken } from './token-lifetime.js';

/** Pause in ms after a failed early renewal. The old token is still good. */
const PAUSE_AFTER_FAILURE = 5_000;

/** Proof that the token endpoint grants tokens, for health checks. */
export interface TokenProof {
  /** Ms since the token that calls use was requested. */
  age: number;
  /** Why there is no newer one, where that is no proof. */
  error: unknown;
}

/** Renews tokens: one renewal of a tenant at a time, for all callers of this process, early or late. */
export class TokenRenewals {
  constructor(
    private readonly clock: Clock,
    private readonly deadlines: Deadlines,
    private readonly tokens: SharedTokens,
    private readonly log: ProblemLog,
  ) {}

  /** Waits for the next token within the deadline of a call: that of the renewal under way, else of a new one. */
  async wait(tenant: Tenant, held: HeldToken, deadline: Deadline): Promise<TimedToken> {
    try {
      if (deadline.isOver) {
        throw deadline.failure({ tenant: tenant.key });
      }
      return await this.join(tenant, held, deadline);
    } catch (error) {
      publishFailure(tenant, error);
      throw error;
    }
  }

  /** Renews a token that is still good, unless a renewal is under way, failed in the last 5 s or was rejected. */
  renewEarly(tenant: Tenant, held: HeldToken, now: number): void {
    if (held.renewal === undefined && now >= held.pausedUntil && held.rejectionAt(now) === undefined) {
      void this.reportEarly(tenant, held, this.renew(tenant, held));
    }
  }

  /**
   * A token that was requested within the last `maxAge` ms, by this process or another one; else a new one is requested, and calls
   * use the held one meanwhile. Where that fails, the held one while it is good, with the error.
   *
   * @throws as {@link wait}, where there is no good token either
   */
  async prove(tenant: Tenant, held: HeldToken, maxAge: number, deadline: Deadline): Promise<TokenProof> {
    const since = this.clock.now() - maxAge;
    let timed = held.goodAt(this.clock.now());
    let error: unknown;
    try {
      while (timed === undefined || timed.requestedAt < since) {
        timed = await this.wait(tenant, held, deadline);
        // That of another process may be old. The next one is not the same.
        if (!timed.isShared) {
          break;
        }
      }
    } catch (failure) {
      error = failure;
      timed = held.goodAt(this.clock.now());
      if (timed === undefined) {
        throw failure;
      }
    }
    return { age: this.clock.now() - timed.requestedAt, error };
  }

  private async join(tenant: Tenant, held: HeldToken, deadline: Deadline): Promise<TimedToken> {
    for (;;) {
      const rejection = held.rejectionAt(this.clock.now());
      if (rejection !== undefined) {
        throw repeated(rejection);
      }
      const isJoined = held.renewal !== undefined;
      const renewal = held.renewal ?? this.renew(tenant, held);
      renewal.patience.shorten(deadline.untilHalf());
      try {
        const timed = await deadline.race(renewal.result, renewal.deadline);
        const own = renewal.replaced.isBad ? 'forced' : 'fetched';
        const outcome = isJoined || timed.isShared ? 'shared' : own;
        publish('token', () => ({ tenant: tenant.key, outcome }));
        return timed;
      } catch (error) {
        // A renewal that ran out of time does not fail a caller that joined later and has time left.
        const wasLate = isJoined && isExhibitorError(error) && error.code === 'deadline_exceeded';
        if (deadline.isOver || !wasLate) {
          throw error;
        }
      }
    }
  }

  private async reportEarly(tenant: Tenant, held: HeldToken, renewal: Renewal): Promise<void> {
    try {
      const { isShared } = await renewal.result;
      publish('token', () => ({ tenant: tenant.key, outcome: isShared ? 'shared' : 'renewed-early' }));
    } catch (error) {
      held.pausedUntil = this.clock.now() + PAUSE_AFTER_FAILURE;
      publishFailure(tenant, error);
    }
  }

  /** Starts a renewal with a deadline of its own. No caller's abort cancels it. */
  private renew(tenant: Tenant, held: HeldToken): Renewal {
    const deadline = this.deadlines.start(tenant.http.deadline);
    deadline.tenant = tenant.key;
    const patience = this.deadlines.start(deadline.untilHalf());
    const renewal = new Renewal(held.replaced, deadline, patience, (started) =>
      this.fetch(tenant, held, started),
    );
    // It cannot have ended yet: `fetch` waits for the client's secret first.
    held.renewal = renewal;
    // Every caller handles a failure itself. Without callers, an unhandled rejection would end the process.
    renewal.result.catch(() => undefined);
    return renewal;
  }

  private async fetch(tenant: Tenant, held: HeldToken, renewal: Renewal): Promise<TimedToken> {
    try {
      const answer = await this.tokens.fetch(tenant, renewal);
      if (!renewal.wasInvalidated) {
        held.keep(answer);
      }
      if (answer.kind === 'rejected') {
        throw answer.isShared ? repeated(answer.rejection) : answer.rejection.error;
      }
      return answer.timed;
    } catch (error) {
      this.report(tenant, error);
      throw error;
    } finally {
      renewal.end();
      if (!renewal.wasInvalidated) {
        held.renewal = undefined;
      }
    }
  }

  private report(tenant: Tenant, error: unknown): void {
    if (error instanceof TokenRejectedError) {
      this.log.report(tenant, refusedClient(tenant, '', error));
      return;
    }
    if (isExhibitorError(error) && error.code === 'malformed_response') {
      this.log.report(tenant, uselessTokenReply(tenant, error.message));
    }
  }
}

function publishFailure({ key }: Tenant, error: unknown): void {
  const code = isExhibitorError(error) ? error.code : undefined;
  publish('token', () => ({ tenant: key, outcome: 'failed', code }));
}
