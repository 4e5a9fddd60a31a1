import { performance as performanceOfNode } from 'node:perf_hooks';
import { Injectable } from '@nestjs/common';

/** Longest delay of a Node timer, in ms (2³¹ − 1). A longer one fires at once. */
export const LONGEST_TIMER = 2_147_483_647;

/** The time and the randomness of decisions, so that tests can control both. Timers and secrets have their own. */
@Injectable()
export class Clock {
  /**
   * Monotonic time in milliseconds: for deadlines, lifetimes and waits. Never 0, where fakes of `performance` start: lru-cache takes an
   * entry that was set then for one without an end.
   */
  now(): number {
    return performance.now() + 1;
  }

  /** Milliseconds since 1970: for dates that are shown, stored or compared with a date of the service. */
  epochMs(): number {
    return Date.now();
  }

  /** A random number from 0 (inclusive) to 1 (exclusive). */
  random(): number {
    return Math.random();
  }
}

/** A timer that fires so much too late was held up by this process, in ms. */
const HELD_UP = 50;

/** How long the event loop then reads first, after two turns of it, in ms. One turn alone leaves replies unread (measured). */
const READING = 20;

/**
 * It reads on until it has waited for so long, in ms: then all that had arrived is read. Of 200 replies, 20 ms left 158 unread on a
 * machine with other work (measured).
 */
const IDLE = 1;

/** For how long it reads on at most, in ms: a process that computes all the time does not wait. */
const LONGEST_READING = 500;

/**
 * A time limit for a partner or for code of the host. Timers run before input and output: after this process was busy for a while,
 * replies that arrived in time are not read yet. They are read first where the limit fires late.
 */
export class TimeLimit {
  #timer: NodeJS.Timeout;
  #isCleared = false;
  #mayExit = false;

  /**
   * Starts it.
   *
   * @param expire is called when the time is up, with whether this process held it up: then the reply may have been in time
   */
  constructor(
    ms: number,
    private readonly expire: (isHeldUp: boolean) => void,
  ) {
    const endsAt = performance.now() + ms;
    this.#timer = setTimeout(
      () => this.#end(performance.now() - endsAt > HELD_UP),
      Math.min(ms, LONGEST_TIMER),
    );
  }

  /** A process whose other work is done exits in spite of this limit. */
  unref(): this {
    this.#mayExit = true;
    this.#timer.unref();
    return this;
  }

  clear(): void {
    this.#isCleared = true;
    clearTimeout(this.#timer);
  }

  #end(isHeldUp: boolean): void {
    if (!isHeldUp) {
      this.expire(false);
      return;
    }
    const [idleBefore, endsAt] = [idleTime(), performance.now() + LONGEST_READING];
    setImmediate(() => setImmediate(() => this.#read(idleBefore, endsAt)));
  }

  #read(idleBefore: number, endsAt: number): void {
    if (this.#isCleared) {
      return;
    }
    const reading = setTimeout(() => {
      if (idleTime() - idleBefore < IDLE && performance.now() < endsAt) {
        this.#read(idleBefore, endsAt);
      } else {
        this.expire(true);
      }
    }, READING);
    this.#timer = this.#mayExit ? reading.unref() : reading;
  }
}

/** For how long the event loop has waited in all, in ms. The global `performance` of fake timers does not know it. */
function idleTime(): number {
  return performanceOfNode.eventLoopUtilization().idle;
}

/** A function of the host did not answer in time. */
export class TimeoutError extends Error {
  override readonly name = 'TimeoutError';
}

/**
 * The result of a function of the host.
 *
 * @param ms how long to wait, in milliseconds. Late results and rejections are ignored
 * @throws {TimeoutError} when there is no answer in time
 */
export async function withTimeout<R>(ms: number, call: () => R | Promise<R>): Promise<R> {
  let limit: TimeLimit | undefined;
  const timeout = new Promise<never>((_, reject) => {
    const expire = (): void => reject(new TimeoutError(`no answer within ${ms} ms`));
    limit = new TimeLimit(ms, expire).unref();
  });
  try {
    return await Promise.race([call(), timeout]);
  } finally {
    limit?.clear();
  }
}
