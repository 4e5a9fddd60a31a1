import { setMaxListeners } from 'node:events';
import { Inject, Injectable } from '@nestjs/common';
import { ExhibitorError, type ExhibitorErrorDetails } from '../errors/exhibitor.error.js';
import { Clock } from './clock.js';
import { TimeLimit } from './time-limit.js';

/** A request has had its time where it had this share of it: a call takes a little time until it sends. */
export const MOST_OF_TIME = 0.9;

/** What may end a call before its work is done, and the error of the call. */
const ENDINGS = {
  deadline: { code: 'deadline_exceeded', message: 'the deadline of the call passed' },
  caller: { code: 'aborted', message: 'the caller aborted the call' },
  closed: { code: 'service_unavailable', message: 'the module was closed' },
} as const;

/**
 * The time limit of one call, over its token, attempts, waits and bodies together. The call is over when the time is up, when
 * the caller aborts or when the module closes. When it is done before, the code that started the deadline must {@link clear} it.
 */
export class Deadline {
  /** Number of requests sent within this call so far: `attempts` of its error. */
  sent = 0;
  /** Key of the tenant of those requests. */
  tenant: string | undefined;
  /** {@link Clock.now} when the request was sent that its partner has not answered; `-Infinity` where the partner failed. */
  silentSince = Number.POSITIVE_INFINITY;

  /** This process was too busy when the time was up: the partner may have been in time. */
  isHeldUp = false;

  /** Called when the call is over. */
  readonly #listeners = new Set<() => void>();
  #forgetSignal: (() => void) | undefined;
  #endsAt = Number.NEGATIVE_INFINITY;
  #limit: TimeLimit | undefined;
  #ending: keyof typeof ENDINGS | undefined;
  /** Deadline of the shared work that this call waits for, or waited for last. */
  #waitsFor: Deadline | undefined;

  /**
   * Starts a deadline `ms` milliseconds from now, which also ends when `signal` aborts.
   *
   * @param onClear called when the call is over or done, perhaps more than once
   */
  constructor(
    private readonly clock: Clock,
    ms: number,
    signal?: AbortSignal,
    private readonly onClear?: (cleared: Deadline) => void,
  ) {
    this.#forgetSignal = onAbort(signal, () => this.abort());
    this.#extend(ms);
  }

  /** True once the time is up, the caller aborted or the module closed. */
  get isOver(): boolean {
    return this.#ending !== undefined;
  }

  /** True where the time is up, rather than that the caller aborted or the module closed. */
  get isTimeUp(): boolean {
    return this.#ending === 'deadline';
  }

  /** True while the partner has not answered the last request. */
  get isSilent(): boolean {
    return Number.isFinite(this.silentSince);
  }

  /**
   * True where the partner failed this call, or the shared work that it waits for.
   *
   * @param patience time in ms that a request has: {@link MOST_OF_TIME} without an answer is a failure, too
   */
  hasPartnerFailed(patience: number): boolean {
    const isFailed = this.clock.now() - this.silentSince >= MOST_OF_TIME * patience;
    return isFailed || this.#waitsFor?.hasPartnerFailed(patience) === true;
  }

