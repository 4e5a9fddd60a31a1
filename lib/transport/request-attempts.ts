import type { Tenant } from '../tenants/tenant.js';
import type { Clock } from '../time/clock.js';
import type { Deadline } from '../time/deadline.js';
import type { AttemptReport } from './attempt-report.js';
import type { Admission } from './limits/circuit.js';
import { parseRetryAfter, retryReason, waitBeforeRetry, type RetryReason } from './limits/retry-policy.js';
import type { RequestLimits } from './limits/tenant-limits.js';
import { healthOf, isFinal, type Health, type Outcome } from './outcome.js';
import type { TransportReply, TransportRequest } from './transport-request.interface.js';
import type { AxiosClient, OutgoingRequest } from './wire/axios-client.js';
import { replyLimit } from './wire/reply-limits.js';
import { requestHeaders } from './wire/request-headers.js';

/** What a request needs to be sent. */
export interface RequestTools {
  clock: Clock;
  client: AxiosClient;
  dispatcher: OutgoingRequest['dispatcher'];
  limits: RequestLimits;
  report: AttemptReport;
}

/** What one attempt found. */
interface Attempt {
  outcome: Outcome;
  sentAt: number;
  /** Number of requests sent, with this one. */
  sent: number;
  /** A further failure of a contact is not counted, and its retry not charged. */
  isCounted: boolean;
}

/** The attempts of one request: the first, a replay on a new connection, and retries. */
export class RequestAttempts {
  readonly #headers: Readonly<Record<string, string>>;
  readonly #isOnce: boolean;

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
   * again at once on a new connection, attempts left or not, but once only.
   */
  async run(): Promise<TransportReply> {
    const { budget } = this.tools.limits;
    let mayReplay = !this.#isOnce;
    let paid: RetryReason | undefined;
    let sentBefore = 0;
    for (let attempt = 1; ; attempt++) {
      let found = await this.#attempt(sentBefore, this.#isOnce, mayReplay);
      if (mayReplay && isStale(found.outcome)) {
        mayReplay = false;
        found = await this.#attempt(found.sent, true, mayReplay);
      }
      const { outcome, sentAt, sent, isCounted } = found;
      if (isFinal(outcome)) {
        budget.giveBack(paid);
        const { status, headers, body } = outcome;
        return { status, headers, body, sentAt, attempts: sent };
      }
      const retryAfterMs = this.#retryAfter(outcome);
      const wait = this.#waitAfter(outcome, attempt, retryAfterMs);
      const price = isCounted ? retryReason(outcome) : undefined;
      if (wait === undefined || (price !== undefined && !budget.take(price))) {
        throw this.tools.report.failed(outcome, sent, retryAfterMs);
      }
      paid = price ?? paid;
      sentBefore = sent;
      await this.deadline.sleep(wait);
    }
  }

  /**
   * One request in a slot of its tenant.
   *
   * @param mayReplay a stale connection says nothing about the service: the request is sent again
   */
  async #attempt(sentBefore: number, onNewConnection: boolean, mayReplay: boolean): Promise<Attempt> {
    const { limits } = this.tools;
    const admission = await this.#enter(sentBefore);
    let health: Health;
    try {
      // The body is created in its slot, so that it is not old when it is sent.
      const { body } = this.request;
      const text = typeof body === 'function' ? await body() : body;
      // The call may have ended in the turn in which the slot was granted.
      this.#requireTime(sentBefore);
      const found = await this.#send(text, sentBefore, onNewConnection);
      const { outcome } = found;
      const seen = mayReplay && isStale(outcome) ? undefined : healthOf(outcome, this.deadline.isTimeUp);
      health = limits.counted(seen, outcome, this.request.contact, admission);
      if (outcome.kind === 'failed' && outcome.why === 'over') {
        throw this.tools.report.over(found.sent, outcome.status);
      }
      return { ...found, isCounted: health === seen };
    } finally {
      limits.leave(this.tenant, health, admission);
    }
  }

  /** @throws {ExhibitorError} where there is no slot, or the call is over */
  async #enter(sentBefore: number): Promise<Admission> {
    this.#requireTime(sentBefore);
    const admission = await this.tools.limits.enter(this.tenant, this.deadline);
    if (admission === 'over') {
      throw this.tools.report.over(sentBefore);
    }
    if (typeof admission === 'object') {
      throw this.tools.report.refused(sentBefore, admission.retryAfterMs);
    }
    return admission;
  }

  /** @throws {ExhibitorError} where the call is over */
  #requireTime(sentBefore: number): void {
    if (this.deadline.isOver) {
      throw this.tools.report.over(sentBefore);
    }
  }

  async #send(
    body: string | undefined,
    sentBefore: number,
    onNewConnection: boolean,
  ): Promise<Omit<Attempt, 'isCounted'>> {
    const { clock, client, dispatcher } = this.tools;
    const { attemptTimeout, maxResponseBytes } = this.tenant.http;
    const { method, url, operation, acceptsJwt } = this.request;
    const request = {
      tenant: this.tenant.key,
      method,
      url,
      headers: this.#headers,
      body,
      // A request that is sent once has the whole deadline; others leave time for the next attempt.
      timeout: this.#isOnce ? undefined : attemptTimeout,
      replyLimit: replyLimit(operation, maxResponseBytes),
      acceptsJwt,
      onNewConnection,
      dispatcher,
    };
    const sent = sentBefore + 1;
    const sentAt = clock.now();
    // Others that wait for this call read the number of its deadline.
    this.deadline.sent += 1;
    const outcome = await client.send(request, this.deadline);
    this.tools.report.publish(outcome, sent, clock.now() - sentAt);
    if (wasNotSent(outcome)) {
      this.deadline.sent -= 1;
      return { outcome, sentAt, sent: sentBefore };
    }
    return { outcome, sentAt, sent };
  }

  #waitAfter(outcome: Outcome, attempt: number, retryAfterMs: number | undefined): number | undefined {
    if (this.#isOnce) {
      return undefined;
    }
    return waitBeforeRetry({
      outcome,
      attempt,
      attempts: this.tenant.http.attempts,
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
}

function isStale(outcome: Outcome): boolean {
  return outcome.kind === 'failed' && outcome.stale === true;
}

/** True where the call ended before there was a connection, or an interceptor of the host failed before. */
function wasNotSent(outcome: Outcome): boolean {
  return (
    outcome.kind === 'failed' &&
    outcome.unsent === true &&
    (outcome.why === 'over' || outcome.why === 'interceptor')
  );
}
