import { Inject, Injectable } from '@nestjs/common';
import { Call, type CallKeeper, type SharedWork } from './call.js';
import { Clock } from './clock.js';

/** Starts all calls. Closing ends each that has a time, with its parts, whatever it waits for; of a reading, the parts. */
@Injectable()
export class Calls implements CallKeeper {
  readonly #running = new Set<Call>();
  #isClosed = false;

  constructor(@Inject(Clock) private readonly clock: Clock) {}

  /**
   * Starts a call, which also ends by the signal.
   *
   * @param ms its time, in milliseconds. `Infinity` for a call of several requests, whose parts have a time
   */
  start(ms: number, signal?: AbortSignal): Call {
    return new Call(this.clock, ms, signal, this);
  }

  /** Every further call fails. */
  get isClosed(): boolean {
    return this.#isClosed;
  }

  add(call: Call): void {
    if (this.#isClosed) {
      call.close();
    } else {
      this.#running.add(call);
    }
  }

  delete(call: Call): void {
    this.#running.delete(call);
  }

  close(): void {
    this.#isClosed = true;
    for (const call of this.#running) {
      call.close();
    }
  }
}

/** Work under way for several callers: the latest of each key. Each caller waits for it by {@link Call.join}. */
export class SharedWorks<K, R> {
  readonly #latest = new Map<K, SharedWork<R>>();

  constructor(private readonly calls: Calls) {}

  get size(): number {
    return this.#latest.size;
  }

  keys(): Iterable<K> {
    return this.#latest.keys();
  }

  /**
   * The work of this key, where a caller that comes now may join it. Nobody joins work whose own time is up: what never ends, as a
   * function of the host may, would hold up all callers for as long as some come.
   */
  joinable(key: K): SharedWork<R> | undefined {
    const work = this.#latest.get(key);
    return work?.call.isOverdue === true ? undefined : work;
  }

  /** Starts work with so many ms of its own. No caller's end cancels it, and its failure is for those who join it. */
  start(key: K, ms: number, work: (call: Call) => Promise<R>): SharedWork<R> {
    const call = this.calls.start(ms);
    const result = call.run(async () => {
      try {
        return await work(call);
      } finally {
        // Before the call is cleared: nobody may join it then.
        if (this.isLatest(key, call)) {
          this.#latest.delete(key);
        }
      }
    });
    // Where nobody waits, an unhandled rejection would end the process.
    result.catch(() => undefined);
    const started = { call, result };
    this.#latest.set(key, started);
    return started;
  }

  /** False where later work of this key has begun, or the key was forgotten: then the callers get what this work finds, and nobody else. */
  isLatest(key: K, call: Call): boolean {
    return this.#latest.get(key)?.call === call;
  }

  /** Work under way goes on for its callers. */
  forget(key: K): void {
    this.#latest.delete(key);
  }
}

/** True where the work that a caller had joined has used up the time that it began with, and the caller has time for another one. */
export function mayStartNext(joined: SharedWork<unknown> | undefined, caller: Call): boolean {
  return joined?.call.isOverdue === true && !caller.isOver;
}

/** `entered`: the call has a slot, which it must leave. `full`: too many wait. `over`: the call ended before it had a slot. */
export type Entry = 'entered' | 'full' | 'over';

/** A call with less time than this, in ms, takes no slot: it could only begin. */
const SHORTEST = 5;

/** Limits concurrent calls, first come first served. A call that ends while it waits leaves the queue immediately. */
export class Semaphore {
  readonly #slots: number;
  readonly #longestQueue: number;
  #active = 0;
  /** Created at the first wait: most semaphores need none, and an empty set takes 200 bytes of each tenant. */
  #queue: Queue | undefined;

  /**
   * @param slots calls that run at once
   * @param waiting further calls that may wait
   */
  constructor({ slots, waiting }: { slots: number; waiting: number }) {
    this.#slots = slots;
    this.#longestQueue = waiting;
  }

  get isIdle(): boolean {
    return this.#active === 0;
  }

  get isFull(): boolean {
    return this.#active === this.#slots;
  }

  /** No promise where the call need not wait. */
  enter(call: Call): Entry | Promise<Entry> {
    if (call.isOver) {
      return 'over';
    }
    if (this.#active < this.#slots) {
      this.#active += 1;
      return 'entered';
    }
    const queue = (this.#queue ??= new Set());
    return queue.size < this.#longestQueue ? queued(queue, call) : 'full';
  }

  /** Returns a slot, which goes to the call that has waited longest. */
  leave(): void {
    if (this.#queue === undefined || !offerSlot(this.#queue)) {
      this.#active -= 1;
    }
  }
}

/** Waiting calls, each as a function that offers it a slot. The call then leaves the queue; `false` where it has too little time left. */
export type Queue = Set<() => boolean>;

/** Waits in the queue until a slot is offered, or until the call ends. */
export function queued(queue: Queue, call: Call): Promise<'entered' | 'over'> {
  return new Promise((resolve) => {
    const takesSlot = (): boolean => {
      queue.delete(takesSlot);
      // Where many calls began at once, their deadlines fire one after the other: the first that leaves its slot must not start the next.
      const hasTime = call.remaining() >= SHORTEST;
      resolve(hasTime ? 'entered' : 'over');
      return hasTime;
    };
    queue.add(takesSlot);
    call.whenOver(() => {
      queue.delete(takesSlot);
      resolve('over');
    });
  });
}

/** Offers a slot to the call that has waited longest, then to the next one. Returns whether one takes it. */
export function offerSlot(queue: Queue): boolean {
  for (const takesSlot of queue) {
    if (takesSlot()) {
      return true;
    }
  }
  return false;
}