  /** Milliseconds left, 0 or more. */
  remaining(): number {
    return this.isOver ? 0 : Math.max(0, this.#endsAt - this.clock.now());
  }

  /** The error of a call that is over: `aborted`, `deadline_exceeded`, or `service_unavailable` when closed. */
  failure(details?: ExhibitorErrorDetails): ExhibitorError {
    const { code, message } = ENDINGS[this.#ending ?? 'deadline'];
    return new ExhibitorError(code, message, details);
  }

  /**
   * Waits for work that other callers wait for as well. The end of this deadline stops the waiting, not the work.
   *
   * @param under deadline of the work, which ends no earlier than this one. The failure reports its tenant and number of requests
   */
  race<T>(shared: Promise<T>, under: Deadline = this): Promise<T> {
    const sent = (): number => (under === this ? this.sent : this.sent + under.sent);
    const failure = (): ExhibitorError => this.failure({ tenant: under.tenant, attempts: sent() });
    if (this.isOver) {
      // This may be the only caller, and an unhandled rejection ends the process.
      shared.catch(() => {});
      return Promise.reject(failure());
    }
    if (under !== this) {
      this.#waitsFor = under;
      under.#extend(this.remaining());
    }
    return new Promise((resolve, reject) => {
      const forget = this.onOver(() => reject(failure()));
      shared.then(resolve, reject).finally(forget);
    });
  }

  sleep(ms: number): Promise<void> {
    if (this.isOver) {
      return Promise.resolve();
    }
    return new Promise((resolve) => {
      const timer = setTimeout(() => {
        forget();
        resolve();
      }, ms);
      const forget = this.onOver(() => {
        clearTimeout(timer);
        resolve();
      });
    });
  }

  /**
   * Calls `listener` when the call is over; immediately if it already is. Callers end at any moment, also between two steps of
   * the same turn. Answers a function that removes the listener.
   */
  onOver(listener: () => void): () => void {
    if (this.isOver) {
      listener();
      return () => {};
    }
    this.#listeners.add(listener);
    return () => {
      this.#listeners.delete(listener);
    };
  }

  /** Ends the call because its caller left. */
  abort(): void {
    this.#over('caller');
  }

  /** Ends the call because the module closes. */
  close(): void {
    this.#over('closed');
  }

  /** The call is done: removes the timer and all listeners. May be called again. */
  clear(): void {
    this.#limit?.clear();
    this.#limit = undefined;
    this.#forgetSignal?.();
    this.#listeners.clear();
    this.onClear?.(this);
  }

  /** Ends no earlier than `ms` from now. */
  #extend(ms: number): void {
    const endsAt = this.clock.now() + ms;
    if (this.isOver || endsAt <= this.#endsAt) {
      return;
    }
    this.#endsAt = endsAt;
    this.#limit?.clear();
    this.#limit = new TimeLimit(ms, (isHeldUp) => {
      this.isHeldUp = isHeldUp;
      this.#over('deadline');
    });
  }

  #over(ending: keyof typeof ENDINGS): void {
    if (this.#ending !== undefined) {
      return;
    }
    this.#ending = ending;
    const listeners = [...this.#listeners];
    this.clear();
    for (const listener of listeners) {
      listener();
    }
  }
}

/**
 * Calls back when the signal aborts; at once if it already has.
 *
 * @returns a function that removes the callback
 */
export function onAbort(signal: AbortSignal | undefined, callback: () => void): () => void {
  if (signal === undefined) {
    return () => {};
  }
  if (signal.aborted) {
    callback();
    return () => {};
  }
  // A host may pass one signal to thousands of calls: Node would warn of a leak at the eleventh listener.
  setMaxListeners(Infinity, signal);
  const listener = (): void => callback();
  signal.addEventListener('abort', listener, { once: true });
  return () => signal.removeEventListener('abort', listener);
}

/** Starts the deadlines of all calls. Closing ends every call, whatever it waits for. */
@Injectable()
export class Deadlines {
  readonly #running = new Set<Deadline>();
  /** Every further call fails. */
  #isClosed = false;

  constructor(@Inject(Clock) private readonly clock: Clock) {}

  /** Starts a deadline `ms` milliseconds from now, which also ends when `signal` aborts. The caller must `clear` it. */
  start(ms: number, signal?: AbortSignal): Deadline {
    const deadline = new Deadline(this.clock, ms, signal, this.#forget);
    if (this.#isClosed) {
      deadline.close();
    } else if (!deadline.isOver) {
      this.#running.add(deadline);
    }
    return deadline;
  }

  /** Does `work` under a deadline `ms` milliseconds from now, which also ends when `signal` aborts. */
  async within<T>(ms: number, work: (deadline: Deadline) => Promise<T>, signal?: AbortSignal): Promise<T> {
    const deadline = this.start(ms, signal);
    try {
      return await work(deadline);
    } finally {
      deadline.clear();
    }
  }

  close(): void {
    this.#isClosed = true;
    for (const deadline of this.#running) {
      deadline.close();
    }
  }

  readonly #forget = (cleared: Deadline): void => void this.#running.delete(cleared);
}
