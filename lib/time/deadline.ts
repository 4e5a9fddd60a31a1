import { ExhibitorError, type ExhibitorErrorDetails } from '../errors/exhibitor.error.js';
import { LONGEST_TIMER } from '../options/option-schemas.js';
import type { Clock } from './clock.js';
import { onAbort } from './on-abort.js';

/** Why a call ended before its work did: its time was up, its caller left, or the module was closed. */
type Ending = 'deadline' | 'caller' | 'closed';

/**
 * The time one call has, for its token, attempts, waits and bodies together, and the caller's wish to stop it.
 * Whoever starts one ends it, which clears the timer and the listener on the caller's signal.
 */
export class Deadline {
  /** Requests sent within this call so far: what `attempts` of its error says. */
  sent = 0;
  /** Key of the tenant those were for. */
  tenant: string | undefined;

  readonly #clock: Clock;
  #endsAt: number;
  readonly #listeners = new Set<() => void>();
  #timer: NodeJS.Timeout | undefined;
  #controller: AbortController | undefined;
  #ending: Ending | undefined;
  #forgetCaller: (() => void) | undefined;

  /** Gives a call `ms` milliseconds from now, less if `signal` is aborted before. */
  static start(clock: Clock, ms: number, signal?: AbortSignal): Deadline {
    return new Deadline(clock, ms, signal);
  }

  private constructor(clock: Clock, ms: number, signal?: AbortSignal) {
    this.#clock = clock;
    this.#endsAt = clock.now() + ms;
    this.#forgetCaller = onAbort(signal, () => this.#finish('caller'));
    if (this.isOver) {
      return;
    }
    this.#timer = setTimeout(Deadline.#expire, Math.min(ms, LONGEST_TIMER), this);
  }

  /** Aborted when the time is up or the caller leaves; made when first asked for, since it costs more than the timer. */
  get signal(): AbortSignal {
    this.#controller ??= new AbortController();
    if (this.#ending !== undefined) {
      this.#controller.abort();
    }
    return this.#controller.signal;
  }

  /** True once the time is up or the caller has left. */
  get isOver(): boolean {
    return this.#ending !== undefined;
  }

  /** True where the time was up, rather than that the caller left. */
  get isTimeUp(): boolean {
    return this.#ending === 'deadline';
  }

  /** Milliseconds left, never below zero. */
  remaining(): number {
    return this.isOver ? 0 : Math.max(0, this.#endsAt - this.#clock.now());
  }

  /** The error of the call where the time is up or the caller has left. */
  failure(details?: ExhibitorErrorDetails): ExhibitorError {
    if (this.#ending === 'caller') {
      return new ExhibitorError('aborted', 'the caller aborted the call', details);
    }
    if (this.#ending === 'closed') {
      return new ExhibitorError('service_unavailable', 'the module was closed', details);
    }
    return new ExhibitorError('deadline_exceeded', 'the deadline of the call passed', details);
  }

  /**
   * Waits for work that others wait for too: leaving it does not stop it.
   *
   * @param under the deadline of that work, whose requests the failure counts
   */
  race<T>(shared: Promise<T>, under: Deadline = this): Promise<T> {
    if (this.isOver) {
      // Nobody else may be waiting for it, and a rejection that nobody handles ends the process.
      shared.catch(() => {});
      return Promise.reject(this.failure({ tenant: under.tenant, attempts: under.sent }));
    }
    return new Promise((resolve, reject) => {
      const forget = this.onOver(() => reject(this.failure({ tenant: under.tenant, attempts: under.sent })));
      shared.then(resolve, reject).finally(forget);
    });
  }

  /** Waits `ms` milliseconds, or until the call is over. */
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

  /** Calls `listener` when the call is over; answers how to take it back. */
  onOver(listener: () => void): () => void {
    this.#listeners.add(listener);
    return () => void this.#listeners.delete(listener);
  }

  /** Gives work that is shared at least `ms` milliseconds from now: it lasts as long as the last who waits for it. */
  extend(ms: number): void {
    const endsAt = this.#clock.now() + ms;
    if (this.#timer === undefined || endsAt <= this.#endsAt) {
      return;
    }
    this.#endsAt = endsAt;
    clearTimeout(this.#timer);
    this.#timer = setTimeout(Deadline.#expire, Math.min(ms, LONGEST_TIMER), this);
  }

  /** Ends the call because the module closes. */
  close(): void {
    this.#finish('closed');
  }

  /** The call is done: clears the timer and lets go of the caller's signal. May be called again. */
  end(): void {
    clearTimeout(this.#timer);
    this.#timer = undefined;
    this.#forgetCaller?.();
    this.#listeners.clear();
  }

  #finish(ending: Ending): void {
    if (this.#ending !== undefined) {
      return;
    }
    this.#ending = ending;
    const listeners = [...this.#listeners];
    this.end();
    for (const listener of listeners) {
      listener();
    }
    this.#controller?.abort();
  }

  static #expire(deadline: Deadline): void {
    deadline.#finish('deadline');
  }
}
