import { publish } from '../diagnostics/channels.js';
import { ExhibitorError } from '../errors/exhibitor.error.js';
import { addressProblem } from '../problems/address-problems.js';
import type { ProblemLog } from '../problems/problem-log.service.js';
import type { Tenant } from '../tenants/tenant.js';
import type { Clock } from '../time/clock.js';
import type { Deadline } from '../time/deadline.js';
import { parseRetryAfter, waitBeforeRetry } from './limits/retry-policy.js';
import type { RequestLimits } from './limits/tenant-limits.js';
import {
  causeOf,
  codeOf,
  describeOutcome,
  hasReply,
  isFinal,
  isUnanswered,
  wasNotSent,
  wasReset,
  type Outcome,
} from './outcome.js';
import type { Operation, TransportReply, TransportRequest } from './transport-request.interface.js';
import type { AxiosClient } from './wire/axios-client.js';
import type { OutgoingRequest } from './wire/http-client.js';
import { requestHeaders } from './wire/request-headers.js';

export interface RequestTools {
  clock: Clock;
  client: AxiosClient;
  dispatcher: OutgoingRequest['dispatcher'];
  limits: RequestLimits;
  log: ProblemLog;
}

/** Largest token, userinfo, metadata or key reply in bytes. */
const LARGEST_SMALL_REPLY = 256 * 1024;

/**
 * Where the call's own deadline ends an attempt, that counts against the circuit only if the attempt began with this share of
 * `attemptTimeout` left. Not with all of it: a call with `deadline` = `attemptTimeout` takes a little time until it sends.
 */
const MOST_OF_TIME = 0.9;

/** The attempts of one request: the first, a replay on a new connection, and retries. */
export class RequestAttempts {
  readonly #headers: Readonly<Record<string, string>>;
  readonly #isOnce: boolean;
  /** Requests sent so far, of this request alone: {@link Deadline.sent} counts those of the whole call. */
  #sent = 0;
  /** {@link Clock.now} when the last of them was sent. */
  #sentAt = 0;
  #wasReplayed = false;

  constructor(
    private readonly tenant: Tenant,
    private readonly request: TransportRequest,
    private readonly deadline: Deadline,
    private readonly tools: RequestTools,
  ) {
    this.#headers = requestHeaders(request);
    this.#isOnce = request.repeat === 'never';
    deadline.tenant = tenant.key;
  }

  /**
   * The service may close a kept-alive connection while a request is being written to it. That request was not read: it is sent
   * again at once on a new connection, attempts left or not, but once only. The circuit counts the replay instead.
   */
  async run(): Promise<TransportReply> {
    const { budget } = this.tools.limits;
    for (let attempt = 1; ; attempt++) {
      let outcome = await this.#sendInSlot({ onNewConnection: this.#isOnce });
      if (this.#mustReplay(outcome)) {
        this.#wasReplayed = true;
        outcome = await this.#sendInSlot({ onNewConnection: true });
      }
      if (isFinal(outcome)) {
        budget.succeeded();
        const { status, body } = outcome;
        return { status, body, sentAt: this.#sentAt };
      }
      const retryAfterMs = this.#retryAfter(outcome);
      const wait = this.#waitAfter(outcome, attempt, retryAfterMs);
      if (wait === undefined || !budget.take()) {
        throw this.#failure(outcome, retryAfterMs);
      }
      await this.deadline.sleep(wait);
    }
  }

  async #sendInSlot(route: { onNewConnection: boolean }): Promise<Outcome> {
    const { limits } = this.tools;
    await this.#enter();
    let outcome: Outcome;
    try {
      outcome = await this.#send(route);
    } finally {
      limits.leave();
    }
    if (outcome.kind === 'failed' && outcome.why === 'over') {
      throw this.#over(outcome.status);
    }
    return outcome;
  }

