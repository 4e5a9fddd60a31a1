import type { HttpService } from '@nestjs/axios';
import type { Dispatcher } from 'undici';
import { channels } from '../diagnostics/channels.js';
import { ExhibitorError, type ExhibitorErrorDetails } from '../errors/exhibitor.error.js';
import type { Tenant } from '../tenants/tenant.js';
import type { Admission } from './limits/circuit.js';
import type { Clock } from '../time/clock.js';
import type { Deadline } from '../time/deadline.js';
import { ResponseHandler } from './wire/response-handler.js';
import { sendOver } from './wire/http-client.js';
import type { RequestLimits } from './limits/tenant-limits.js';
import { codeOf, describeOutcome, healthOf, isFinal, type Answered, type Outcome } from './outcome.js';
import { requestHeaders, responseLimit } from './wire/request-shape.js';
import { parseRetryAfter } from './limits/retry-after.js';
import { waitBeforeRetry } from './limits/retry-policy.js';
import type { TransportReply, TransportRequest } from './transport-request.interface.js';

/** What a delivery works with. */
export interface RequestTools {
  clock: Clock;
  http: HttpService;
  dispatcher: Dispatcher | undefined;
  limits: RequestLimits;
}

/** One request of a room above, from its first attempt to its last. */
export class RetryingRequest {
  readonly #headers: Readonly<Record<string, string>>;
  readonly #isOnce: boolean;
  #sent = 0;
  #sentAt = 0;

  constructor(
    private readonly tenant: Tenant,
    private readonly request: TransportRequest,
    private readonly deadline: Deadline,
    private readonly tools: RequestTools,
  ) {
    this.#headers = requestHeaders(request);
    deadline.tenant = tenant.key;
    this.#isOnce = request.repeat === 'never';
  }

  async run(): Promise<TransportReply> {
    let paid: 'error' | 'timeout' | undefined;
    for (let attempt = 1; ; attempt++) {
      const outcome = await this.#attemptAndReplay(attempt);
      if (isFinal(outcome)) {
        this.tools.limits.budget.giveBack(paid);
        return this.#reply(outcome);
      }
      const wait = this.#waitAfter(outcome, attempt);
      paid = outcome.kind === 'failed' && outcome.why === 'timeout' ? 'timeout' : 'error';
      if (wait === undefined || !this.tools.limits.budget.take(paid)) {
        throw this.#failure(outcome);
      }
      await this.deadline.sleep(wait);
    }
  }

  /**
   * A connection that was kept alive may be closed by the service just as we write to it. Then the request was not
   * read, and goes out again at once, on a connection that cannot be stale.
   */
  async #attemptAndReplay(attempt: number): Promise<Outcome> {
    const outcome = await this.#attempt(this.#isOnce);
    const isStale = outcome.kind === 'failed' && outcome.stale === true;
    return isStale && this.#sent === attempt ? this.#attempt(true) : outcome;
  }

  async #attempt(fresh: boolean): Promise<Outcome> {
    const { clock, limits } = this.tools;
    const admission = await this.#enter();
    const sentAt = (this.#sentAt = clock.now());
    this.#sent++;
    this.deadline.sent++;
    const outcome = await this.#send(fresh);
    const isStale = outcome.kind === 'failed' && outcome.stale === true;
    const health = isStale ? undefined : healthOf(outcome, this.deadline.isTimeUp);
    limits.leave(this.tenant.http.maxConcurrent, health, admission, clock);
    this.#publish(outcome, clock.now() - sentAt);
    if (outcome.kind === 'answered' || outcome.why !== 'over') {
      return outcome;
    }
    if (outcome.unsent === true) {
      this.#uncount();
    }
    throw this.deadline.failure(this.#details(outcome));
  }

  /** What the end of the call stopped before it had a connection was no request, and `attempts` count requests. */
  #uncount(): void {
    this.#sent--;
    this.deadline.sent--;
  }

  async #enter(): Promise<Admission> {
    const { clock, limits } = this.tools;
    if (this.deadline.isOver) {
      throw this.deadline.failure(this.#details());
    }
    const admission = await limits.enter(this.tenant.http.maxConcurrent, this.deadline, clock);
    if (admission === undefined) {
      throw this.deadline.failure(this.#details());
    }
    if (typeof admission === 'string') {
      return this.#stillWanted(admission);
    }
    throw new ExhibitorError('service_unavailable', 'the service is not asked: it fails or is too busy', {
      ...this.#details(),
      retryAfterMs: Math.ceil(admission.retryAfterMs),
    });
  }

  /** A slot may come in the very moment in which the time is up. */
  #stillWanted(admission: Admission): Admission {
    if (!this.deadline.isOver) {
      return admission;
    }
    const { clock, limits } = this.tools;
    limits.leave(this.tenant.http.maxConcurrent, undefined, admission, clock);
    throw this.deadline.failure(this.#details());
  }

  async #send(fresh: boolean): Promise<Outcome> {
    const { http, dispatcher } = this.tools;
    const { attemptTimeout, maxResponseBytes } = this.tenant.http;
    const { method, url, body, operation } = this.request;
    const handler = new ResponseHandler(responseLimit(operation, maxResponseBytes), {
      headers: this.#headers,
      dispatcher,
      fresh,
    });
    const forget = this.deadline.onOver(() => handler.stop('over'));
    // A shorter time than the deadline's leaves room for another attempt; where there is none, it has no use.
    const timer = this.#isOnce ? undefined : setTimeout(() => handler.stop('timeout'), attemptTimeout);
    const outcome = await sendOver(http, { method, url, data: body, signal: handler });
    clearTimeout(timer);
    forget();
    return outcome;
  }

  #waitAfter(outcome: Outcome, attempt: number): number | undefined {
    if (this.#isOnce) {
      return undefined;
    }
    return waitBeforeRetry({
      outcome,
      attempt,
      attempts: this.tenant.http.attempts,
      retryAfterMs: this.#retryAfter(outcome),
      remaining: this.deadline.remaining(),
      chance: this.tools.clock.random(),
    });
  }

  #retryAfter(outcome: Outcome): number | undefined {
    if (outcome.kind === 'failed') {
      return undefined;
    }
    return parseRetryAfter(outcome.headers['retry-after'], this.tools.clock.epochMs());
  }

  #reply(outcome: Answered): TransportReply {
    const { status, headers, body, receivedBytes } = outcome;
    return { status, headers, body, receivedBytes, sentAt: this.#sentAt, attempts: this.#sent };
  }

  #failure(outcome: Outcome): ExhibitorError {
    const details = { ...this.#details(outcome), retryAfterMs: this.#retryAfter(outcome) };
    return new ExhibitorError(codeOf(outcome) ?? 'service_unavailable', describeOutcome(outcome), details);
  }

  #details(outcome?: Outcome): ExhibitorErrorDetails {
    return { tenant: this.tenant.key, attempts: this.#sent, status: outcome?.status };
  }

  #publish(outcome: Outcome, durationMs: number): void {
    if (!channels.request.hasSubscribers) {
      return;
    }
    const { operation, template } = this.request;
    const isOver = outcome.kind === 'failed' && outcome.why === 'over';
    const code = isOver ? this.deadline.failure().code : codeOf(outcome);
    channels.request.publish({
      tenant: this.tenant.key,
      operation,
      template,
      status: outcome.status,
      durationMs,
      attempt: this.#sent,
      code,
    });
  }
}
