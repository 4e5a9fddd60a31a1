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
import type { AxiosClient, OutgoingRequest } from './wire/axios-client.js';
import { replyLimit, TOO_LARGE } from './wire/reply-limits.js';
import { requestHeaders } from './wire/request-headers.js';

/** What a request needs to be sent. */
export interface RequestTools {
  clock: Clock;
  client: AxiosClient;
  dispatcher: OutgoingRequest['dispatcher'];
  /** Of the URL of the request. */
  origin: string;
  limits: RequestLimits;
  log: ProblemLog;
}

/** The attempts of one request: the first, a replay on a new connection, and retries. */
export class RequestAttempts {
  readonly #tenant: Tenant;
  readonly #request: TransportRequest;
  readonly #deadline: Deadline;
  readonly #tools: RequestTools;
  readonly #headers: Readonly<Record<string, string>>;
  readonly #isOnce: boolean;
  /** The last failure counts; further ones of a contact do not, and their retries are not charged. */
  #isCounted = true;
  #isReplayed = false;
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
      const outcome = await this.#attemptWithReplay();
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

  /**
   * The service may close a kept-alive connection while a request is being written to it. That request was not read: it is sent
   * again at once on a new connection, attempts left or not, but once only.
   */
  async #attemptWithReplay(): Promise<Outcome> {
    const outcome = await this.#attempt(this.#isOnce);
    if (!this.#mayReplay(outcome)) {
      return outcome;
    }
    this.#isReplayed = true;
    return this.#attempt(true);
  }

  #mayReplay(outcome: Outcome): boolean {
    return outcome.kind === 'failed' && outcome.stale === true && !this.#isOnce && !this.#isReplayed;
  }

  /** One request in a slot of its tenant. */
  async #attempt(onNewConnection: boolean): Promise<Outcome> {
    const { limits } = this.#tools;
    this.#requireTime();
    const admission = this.#admitted(await limits.enter(this.#tenant, this.#deadline));
    let health: Health;
    try {
      const body = await this.#body();
      // The call may have ended in the turn in which the slot was granted.
      this.#requireTime();
      const outcome = await this.#send(body, onNewConnection);
      health = this.#healthOf(outcome, admission);
      if (outcome.kind === 'failed' && outcome.why === 'over') {
        throw this.#deadline.failure(this.#details(outcome));
      }
      return outcome;
    } finally {
      limits.leave(this.#tenant, health, admission);
    }
  }

  /** @throws {ExhibitorError} where there is no slot */
  #admitted(admission: Admission | 'over'): Admission {
    if (admission === 'over') {
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
  async #body(): Promise<string | undefined> {
    const { body } = this.#request;
    return typeof body === 'function' ? body() : body;
  }

  /** @throws {ExhibitorError} where the call is over */
  #requireTime(): void {
    if (this.#deadline.isOver) {
      throw this.#deadline.failure(this.#details());
    }
  }

  async #send(body: string | undefined, onNewConnection: boolean): Promise<Outcome> {
    const { clock, client, dispatcher } = this.#tools;
    const { attemptTimeout, maxResponseBytes } = this.#tenant.http;
    const { method, url, operation, acceptsJwt } = this.#request;
    const request = {
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
    this.#sentAt = clock.now();
    this.#count(1);
    const outcome = await client.send(request, this.#deadline);
    const durationMs = clock.now() - this.#sentAt;
    publish('request', () => this.#message(outcome, durationMs));
    if (wasNotSent(outcome)) {
      this.#count(-1);
    }
    return outcome;
  }

  /** Counts requests for `attempts` of an error. Others that wait for this call read the number of its deadline. */
  #count(requests: 1 | -1): void {
    this.#sent += requests;
    this.#deadline.sent += requests;
  }

  /** What the outcome says about the service. A stale connection says nothing, since its request is sent again. */
  #healthOf(outcome: Outcome, admission: Admission): Health {
    const { limits } = this.#tools;
    const seen = this.#mayReplay(outcome) ? undefined : healthOf(outcome, this.#deadline.isTimeUp);
    const health = limits.counted(seen, outcome, this.#request.contact, admission);
    this.#isCounted = health === seen;
    return health;
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
    const cause = outcome.kind === 'failed' ? outcome.cause : undefined;
    const details = { ...this.#details(outcome), retryAfterMs: this.#retryAfter(outcome), cause };
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

/** True where the call ended before there was a connection, or an interceptor of the host failed before. */
function wasNotSent(outcome: Outcome): boolean {
  return (
    outcome.kind === 'failed' &&
    outcome.unsent === true &&
    (outcome.why === 'over' || outcome.why === 'interceptor')
  );
}
