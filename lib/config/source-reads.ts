import { ExhibitorError } from '../errors/exhibitor.error.js';
import { untrustedText } from '../model/untrusted-text.js';
import type { Clock } from '../call/clock.js';
import { withTimeout } from '../call/time-limit.js';
import type { TenantSource } from './tenant-options.interface.js';

/** Reads of a source under way. Visitors can make up keys: some places are kept for keys that were good before. */
const MOST = 32;
const MOST_OF_OTHERS = 16;

/** Reads that wait for a place. */
const MOST_WAITING = 1_000;

/** The reads of a {@link TenantSource} that are under way, and those that wait for a place. */
export class SourceReads {
  #all = 0;
  #ofOthers = 0;
  /** What starts each, and whether its key was good before. */
  readonly #waiting = new Map<() => void, boolean>();

  constructor(
    private readonly source: TenantSource,
    private readonly clock: Clock,
  ) {}

  /** @param wasGood of a key that was good before */
  hasPlace(wasGood: boolean): boolean {
    return this.#all < MOST && (wasGood || this.#ofOthers < MOST_OF_OTHERS);
  }

  /**
   * What the source answers.
   *
   * @param ms time of the wait for a place and of the read together, in ms
   * @throws {TimeoutError} where that is over
   * @throws {ExhibitorError} `service_unavailable` where too many wait
   */
  async find(key: string, wasGood: boolean, ms: number): Promise<unknown> {
    const endsAt = this.clock.now() + ms;
    if (this.hasPlace(wasGood)) {
      this.#enter(wasGood);
    } else {
      await this.#wait(key, wasGood, ms);
    }
    try {
      return await withTimeout(endsAt - this.clock.now(), () => this.source.find(key));
    } finally {
      this.#leave(wasGood);
    }
  }

  async #wait(key: string, wasGood: boolean, ms: number): Promise<void> {
    if (this.#waiting.size >= MOST_WAITING) {
      const message = 'too many keys of tenants are being read';
      const details = { tenant: untrustedText(key), retryAfterMs: 1_000 };
      throw new ExhibitorError('service_unavailable', message, details);
    }
    let start = (): void => {};
    let hasStarted = false;
    const turn = new Promise<void>((resolve) => {
      start = () => {
        hasStarted = true;
        this.#waiting.delete(start);
        this.#enter(wasGood);
        resolve();
      };
    });
    this.#waiting.set(start, wasGood);
    try {
      await withTimeout(ms, () => turn);
    } catch (error) {
      this.#waiting.delete(start);
      if (hasStarted) {
        this.#leave(wasGood);
      }
      throw error;
    }
  }

  #enter(wasGood: boolean): void {
    this.#all += 1;
    this.#ofOthers += wasGood ? 0 : 1;
  }

  #leave(wasGood: boolean): void {
    this.#all -= 1;
    this.#ofOthers -= wasGood ? 0 : 1;
    for (const [start, isGood] of this.#waiting) {
      if (this.hasPlace(isGood)) {
        start();
        return;
      }
    }
  }
}
