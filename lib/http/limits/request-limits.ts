import type { HttpSettings } from '../../config/tenant-options.interface.js';
import type { Tenant } from '../../config/tenant.js';
import type { Call } from '../../call/call.js';
import type { Clock } from '../../call/clock.js';
import type { Rests, Subject } from '../../call/partner.js';
import { Semaphore } from '../../call/calls.service.js';
import type { ProblemLog } from '../../config/problems/problem-log.service.js';
import { untrustedText } from '../../model/untrusted-text.js';
import { describeOutcome, type Outcome } from '../outcome.js';
import type { Operation } from '../transport-request.interface.js';
import type { ConnectionSlots, ConnectionUser } from './connection-slots.js';
import { Pauses, SEND, type NotSent, type Turn } from './pauses.js';

/** Requests in a row without any reply that open the circuit. */
const WITHOUT_REPLY = 40;

/** Tells circuits apart. */
let lastId = 0;

/**
 * The circuit breaker of one operation, of one tenant to one origin, or of one published document: no request is sent for a while
 * after many in a row had no reply. A 5xx is a reply.
 */
class Circuit {
  #inARow = 0;
  /** Only requests that were sent since count: since the last reply, or the end of the last rest. */
  #countsFrom = 0;
  /** The log says that it opened, and not yet that it closed. */
  #isOpenInLog = false;
  readonly #subject: Subject = ['circuit', (lastId += 1)];

  constructor(
    private readonly operation: Operation,
    private readonly origin: string,
    private readonly rests: Rests,
    private readonly clock: Clock,
  ) {}

