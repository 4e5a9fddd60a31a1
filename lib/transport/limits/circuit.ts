import type { Health } from '../outcome.js';

/** Opens after this many failures in a row, … */
const FAILURES_IN_A_ROW = 40;
/** … or when more than this share of the last requests failed. */
const FAILURE_SHARE = 0.6;
const WINDOW = 100;
/** Longest time in ms until the service is tried again; at least half of it. */
const PAUSE = 8_000;

/** `free`: send. `trial`: the only request that is let through, to test the service. Else: how long to wait, in ms. */
export type Admission = 'free' | 'trial' | { retryAfterMs: number };

/** The circuit breaker of one tenant, origin and group of operations. */
export class Circuit {
  /** Results of the last requests, true for a failure; a ring of {@link WINDOW} entries. */
  readonly #recent: boolean[] = [];
  #position = 0;
  #failures = 0;
  #failuresInARow = 0;
  #openUntil: number | undefined;
  #isTrialRunning = false;

  admit(now: number): Admission {
    const refusal = this.refusal(now);
    if (refusal !== undefined) {
      return refusal;
    }
    if (this.#openUntil === undefined) {
      return 'free';
    }
    this.#isTrialRunning = true;
    return 'trial';
  }

  /** How long to wait, where no request may be sent now. */
  refusal(now: number): { retryAfterMs: number } | undefined {
    if (this.#openUntil === undefined) {
      return undefined;
    }
    if (now < this.#openUntil) {
      return { retryAfterMs: this.#openUntil - now };
    }
    return this.#isTrialRunning ? { retryAfterMs: PAUSE / 2 } : undefined;
  }

  /**
   * Records the result of a request.
   *
   * @param random from 0 to 1; spreads the trials of several processes
   */
  record(health: Health, admission: Admission, now: number, random: number): void {
    if (admission === 'trial') {
      this.#recordTrial(health, now, random);
      return;
    }
    // Late results of requests that were sent before the circuit opened are ignored.
    if (this.#openUntil !== undefined || health === undefined) {
      return;
    }
    this.#count(health === 'bad');
    const isShareReached = this.#recent.length === WINDOW && this.#failures > FAILURE_SHARE * WINDOW;
    if (health === 'bad' && (this.#failuresInARow >= FAILURES_IN_A_ROW || isShareReached)) {
      this.#open(now, random);
    }
  }

  #recordTrial(health: Health, now: number, random: number): void {
    this.#isTrialRunning = false;
    if (health === 'bad') {
      this.#open(now, random);
    } else if (health === 'good') {
      this.#openUntil = undefined;
      this.#recent.length = 0;
      this.#position = 0;
      this.#failures = 0;
      this.#count(false);
    }
  }

  #count(failed: boolean): void {
    this.#failures += Number(failed) - Number(this.#recent[this.#position] === true);
    this.#recent[this.#position] = failed;
    this.#position = (this.#position + 1) % WINDOW;
    this.#failuresInARow = failed ? this.#failuresInARow + 1 : 0;
  }

  #open(now: number, random: number): void {
    this.#openUntil = now + PAUSE / 2 + (PAUSE / 2) * random;
  }
}
