import { CircuitState, ConsecutiveBreaker, CountBreaker } from 'cockatiel';
import type { Health } from '../outcome.js';

const IN_A_ROW = 40;
const SHARE = { threshold: 0.6, size: 100 };
/** Milliseconds until the service is tried again; half of it at least. */
const PAUSE = 8_000;

/** `trial`: let through alone, to see whether the service is back; otherwise how long to wait, in ms. */
export type Admission = 'free' | 'trial' | { retryAfterMs: number };

/**
 * The circuit of one tenant at one origin. cockatiel's breakers count; its policy around them does not fit here, since
 * it goes by the wall clock, takes an aborted trial for a success and lets callers wait for the trial past their deadline.
 */
export class Circuit {
  readonly #row = new ConsecutiveBreaker(IN_A_ROW);
  readonly #share = new CountBreaker(SHARE);
  #goodInARow = 0;
  #openUntil: number | undefined;
  #trying = false;

  /** Whether a request may go out now. */
  admit(now: number): Admission {
    const refusal = this.refusal(now);
    if (refusal !== undefined) {
      return refusal;
    }
    if (this.#openUntil === undefined) {
      return 'free';
    }
    this.#trying = true;
    return 'trial';
  }

  /** How long to wait where no request may go out now. */
  refusal(now: number): { retryAfterMs: number } | undefined {
    if (this.#openUntil === undefined) {
      return undefined;
    }
    if (now < this.#openUntil) {
      return { retryAfterMs: this.#openUntil - now };
    }
    return this.#trying ? { retryAfterMs: PAUSE / 2 } : undefined;
  }

  /** Takes the end of a request. @param chance from 0 to 1, spreads the trials of many processes */
  record(health: Health, admission: Admission, now: number, chance: number): void {
    if (admission === 'trial') {
      return this.#recordTrial(health, now, chance);
    }
    // Requests from before it opened come back late, and say nothing of now.
    if (this.#openUntil !== undefined) {
      return;
    }
    if (health === 'good') {
      this.#goodInARow++;
      this.#row.success();
      this.#share.success(CircuitState.Closed);
    }
    if (health === 'bad') {
      this.#recordFailure(now, chance);
    }
  }

  /** True once so much went well that nothing of the past counts any more. */
  get isForgotten(): boolean {
    return this.#openUntil === undefined && this.#goodInARow >= SHARE.size;
  }

  #recordFailure(now: number, chance: number): void {
    this.#goodInARow = 0;
    const tooManyInARow = this.#row.failure();
    const tooLargeAShare = this.#share.failure(CircuitState.Closed);
    if (tooManyInARow || tooLargeAShare) {
      this.#open(now, chance);
    }
  }

  #recordTrial(health: Health, now: number, chance: number): void {
    this.#trying = false;
    if (health === 'bad') {
      return this.#open(now, chance);
    }
    if (health === undefined) {
      return;
    }
    this.#openUntil = undefined;
    this.#row.success();
    this.#share.success(CircuitState.HalfOpen);
  }

  #open(now: number, chance: number): void {
    this.#openUntil = now + PAUSE / 2 + (PAUSE / 2) * chance;
  }
}