  /** Milliseconds until requests may be sent again; 0 where they may. */
  get openFor(): number {
    return this.rests.left(this.#subject);
  }

  /**
   * A request ended. Any reply closes the circuit.
   *
   * @param tenant key of the tenant that sent it, for the log: several tenants share a published document
   */
  ended(outcome: Outcome, tenant: string, log: ProblemLog): void {
    if (outcome.status !== undefined) {
      this.#inARow = 0;
      this.#countsFrom = this.clock.now();
      this.rests.end(this.#subject);
      if (this.#isOpenInLog) {
        this.#isOpenInLog = false;
        log.info(this.#line(tenant, `closed: ${this.origin} replies again`));
      }
    } else if (this.#opensAfter(outcome) && !this.#isOpenInLog) {
      const state = `open: many requests in a row to ${this.origin} had no reply, so that none is sent for a while`;
      const line = this.#line(tenant, state);
      this.#isOpenInLog = log.warn(line, line);
    }
  }

  /** Counts a request without a reply. Returns whether that opened the circuit. */
  #opensAfter(outcome: Outcome): boolean {
    const { noReply, sentAt } = outcome.kind === 'failed' ? outcome : {};
    // A code that an attacker made up may cause late replies and resets.
    const isUnanswered = noReply === 'unreached' || (noReply === 'unanswered' && this.operation !== 'code');
    if (!isUnanswered || sentAt === undefined || sentAt < this.#countsFrom) {
      return false;
    }
    this.#inARow += 1;
    if (this.#inARow < WITHOUT_REPLY) {
      return false;
    }
    this.#inARow = 0;
    this.rests.begin(this.#subject);
    this.#countsFrom = this.clock.now() + this.openFor;
    return true;
  }

  #line(tenant: string, state: string): string {
    return `${this.operation} of ${untrustedText(tenant)}: the circuit is ${state}`;
  }
}

/** Waiting requests per slot. A burst is served; a flood is refused instead of kept in memory. */
const WAITING_PER_SLOT = 16;

const QUEUE_FULL: NotSent = { go: 'fail', retryAfterMs: 1_000, failure: undefined, isOfPartner: false };

/** Largest reply in bytes to operations other than `list` and `lookup`. */
const LARGEST_SMALL_REPLY = 256 * 1024;

/** The retry budget: what is there at most, what a retry takes, and what a success gives. */
const BUDGET = { full: 500, retry: 5, success: 1 };

/**
 * Limits of the requests of one operation, of one tenant to one origin, or for one published document: concurrency, retries and
 * circuit. Slow or failing lists must not delay the lookups of guards, and forged codes must not delay the verification of bearer tokens.
 */
export class RequestLimits {
  #budget = BUDGET.full;
  readonly circuit: Circuit;
  /** Largest accepted reply in bytes, compressed and decompressed. */
  readonly largestReply: number;
  readonly #slots: Semaphore;
  readonly #user: ConnectionUser;
  /** Since the partner asked for a pause. Most never do, and each tenant has limits. */
  #pauses: Pauses | undefined;

  /** @param tenant `undefined` for published documents, which are of all tenants */
  constructor(
    readonly operation: Operation,
    readonly origin: string,
    readonly http: HttpSettings,
    private readonly tenant: Pick<Tenant, 'key' | 'stateKey'> | undefined,
    private readonly connections: ConnectionSlots,
    private readonly rests: Rests,
    private readonly clock: Clock,
  ) {
    this.circuit = new Circuit(operation, origin, rests, clock);
    const isLarge = operation === 'list' || operation === 'lookup';
    this.largestReply = isLarge
      ? http.maxResponseBytes
      : Math.min(LARGEST_SMALL_REPLY, http.maxResponseBytes);
    this.#slots = new Semaphore({ slots: http.maxConcurrent, waiting: this.#mostWaiting });
    this.#user = { tenant: tenant?.key, held: 0 };
  }

  /**
   * Takes a slot and a connection for one request. Returns `over` where the call is over first.
   *
   * | it finds                                                    | and then                                 |
   * | ----------------------------------------------------------- | ---------------------------------------- |
   * | an open circuit                                             | the request is not sent                  |
   * | a pause of the partner: no time for it, or too many wait    | the request is not sent                  |
   * | another pause                                               | waits for its end, and looks again       |
   * | a full queue for slots                                      | the request is not sent                  |
   * | slot and connection at once                                 | the request may be sent                  |
   * | both after a wait, and still neither circuit nor pause      | likewise                                 |
   * | both after a wait, but meanwhile one of these               | returns both, and looks again            |
   *
   * @param about see {@link TransportRequest}
   */
  async enter(call: Call, about: string | undefined): Promise<'entered' | 'over' | NotSent> {
    while (!call.isOver) {
      const turn = this.#turn(about, call);
      if (turn.go === 'fail') {
        return turn;
      }
      if (turn.go === 'wait') {
        await this.#pauses?.wait(turn.ms, call);
        continue;
      }
      // Promises where the request must wait for them, and only then.
      const slot = this.#slots.enter(call);
      const entry = slot === 'entered' ? slot : await slot;
      if (entry !== 'entered') {
        return entry === 'full' ? QUEUE_FULL : 'over';
      }
      const connection = this.connections.enter(this.#user, call);
      if (connection !== 'entered' && (await connection) === 'over') {
        this.#slots.leave();
        return 'over';
      }
      const isAtOnce = slot === 'entered' && connection === 'entered';
      if (isAtOnce || this.#turn(about, call).go === 'send') {
        return 'entered';
      }
      this.leave();
    }
    return 'over';
  }

  /** Takes a retry from the budget, if one is left: where everything fails, retries must not multiply the load. */
  takeRetry(): boolean {
    const isLeft = this.#budget >= BUDGET.retry;
    this.#budget -= isLeft ? BUDGET.retry : 0;
    return isLeft;
  }

  succeeded(): void {
    this.#budget = Math.min(BUDGET.full, this.#budget + BUDGET.success);
  }

  /** Returns the connection and the slot. */
  leave(): void {
    this.connections.leave(this.#user);
    this.#slots.leave();
  }

  /**
   * Begins the pause that a reply asks for: a 429, or of the token endpoint also a 503.
   *
   * @returns how long such a request now pauses, in whole ms: at most as long as a rest of its kind
   */
  pauseAfter(outcome: Outcome, retryAfterMs: number, about: string | undefined): number {
    const { code, status } = outcome;
    const isAsked = status === 429 || (status === 503 && this.operation === 'token');
    if (!isAsked || code === undefined) {
      return 0;
    }
    this.#pauses ??= this.#newPauses();
    return this.#pauses.begin(about, retryAfterMs, { code, message: describeOutcome(outcome), status });
  }

  /** Requests that may wait for a slot, and that may wait for the end of a pause. */
  get #mostWaiting(): number {
    return this.http.maxConcurrent * WAITING_PER_SLOT;
  }

  #newPauses(): Pauses {
    const { origin, operation, tenant } = this;
    const requests = { tenant: tenant?.stateKey.id ?? 0, origin, operation };
    return new Pauses(this.rests, this.clock, requests, this.#mostWaiting);
  }

  #turn(about: string | undefined, call: Call): Turn {
    const { openFor } = this.circuit;
    if (openFor > 0) {
      return { go: 'fail', retryAfterMs: Math.ceil(openFor), failure: undefined, isOfPartner: true };
    }
    return this.#pauses?.turn(about, call.remaining()) ?? SEND;
  }
}
