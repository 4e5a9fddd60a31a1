import { publish } from '../call/channels.js';
import type { ProblemLog } from '../config/problems/problem-log.service.js';
import type { Tenant } from '../config/tenant.js';
import type { Clock } from '../call/clock.js';
import type { Call } from '../call/call.js';
import { retryAfterOf, waitBeforeRetry } from './limits/retry-policy.js';
import type { RequestLimits } from './limits/request-limits.js';
import { isOwnFailure, type Outcome } from './outcome.js';
import { RequestErrors } from './request-errors.js';
import type { RequestHeaders, TransportReply, TransportRequest } from './transport-request.interface.js';
import type { AxiosClient } from './wire/axios-client.js';
import type { OutgoingRequest } from './wire/http-client.js';
import { ACCEPTED_ENCODINGS } from './wire/reply-body.js';

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

/**
 * Sends one request: the first attempt, and retries.
 *
 * The service may close a kept-alive connection while a request is being written to it. That request was not read: it is replayed at once
 * on a new connection. Such a replay is a part of its attempt, and happens once in all attempts.
 */
export class RequestAttempts {
  readonly #headers: Readonly<Record<string, string>>;
  readonly #isOnce: boolean;
  #mayReplay: boolean;
  /** Attempts and the replay. `call.sent` also counts other requests of the call, such as that for its token. */
  #sent = 0;

  constructor(
    private readonly tenant: Tenant,
    private readonly request: TransportRequest,
    private readonly call: Call,
    private readonly tools: RequestTools,
  ) {
    this.#headers = requestHeaders(request);
    this.#isOnce = request.isOnce === true;
    this.#mayReplay = !this.#isOnce;
    call.tenant = tenant.key;
  }

  async run(): Promise<TransportReply> {
    const { clock, limits } = this.tools;
    for (let attempt = 1; ; attempt += 1) {
      const { outcome, retryAfterMs, pauseMs } = await this.#attempt();
      if (outcome.code === undefined) {
        limits.succeeded();
        const { status, body, sentAt } = outcome;
        return { status, body, sentAt };
      }
      const wait = waitBeforeRetry({
        outcome,
        attempt,
        attempts: this.#isOnce ? 1 : limits.http.attempts,
        retryAfterMs,
        remaining: this.call.remaining(),
        random: clock.random(),
      });
      if (wait === undefined || !limits.takeRetry()) {
        throw this.#errors.failed(outcome, retryAfterMs);
      }
      // For the end of a pause, the next attempt waits before it takes a slot, as other calls do. A longer wait is waited for here.
      if (wait > pauseMs) {
        await this.call.sleep(wait);
      }
    }
  }

  /**
   * Sends the request once it has a slot, and replays it where that may help.
   *
   * @throws {ExhibitorError} where there is no slot, or the call is over
   */
  async #attempt(): Promise<AttemptResult> {
    const { call, request, tenant } = this;
    const { clock, limits, log } = this.tools;
    await this.#enter();
    try {
      let outcome = await this.#send({ onNewConnection: this.#isOnce });
      if (this.#mayReplay && outcome.kind === 'failed' && outcome.repeat === 'at once') {
        this.#mayReplay = false;
        // The circuit counts only the replay.
        outcome = await this.#send({ onNewConnection: true });
      }
      // Circuit and pause know the outcome before the slot goes to the next request.
      limits.circuit.ended(outcome, tenant.key, log);
      const retryAfterMs = outcome.code === undefined ? undefined : retryAfterOf(outcome, clock.epochMs());
      const pauseMs =
        retryAfterMs === undefined ? 0 : limits.pauseAfter(outcome, retryAfterMs, request.about);
      if (outcome.kind === 'failed' && call.isOver) {
        throw this.#errors.over(outcome);
      }
      return { outcome, retryAfterMs, pauseMs };
    } finally {
      limits.leave();
    }
  }

  /** Waits for a slot. */
  async #enter(): Promise<void> {
    const entry = await this.tools.limits.enter(this.call, this.request.about);
    if (entry === 'over') {
      throw this.#errors.over();
    }
    if (entry !== 'entered') {
      if (entry.isOfPartner) {
        this.call.partner.failed();
      }
      throw this.#errors.notSent(entry);
    }
  }

  async #send({ onNewConnection }: { onNewConnection: boolean }): Promise<Outcome> {
    const { call } = this;
    const { clock, client, dispatcher, limits } = this.tools;
    const { method, url, body: given } = this.request;
    // The body is created in its slot, so that it is not old when it is sent.
    const body = typeof given === 'function' ? await given() : given;
    // The call may have ended in the turn in which the slot was granted.
    if (call.isOver) {
      throw this.#errors.over();
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
    this.#sent += 1;
    const startedAt = clock.now();
    const outcome = await client.send(request, call);
    if (outcome.code === undefined) {
      call.partner.answered();
    } else if (isOwnFailure(outcome)) {
      call.partner.excused();
    } else if (!call.isOver) {
      // Where the end of the call has ended it, `Partner` decides by the time that the partner had.
      call.partner.failed();
    }
    this.#publish(outcome, startedAt);
    return outcome;
  }

  #publish(outcome: Outcome, startedAt: number): void {
    publish('request', () => {
      const { operation, template, method } = this.request;
      const { status } = outcome;
      const failed = outcome.kind === 'failed' ? outcome : undefined;
      return {
        tenant: this.tenant.key,
        operation,
        template,
        method,
        origin: this.tools.limits.origin,
        status,
        durationMs: this.tools.clock.now() - startedAt,
        attempt: this.#sent,
        code: failed !== undefined && this.call.isOver ? this.call.failure().code : outcome.code,
        cause: status === undefined ? failed?.cause : undefined,
      };
    });
  }

  /** Created where they are needed: most requests need none. */
  get #errors(): RequestErrors {
    return new RequestErrors(this.tenant, this.request, this.call, this.tools.log);
  }
}

/** All headers of a request, before interceptors of the host add theirs. */
function requestHeaders({ headers, body }: TransportRequest): RequestHeaders {
  // One spread, at the end: V8 takes twenty times as long for any other.
  const all = {
    accept: 'application/json',
    'accept-encoding': ACCEPTED_ENCODINGS,
    'user-agent': 'nestjs-exhibitor',
    ...headers,
  };
  return body === undefined ? all : { ...all, 'content-type': 'application/x-www-form-urlencoded' };
}
