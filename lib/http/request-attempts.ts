import { publish } from '../call/channels.js';
import { ExhibitorError } from '../errors/exhibitor.error.js';
import { errorOf, type Failure } from '../errors/failure.js';
import { failedRequest, partnerProblem } from '../config/problems/partner-problems.js';
import type { ProblemLog } from '../config/problems/problem-log.service.js';
import type { Tenant } from '../config/tenant.js';
import type { Clock } from '../call/clock.js';
import type { Call } from '../call/call.js';
import { retryAfterOf, waitBeforeRetry } from './limits/retry-policy.js';
import type { RequestLimits } from './limits/request-limits.js';
import { describeOutcome, wordsOf, type Outcome } from './outcome.js';
import type { TransportReply, TransportRequest } from './transport-request.interface.js';
import type { AxiosClient } from './wire/axios-client.js';
import type { OutgoingRequest } from './wire/http-client.js';
import { requestHeaders } from './wire/request-headers.js';

/** Where the circuit is open, or the queue is full. */
const NOT_SENT: Failure = {
  code: 'service_unavailable',
  message: 'the service cannot be reached, or too many wait',
};

export interface RequestTools {
  clock: Clock;
  client: AxiosClient;
  dispatcher: OutgoingRequest['dispatcher'];
  limits: RequestLimits;
  log: ProblemLog;
}

interface AttemptResult {
  outcome: Outcome;
  /** What the partner asked for, in ms. */
  retryAfterMs: number | undefined;
  /** How long such requests now pause, in ms. */
  pauseMs: number;
}

/** Sends one request: the first attempt, retries, and at most one replay of an attempt on a new connection. */
export class RequestAttempts {
  readonly #headers: Readonly<Record<string, string>>;
  readonly #isOnce: boolean;
  /** Attempts and the replay. `call.sent` also counts other requests of the call, such as that for its token. */
  #requests = 0;
  /** 0 or 1. */
  #replays = 0;

  constructor(
    private readonly tenant: Tenant,
    private readonly request: TransportRequest,
    private readonly call: Call,
    private readonly tools: RequestTools,
  ) {
    this.#headers = requestHeaders(request);
    this.#isOnce = request.isOnce === true;
    call.tenant = tenant.key;
  }

  async run(): Promise<TransportReply> {
    const { clock, limits } = this.tools;
    for (;;) {
      const { outcome, retryAfterMs, pauseMs } = await this.#attempt();
      if (outcome.code === undefined) {
        limits.succeeded();
        const { status, body, sentAt } = outcome;
        return { status, body, sentAt };
      }
      const wait = waitBeforeRetry({
        outcome,
        attempt: this.#requests - this.#replays,
        attempts: this.#isOnce ? 1 : limits.http.attempts,
        retryAfterMs,
        remaining: this.call.remaining(),
        random: clock.random(),
      });
      if (wait === undefined || !limits.takeRetry()) {
        throw this.#failure(outcome, retryAfterMs);
      }
      // In a pause, the next attempt waits for its end before it takes a slot, as other calls do.
      const endsInPause = wait <= pauseMs;
      if (!endsInPause) {
        await this.call.sleep(wait);
      }
    }
  }

