import type { Clock } from '../../call/clock.js';
import type { Rests, Subject } from '../../call/rests.js';
import type { ProblemLog } from '../../config/problems/problem-log.service.js';
import { untrustedText } from '../../model/untrusted-text.js';
import type { Outcome } from '../outcome.js';
import type { Operation } from '../transport-request.interface.js';

/** Requests in a row without any reply that open the circuit. */
const WITHOUT_REPLY = 40;

/** Tells circuits apart. */
let lastId = 0;

/**
 * The circuit breaker of one operation, of one tenant to one origin, or of one published document: no request is sent for a while
 * after many in a row had no reply. A 5xx is a reply.
 */
export class Circuit {
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
