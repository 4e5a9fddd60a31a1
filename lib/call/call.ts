import { EventEmitter, setMaxListeners } from 'node:events';
import { ExhibitorError, type ExhibitorErrorDetails } from '../errors/exhibitor.error.js';
import { TimeLimit, type Clock } from './clock.js';
import { Partner } from './partner.js';

/** Work that several callers {@link Call.join}. */
export interface SharedWork<R> {
  readonly call: Call;
  readonly result: Promise<R>;
}

/** What may end a call before its work is done, and the error of the call. */
const ENDINGS = {
  deadline: { code: 'deadline_exceeded', message: 'the deadline of the call passed' },
  caller: { code: 'aborted', message: 'the caller aborted the call' },
  closed: { code: 'service_unavailable', message: 'the module was closed' },
} as const;

/** Keeps the calls that are under way, to end them when the module closes. */
export interface CallKeeper {
  add(call: Call): void;
  delete(call: Call): void;
}

/**
 * One call, over its token, attempts, waits and bodies together. It is over when its time is up, when its caller aborts or leaves, or,
 * if it has a time, when the module closes: also between two steps of the same turn. Then it emits `abort`, once. When its work is done
 * before, it must be cleared, as {@link run} does.
 *
 * | member      | true where                                                                                     |
 * | ----------- | ---------------------------------------------------------------------------------------------- |
 * | `isOver`    | it is over. A call whose work is done is not                                                    |
 * | `isTimeUp`  | it is over because its time was up                                                             |
 * | `isHeldUp`  | `isTimeUp`, and this process was too busy then: the partner may have been in time              |
 * | `isOverdue` | `isOver`, or the time that it began with is up: calls that join it may have given it more      |
 *
 * undici takes it as the signal of a request. An `AbortSignal` for each call and request would take 10 µs more of a page.
 */
export class Call extends EventEmitter<{ abort: [] }> {
  /** A field, since each step reads it. No other code sets it. */
  isOver = false;
  /** Number of requests sent within this call so far: `attempts` of its error. */
  sent = 0;
  /** Key of the tenant of those requests. */
  tenant: string | undefined;
  readonly partner = new Partner();
  isHeldUp = false;

  #endsAt = Number.POSITIVE_INFINITY;
  #overdueAt: number;
  #limit: TimeLimit | undefined;
  #ending: keyof typeof ENDINGS | undefined;
  /** Removes the listener from the signal or the call that may end this one. */
  readonly #leave: (() => void) | undefined;
  /** Shared work that this call has joined last. */
  #joined: Call | undefined;

  /**
   * @param ms its time, in milliseconds; `Infinity` for none
   * @param from ends it: the signal of a host, or the call that it is a part of
   * @param keeper keeps it and its parts until they are cleared. A call without a time is not kept: of an iterator that nobody reads to
   * its end, nothing must stay
   */
  constructor(
    private readonly clock: Clock,
    ms: number,
    from?: AbortSignal | Call,
    private readonly keeper?: CallKeeper,
  ) {
    super();
    this.setMaxListeners(0);
    this.#leave = from instanceof Call ? from.#tell(this) : from && onAbort(from, this.abort);
    if (ms !== Infinity && !this.isOver) {
      keeper?.add(this);
    }
    this.setTimeLeft(ms);
    this.#overdueAt = this.#endsAt;
  }

  get isOverdue(): boolean {
    return this.isOver || this.clock.now() >= this.#overdueAt;
  }

  get isTimeUp(): boolean {
    return this.#ending === 'deadline';
  }

  /**
   * True where the partner failed this call, or the shared work that it has joined.
   *
   * @param patience time that a request has, in ms
   */
  hasPartnerFailed(patience: number): boolean {
    return (
      this.partner.hasFailedOrIsLate(this.clock.now(), patience) ||
      this.#joined?.hasPartnerFailed(patience) === true
    );
  }