  /**
   * Sends the request once it has a slot.
   *
   * The service may close a kept-alive connection while a request is being written to it. That request was not read: it is sent
   * again at once on a new connection, attempts left or not, but once only. The circuit counts only the replay.
   *
   * @throws {ExhibitorError} where there is no slot, or the call is over
   */
  async #attempt(): Promise<AttemptResult> {
    const { clock, limits, log } = this.tools;
    await this.#enter();
    try {
      let outcome = await this.#send({ onNewConnection: this.#isOnce });
      const mayReplay = !this.#isOnce && this.#replays === 0;
      if (mayReplay && outcome.kind === 'failed' && outcome.repeat === 'at once') {
        this.#replays += 1;
        outcome = await this.#send({ onNewConnection: true });
      }
      // Both before the slot goes to the next request.
      limits.circuit.ended(outcome, this.tenant.key, log);
      const retryAfterMs = outcome.code === undefined ? undefined : retryAfterOf(outcome, clock.epochMs());
      const pauseMs =
        retryAfterMs === undefined ? 0 : limits.pauseAfter(outcome, retryAfterMs, this.request.about);
      if (outcome.kind === 'failed' && this.call.isOver) {
        throw this.#over(outcome);
      }
      return { outcome, retryAfterMs, pauseMs };
    } finally {
      limits.leave();
    }
  }

  async #enter(): Promise<void> {
    const { about } = this.request;
    const entry = await this.tools.limits.enter(this.call, about);
    if (entry === 'over') {
      throw this.#over();
    }
    if (entry === 'entered') {
      return;
    }
    const { failure = NOT_SENT, retryAfterMs, isOfPartner } = entry;
    if (isOfPartner) {
      this.call.partner.failed();
    }
    const message = `not sent: ${failure.message}`;
    this.#report('not sent', message);
    const details = { tenant: this.tenant.key, attempts: this.call.sent, retryAfterMs };
    throw errorOf({ ...failure, message }, details);
  }

  async #send({ onNewConnection }: { onNewConnection: boolean }): Promise<Outcome> {
    const { clock, client, dispatcher, limits } = this.tools;
    const { method, url } = this.request;
    // The body is created in its slot, so that it is not old when it is sent.
    const body = typeof this.request.body === 'function' ? await this.request.body() : this.request.body;
    // The call may have ended in the turn in which the slot was granted.
    if (this.call.isOver) {
      throw this.#over();
    }
    const request = {
      method,
      url,
      origin: limits.origin,
      headers: this.#headers,
      body,
      // A request that is sent once has the whole deadline; others leave time for the next attempt.
      timeout: this.#isOnce ? Infinity : limits.http.attemptTimeout,
      patience: Math.min(limits.http.attemptTimeout, limits.http.deadline),
      replyLimit: limits.largestReply,
      onNewConnection,
      dispatcher,
    };
    this.#requests += 1;
    const startedAt = clock.now();
    const { call } = this;
    const outcome = await client.send(request, call);
    const cause = outcome.kind === 'failed' ? outcome.cause : undefined;
    // An interceptor failed, or this process: it was too busy, or had no file left.
    const isOurs = outcome.kind === 'failed' && (cause === 'interceptor' || outcome.suspects?.length === 0);
    const isSilent = call.isOver || cause === 'timeout';
    if (outcome.code === undefined || isOurs) {
      call.partner.answered();
    } else if (!isSilent) {
      call.partner.failed();
    }
    this.#publish(outcome, startedAt);
    return outcome;
  }

  #over(outcome?: Outcome): ExhibitorError {
    const { key: tenant } = this.tenant;
    const status = outcome?.status;
    const error = this.call.failure({ tenant, attempts: this.call.sent, status });
    if (error.code === 'deadline_exceeded') {
      this.#report(outcome === undefined ? 'not sent in time' : wordsOf(outcome), error.message);
    }
    return error;
  }

  #report(how: string, message: string): void {
    const { operation } = this.request;
    this.tools.log.partnerFailed(this.tenant, operation, how, partnerProblem(operation, message));
  }

  /** The error after the last attempt. Tells operators as well what failed, and where they may have to mend an address. */
  #failure(outcome: Outcome, retryAfterMs: number | undefined): ExhibitorError {
    const { tenant } = this;
    const { log } = this.tools;
    const { code = 'service_unavailable' } = outcome;
    const message = describeOutcome(outcome);
    const details = {
      tenant: tenant.key,
      attempts: this.call.sent,
      status: outcome.status,
      retryAfterMs,
    };
    if (outcome.kind === 'failed' && outcome.cause === 'interceptor') {
      const { thrown, passedOn: cause } = outcome;
      return log.hostError({ option: 'axios' }, thrown, { code, message, cause, ...details });
    }
    const { operation, url } = this.request;
    const problem = failedRequest(tenant, { operation, url, ...outcome, code, message });
    if (outcome.kind === 'failed' && outcome.suspects?.length === 0) {
      // One problem of all tenants.
      log.report(undefined, problem);
    } else {
      log.partnerFailed(tenant, operation, wordsOf(outcome), problem);
    }
    return new ExhibitorError(code, message, details);
  }

  #publish(outcome: Outcome, startedAt: number): void {
    publish('request', () => {
      const durationMs = this.tools.clock.now() - startedAt;
      const { operation, template, method } = this.request;
      const about = { operation, template, method, origin: this.tools.limits.origin };
      const isFailed = outcome.kind === 'failed';
      const code = isFailed && this.call.isOver ? this.call.failure().code : outcome.code;
      const { status } = outcome;
      const cause = isFailed && status === undefined ? outcome.cause : undefined;
      const { key: tenant } = this.tenant;
      return { tenant, status, durationMs, attempt: this.#requests, code, cause, ...about };
    });
  }
}
