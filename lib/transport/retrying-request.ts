import { publish, type RequestMessage } from '../diagnostics/channels.js';
import { ExhibitorError, type ExhibitorErrorDetails } from '../errors/exhibitor.error.js';
import { addressProblem } from '../problems/address-problems.js';
import type { ProblemLog } from '../problems/problem-log.service.js';
import type { Tenant } from '../tenants/tenant.js';
import type { Clock } from '../time/clock.js';
import type { Deadline } from '../time/deadline.js';
import type { Admission } from './limits/circuit.js';
import { parseRetryAfter, retryReason, waitBeforeRetry, type RetryReason } from './limits/retry-policy.js';
import type { RequestLimits } from './limits/tenant-limits.js';
import {
  codeOf,
  describeOutcome,
  healthOf,
  isFinal,
  type Answered,
  type Health,
  type Outcome,
} from './outcome.js';
import type { TransportReply, TransportRequest } from './transport-request.interface.js';
import type { HttpClient, HttpRequest } from './wire/http-client.js';
import { TOO_LARGE } from './wire/reply-body.js';
import { requestHeaders, responseLimit } from './wire/request-shape.js';
import { ResponseHandler } from './wire/response-handler.js';

/** What a request needs to be sent. */
export interface RequestTools {
  clock: Clock;
  http: HttpClient;
  dispatcher: HttpRequest['dispatcher'];
  /** Of the URL of the request. */
  origin: string;
  path: string;
  limits: RequestLimits;
  log: ProblemLog;
}

/** One request of a room above, from its first attempt to its last. */
export class RetryingRequest {
  readonly #tenant: Tenant;
  readonly #request: TransportRequest;
  readonly #deadline: Deadline;
  readonly #tools: RequestTools;
  readonly #headers: Readonly<Record<string, string>>;
  readonly #isOnce: boolean;
  /** The last failure counts; further ones of a contact do not, and their retries are not charged. */
  #isCounted = true;
  #sent = 0;
  #sentAt = 0;

  constructor(tenant: Tenant, request: TransportRequest, deadline: Deadline, tools: RequestTools) {
    this.#tenant = tenant;
    this.#request = request;
    this.#deadline = deadline;
    this.#tools = tools;
    this.#headers = requestHeaders(request);
    this.#isOnce = request.repeat === 'never';
    deadline.tenant = tenant.key;
  }

  async run(): Promise<TransportReply> {
    const { budget } = this.#tools.limits;
    let paid: RetryReason | undefined;
    for (let attempt = 1; ; attempt++) {
      let outcome = await this.#attempt(this.#isOnce);
      if (isStale(outcome) && this.#sent === attempt) {
        outcome = await this.#attempt(true);
      }
      if (isFinal(outcome)) {
        budget.giveBack(paid);
        return this.#reply(outcome);
      }
      const wait = this.#waitAfter(outcome, attempt);
      const price = this.#isCounted ? retryReason(outcome) : undefined;
      if (wait === undefined || (price !== undefined && !budget.take(price))) {
        throw this.#failure(outcome);
      }
      paid = price ?? paid;
      await this.#deadline.sleep(wait);
    }
  }

