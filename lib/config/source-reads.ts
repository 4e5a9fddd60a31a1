import { ExhibitorError } from '../errors/exhibitor.error.js';
import { isExhibitorError } from '../errors/is-exhibitor-error.js';
import { untrustedText } from '../model/untrusted-text.js';
import type { Call } from '../call/call.js';
import { Semaphore } from '../call/calls.service.js';
import type { TenantSource } from './tenant-options.interface.js';

/** Reads of a source under way, and reads that wait for a place. */
const LIMITS = { slots: 32, waiting: 1_000 };

/** Of them, reads of keys that were not good before: visitors can make up keys. */
const OF_OTHERS = { slots: 16, waiting: 1_000 };

/** The reads of a {@link TenantSource} that are under way, and those that wait for a place. */
export class SourceReads {
  readonly #all = new Semaphore(LIMITS);
  readonly #ofOthers = new Semaphore(OF_OTHERS);

  constructor(private readonly source: TenantSource) {}

  /** True where a further read would have to wait, whatever its key. */
  get isFull(): boolean {
    return this.#all.isFull;
  }

  /**
   * What the source answers. Late answers are ignored.
   *
   * @param wasGood the key was good before
   * @param call the wait for a place and the read
   * @throws {ExhibitorError} `deadline_exceeded` where that is over; `service_unavailable` where too many wait, and when the module closes
   */
  async find(key: string, wasGood: boolean, call: Call): Promise<unknown> {
    const entered: Semaphore[] = [];
    try {
      for (const places of wasGood ? [this.#all] : [this.#ofOthers, this.#all]) {
        const entering = places.enter(call);
        // A read that need not wait begins in this turn.
        const entry = typeof entering === 'string' ? entering : await entering;
        if (entry !== 'entered') {
          throw entry === 'full' ? tooManyReads(key) : call.failure({ tenant: untrustedText(key) });
        }
        entered.push(places);
      }
      return await call.race(Promise.resolve(this.source.find(key)));
    } catch (error) {
      throw call.isTimeUp ? sourceTooLate(key) : error;
    } finally {
      entered.forEach((places) => places.leave());
    }
  }
}

const TOO_MANY_READS = 'too many keys of tenants are being read';

function tooManyReads(key: string): ExhibitorError {
  const details = { tenant: untrustedText(key), retryAfterMs: 1_000 };
  return new ExhibitorError('service_unavailable', TOO_MANY_READS, details);
}

/** True where too many reads wait, which is no fault of the source. */
export function isOwnLimit(error: unknown): boolean {
  return isExhibitorError(error) && error.message === TOO_MANY_READS;
}

export function sourceTooLate(key: string): ExhibitorError {
  const tenant = untrustedText(key);
  return new ExhibitorError('deadline_exceeded', 'the tenant source did not answer in time', { tenant });
}