  /** Milliseconds left, 0 or more. */
  remaining(): number {
    return this.isOver ? 0 : Math.max(0, this.#endsAt - this.clock.now());
  }

  /** The error of a call that is over, by its end. `deadline_exceeded` also for one that had too little time left to begin something. */
  failure(details?: ExhibitorErrorDetails): ExhibitorError {
    const { code, message } = ENDINGS[this.#ending ?? 'deadline'];
    return new ExhibitorError(code, message, details);
  }

  /** A part of this call with a time of its own. It is over no later than this call, and then for the same reason. */
  part(ms: number): Call {
    return new Call(this.clock, ms, this, this.keeper);
  }

  /** Does work as this call, which is then done. */
  async run<T>(work: (call: Call) => Promise<T>): Promise<T> {
    try {
      return await work(this);
    } finally {
      this.clear();
    }
  }

  /** Calls back when the call is over; at once if it already is. */
  whenOver(callback: () => void): void {
    if (this.isOver) {
      callback();
    } else {
      this.once('abort', callback);
    }
  }

  /** Waits for something that knows no end of a call, such as a function of the host. The end of this call stops the waiting. */
  race<T>(result: Promise<T>): Promise<T> {
    return this.#wait(result, () => this.failure({ tenant: this.tenant, attempts: this.sent }));
  }

  /**
   * Waits for shared work, and gives it at least the time that this call has left. The end of this call stops the waiting, not the work.
   * Its failure then has the tenant and the requests of the work.
   */
  join<T>({ call, result }: SharedWork<T>): Promise<T> {
    this.#joined = call;
    const left = this.remaining();
    if (left > call.remaining()) {
      call.setTimeLeft(left);
    }
    return this.#wait(result, () => this.failure({ tenant: call.tenant, attempts: this.sent + call.sent }));
  }

  #wait<T>(result: Promise<T>, failure: () => ExhibitorError): Promise<T> {
    if (this.isOver) {
      // Nobody else may wait, and an unhandled rejection ends the process.
      result.catch(() => {});
      return Promise.reject(failure());
    }
    return new Promise((resolve, reject) => {
      const leave = (): void => reject(failure());
      this.once('abort', leave);
      result.then(resolve, reject).finally(() => this.off('abort', leave));
    });
  }

  /** Waits; no longer than the call. */
  sleep(ms: number): Promise<void> {
    return new Promise((resolve) => {
      const timer = setTimeout(resolve, ms);
      this.whenOver(() => {
        clearTimeout(timer);
        resolve();
      });
    });
  }

  /** Begins the time of the call anew, with so many milliseconds. What calls that join it have given it stays. */
  restart(ms: number): void {
    this.#overdueAt = this.clock.now() + ms;
    this.setTimeLeft(Math.max(ms, this.remaining()));
  }

  /** Gives the call so many milliseconds from now, instead of those that it has left. Without any, it is over at once. */
  setTimeLeft(ms: number): void {
    if (this.isOver || ms <= 0) {
      this.#end('deadline');
      return;
    }
    this.#limit?.clear();
    this.#endsAt = this.clock.now() + ms;
    const expire = (isHeldUp: boolean): void => {
      this.isHeldUp = isHeldUp;
      this.#end('deadline');
    };
    this.#limit = ms === Infinity ? undefined : new TimeLimit(ms, expire);
  }

  /** Ends the call because its caller left. */
  readonly abort = (): void => this.#end('caller');

  /** Ends the call because the module closes. */
  close(): void {
    this.#end('closed');
  }

  /** The call is done: removes the timer and all listeners. May be called again. */
  clear(): void {
    this.#limit?.clear();
    this.removeAllListeners();
    this.#leave?.();
    this.keeper?.delete(this);
  }

  /** Ends a part when this call is over, for the same reason. */
  #tell(part: Call): () => void {
    const end = (): void => {
      part.isHeldUp = this.isHeldUp;
      part.#end(this.#ending ?? 'caller');
    };
    this.whenOver(end);
    return () => this.off('abort', end);
  }

  #end(ending: keyof typeof ENDINGS): void {
    if (!this.isOver) {
      this.isOver = true;
      this.#ending = ending;
      this.emit('abort');
      this.clear();
    }
  }
}

/**
 * Calls back when the signal of a host aborts; at once if it already has.
 *
 * @returns a function that removes the callback
 */
export function onAbort(signal: AbortSignal, callback: () => void): () => void {
  if (signal.aborted) {
    callback();
    return () => {};
  }
  // A host may pass one signal to thousands of calls: Node would warn of a leak at the eleventh listener. Of a polyfill it does not.
  if (signal instanceof EventTarget) {
    setMaxListeners(Infinity, signal);
  }
  const listener = (): void => callback();
  signal.addEventListener('abort', listener, { once: true });
  return () => signal.removeEventListener('abort', listener);
}