  async #attempt(fresh: boolean): Promise<Outcome> {
    const { clock, limits } = this.#tools;
    if (this.#deadline.isOver) {
      throw this.#deadline.failure(this.#details());
    }
    const slots = this.#tenant.http.maxConcurrent;
    const admission = this.#admitted(await limits.enter(slots, this.#deadline, clock));
    const { body: source } = this.#request;
    const body = typeof source === 'function' ? await this.#create(source, admission) : source;
    // The slot may be granted in the same turn in which the call ends.
    if (this.#deadline.isOver) {
      this.#leave(undefined, admission);
      throw this.#deadline.failure(this.#details());
    }
    const sentAt = clock.now();
    this.#sentAt = sentAt;
    this.#sent++;
    this.#deadline.sent++;
    const outcome = await this.#send(fresh, body);
    const seen = isStale(outcome) ? undefined : healthOf(outcome, this.#deadline.isTimeUp);
    const health = limits.counted(seen, outcome, this.#request.contact, admission);
    this.#isCounted = health === seen;
    this.#leave(health, admission);
    const durationMs = clock.now() - sentAt;
    publish('request', () => this.#message(outcome, durationMs));
    if (outcome.kind === 'answered' || outcome.why !== 'over') {
      return outcome;
    }
    if (outcome.unsent === true) {
      // Stopped before there was a connection: `attempts` counts only requests that were sent.
      this.#sent--;
      this.#deadline.sent--;
    }
    throw this.#deadline.failure(this.#details(outcome));
  }

  /** @throws {ExhibitorError} where there is no slot */
  #admitted(admission: Admission | undefined): Admission {
    if (admission === undefined) {
      throw this.#deadline.failure(this.#details());
    }
    if (typeof admission === 'object') {
      throw new ExhibitorError('service_unavailable', 'not sent: the service fails or is too busy', {
        ...this.#details(),
        retryAfterMs: Math.ceil(admission.retryAfterMs),
      });
    }
    return admission;
  }

  /** The body of this attempt. It is created in its slot, so that it is not old when it is sent. */
  async #create(source: () => Promise<string>, admission: Admission): Promise<string> {
    try {
      return await source();
    } catch (error) {
      this.#leave(undefined, admission);
      throw error;
    }
  }

  #leave(health: Health, admission: Admission): void {
    this.#tools.limits.leave(this.#tenant.http.maxConcurrent, health, admission, this.#tools.clock);
  }

  async #send(fresh: boolean, body: string | undefined): Promise<Outcome> {
    const { http, dispatcher, origin, path } = this.#tools;
    const { attemptTimeout, maxResponseBytes } = this.#tenant.http;
    const { method, operation, acceptsJwt } = this.#request;
    const handler = new ResponseHandler(responseLimit(operation, maxResponseBytes), acceptsJwt);
    const forget = this.#deadline.onOver(() => handler.stop('over'));
    // A request that is sent once has the whole deadline; others leave time for the next attempt.
    const timer = this.#isOnce ? undefined : setTimeout(() => handler.stop('timeout'), attemptTimeout);
    const outcome = await http.send({
      method,
      origin,
      path,
      body,
      fresh,
      dispatcher,
      handler,
      headers: this.#headers,
    });
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
      attempts: this.#tenant.http.attempts,
      retryAfterMs: this.#retryAfter(outcome),
      remaining: this.#deadline.remaining(),
      random: this.#tools.clock.random(),
    });
  }

  #retryAfter(outcome: Outcome): number | undefined {
    if (outcome.kind === 'failed') {
      return undefined;
    }
    return parseRetryAfter(outcome.headers['retry-after'], this.#tools.clock.epochMs());
  }

  #reply({ status, headers, body }: Answered): TransportReply {
    return { status, headers, body, sentAt: this.#sentAt, attempts: this.#sent };
  }

  #failure(outcome: Outcome): ExhibitorError {
    if (outcome.kind === 'failed') {
      const { origin, log } = this.#tools;
      const isTooLarge = outcome.message.endsWith(TOO_LARGE);
      const failed = { ...outcome, operation: this.#request.operation, origin, isTooLarge };
      log.report(this.#tenant, addressProblem(this.#tenant, failed));
    }
    const details = { ...this.#details(outcome), retryAfterMs: this.#retryAfter(outcome) };
    return new ExhibitorError(codeOf(outcome) ?? 'service_unavailable', describeOutcome(outcome), details);
  }

  #details(outcome?: Outcome): ExhibitorErrorDetails {
    return { tenant: this.#tenant.key, attempts: this.#sent, status: outcome?.status };
  }

  #message(outcome: Outcome, durationMs: number): RequestMessage {
    const { operation, template } = this.#request;
    const isOver = outcome.kind === 'failed' && outcome.why === 'over';
    const code = isOver ? this.#deadline.failure().code : codeOf(outcome);
    return {
      tenant: this.#tenant.key,
      operation,
      template,
      status: outcome.status,
      durationMs,
      attempt: this.#sent,
      code,
    };
  }
}

/**
 * The service may close a keep-alive connection while a request is being written. That request was not read; it is sent again
 * immediately, once, on a new connection.
 */
function isStale(outcome: Outcome): boolean {
  return outcome.kind === 'failed' && outcome.stale === true;
}