  /** @throws {ExhibitorError} where there is no slot, or the call is over */
  async #enter(): Promise<void> {
    this.#requireTime();
    const entry = await this.tools.limits.enter(this.deadline);
    if (entry === 'over') {
      throw this.#over();
    }
    if (entry !== 'entered') {
      throw new ExhibitorError(
        'service_unavailable',
        'not sent: the service cannot be reached, or too many wait',
        {
          tenant: this.tenant.key,
          attempts: this.deadline.sent,
          retryAfterMs: entry.retryAfterMs,
        },
      );
    }
  }

  /** @throws {ExhibitorError} where the call is over */
  #requireTime(): void {
    if (this.deadline.isOver) {
      throw this.#over();
    }
  }

  /** @throws {ExhibitorError} where the call is over, and whatever the body throws */
  async #send({ onNewConnection }: { onNewConnection: boolean }): Promise<Outcome> {
    const { clock, client, dispatcher } = this.tools;
    const { maxResponseBytes } = this.tenant.http;
    const { method, url, operation } = this.request;
    // The body is created in its slot, so that it is not old when it is sent.
    const body = typeof this.request.body === 'function' ? await this.request.body() : this.request.body;
    // The call may have ended in the turn in which the slot was granted.
    this.#requireTime();
    const request = {
      method,
      url,
      headers: this.#headers,
      body,
      // A request that is sent once has the whole deadline; others leave time for the next attempt.
      timeout: this.#isOnce ? undefined : this.#attemptTimeout,
      replyLimit: replyLimit(operation, maxResponseBytes),
      onNewConnection,
      dispatcher,
    };
    const hadTime = this.deadline.remaining() >= this.#attemptTimeout * MOST_OF_TIME;
    this.#sentAt = clock.now();
    this.#countSent(1);
    const outcome = await client.send(request, this.deadline);
    if (!this.#mustReplay(outcome)) {
      this.#record(outcome, hadTime);
    }
    this.#publish(outcome, clock.now() - this.#sentAt);
    if (wasNotSent(outcome)) {
      this.#countSent(-1);
    }
    return outcome;
  }

  /** At most the deadline that calls of the tenant have. */
  get #attemptTimeout(): number {
    const { attemptTimeout, deadline } = this.tenant.http;
    return Math.min(attemptTimeout, deadline);
  }

  /** The same at both places that ask: `#wasReplayed` changes only once {@link run} replays. */
  #mustReplay(outcome: Outcome): boolean {
    return wasReset(outcome) && !this.#wasReplayed && !this.#isOnce;
  }

  #record(outcome: Outcome, hadTime: boolean): void {
    const { circuit } = this.tools.limits;
    const now = this.tools.clock.now();
    if (hasReply(outcome)) {
      circuit.replied(now);
    } else if (isUnanswered(outcome, this.request.operation, hadTime && this.deadline.isTimeUp)) {
      circuit.unanswered(this.#sentAt, now);
    }
  }

  /** Others that wait for this call read the number of its deadline, also while a request runs. */
  #countSent(change: 1 | -1): void {
    this.#sent += change;
    this.deadline.sent += change;
  }

  #waitAfter(outcome: Outcome, attempt: number, retryAfterMs: number | undefined): number | undefined {
    return waitBeforeRetry({
      outcome,
      attempt,
      attempts: this.#isOnce ? 1 : this.tenant.http.attempts,
      retryAfterMs,
      remaining: this.deadline.remaining(),
      random: this.tools.clock.random(),
    });
  }

  #retryAfter(outcome: Outcome): number | undefined {
    if (outcome.kind === 'failed') {
      return undefined;
    }
    return parseRetryAfter(outcome.headers['retry-after'], this.tools.clock.epochMs());
  }

  #over(status?: number): ExhibitorError {
    return this.deadline.failure({ tenant: this.tenant.key, attempts: this.deadline.sent, status });
  }

  /** The error after the last attempt. Tells operators as well where they may have to mend an address. */
  #failure(outcome: Outcome, retryAfterMs: number | undefined): ExhibitorError {
    const { tenant } = this;
    if (outcome.kind === 'failed') {
      const { operation, url } = this.request;
      this.tools.log.report(tenant, addressProblem(tenant, { operation, url, ...outcome }));
    }
    return new ExhibitorError(codeOf(outcome) ?? 'service_unavailable', describeOutcome(outcome), {
      tenant: tenant.key,
      attempts: this.deadline.sent,
      status: outcome.status,
      retryAfterMs,
      cause: outcome.kind === 'failed' ? outcome.cause : undefined,
    });
  }

  #publish(outcome: Outcome, durationMs: number): void {
    publish('request', () => {
      const { operation, template, method } = this.request;
      const about = { operation, template, method, origin: this.tools.limits.origin };
      const isOver = outcome.kind === 'failed' && outcome.why === 'over';
      const code = isOver ? this.deadline.failure().code : codeOf(outcome);
      const { status } = outcome;
      const cause = causeOf(outcome);
      const { key: tenant } = this.tenant;
      return { tenant, status, durationMs, attempt: this.#sent, code, cause, ...about };
    });
  }
}

/** Largest accepted reply in bytes, compressed and decompressed. */
function replyLimit(operation: Operation, maxResponseBytes: number): number {
  return operation === 'list' || operation === 'lookup'
    ? maxResponseBytes
    : Math.min(LARGEST_SMALL_REPLY, maxResponseBytes);
}
