import { ExhibitorError } from '../errors/exhibitor.error.js';
import { untrustedText } from '../model/untrusted-text.js';
import type { Call } from '../call/call.js';
import { Semaphore } from '../call/calls.service.js';
import type { Clock } from '../call/clock.js';
import type { TenantSource } from './tenant-options.interface.js';

/** Reads of a source under way, and reads that wait for a place. */
const LIMITS = { slots: 32, waiting: 1_000 };

/** Of them, reads of keys that were not good before: visitors can make up keys. */
const OF_OTHERS = { slots: 16, waiting: 1_000 };

const TOO_MANY_READS = 'too many keys of tenants are being read';

/** The reads of a {@link TenantSource} that are under way, and those that wait for a place. */
export class SourceReads {
  readonly #all = new Semaphore(LIMITS);
  readonly #ofOthers = new Semaphore(OF_OTHERS);

  constructor(
    private readonly source: TenantSource,
    private readonly clock: Clock,
  ) {}

  /** True where a further read would have to wait, whatever its key. */
  get isFull(): boolean {
    return this.#all.isFull;
  }

  /**
   * What the source answers. Late answers are ignored.
   *
   * @param wasGood the key was good before
   * @param call the read. It has its time for the wait for a place, and again for the source: that wait is no fault of the source. Its
   * `partner` is suspect once the source is asked
   * @throws {ExhibitorError} `deadline_exceeded` where one of these times is over; `service_unavailable` where too many wait, and when
   * the module closes
   */
  async find(key: string, wasGood: boolean, call: Call): Promise<unknown> {
    const ms = call.remaining();
    const entered: Semaphore[] = [];
    try {
      for (const places of wasGood ? [this.#all] : [this.#ofOthers, this.#all]) {
        const entering = places.enter(call);
        // A read that need not wait begins in this turn.
        const entry = typeof entering === 'string' ? entering : await entering;
        if (entry === 'full') {
          throw tooManyReads(key);
        }
        if (entry === 'over') {
          // Also a read that was offered a place in its last moment.
          call.setTimeLeft(0);
          throw call.failure({ tenant: untrustedText(key) });
        }
        entered.push(places);
      }
      call.restart(ms);
      call.partner.wasAsked(this.clock.now());
      return await call.race(Promise.resolve(this.source.find(key)));
    } catch (error) {
      throw call.isTimeUp ? readTooLate(key, call.partner.isSuspect) : error;
    } finally {
      entered.forEach((places) => places.leave());
    }
  }
}

function tooManyReads(key: string): ExhibitorError {
  const details = { tenant: untrustedText(key), retryAfterMs: 1_000 };
  return new ExhibitorError('service_unavailable', TOO_MANY_READS, details);
}

/** @param isOfSource the source had the whole time, without the wait for a place */
export function readTooLate(key: string, isOfSource: boolean): ExhibitorError {
  const message = isOfSource ? 'the tenant source did not answer in time' : TOO_MANY_READS;
  return new ExhibitorError('deadline_exceeded', message, { tenant: untrustedText(key) });
}
