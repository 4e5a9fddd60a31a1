import dns from 'node:dns';
import type { Clock } from '../../time/clock.js';
import { FairCache } from '../../time/fair-cache.js';
import { SerialQueues } from '../../time/serial-queues.js';
import { errorCode } from './stale-connection.js';

/** A name server that takes longer to answer is slow, in ms. */
export const SLOW = 1_000;
/** Time in ms for which a payer whose look-up was slow uses the first thread only. */
const FIRST_ONLY = 10 * 60_000;
const MOST_PAYERS = 10_000;

export interface WaitingNameLookup<T> {
  readonly name: string;
  /** See {@link TransportRequest}. */
  readonly payer: string;
  /** The answer, or the look-up that is under way, if there is one by now. */
  readonly known: () => Promise<T> | undefined;
  readonly start: () => Promise<T>;
}

/**
 * Decides when a name is looked up, and on which thread. `dns.lookup` cannot be cancelled, and blocks one of libuv's two threads
 * for slow work until the name servers have answered: two names whose servers are silent would stop every look-up of the process
 * for 10 s and more. Therefore each thread has one look-up at a time, and each payer waits with one name at a time:
 *
 * - The first thread takes any look-up, in the order in which they come.
 * - While it is busy, the second one takes names for which name servers answer c-ares. They may be silent afterwards: a payer
 *   whose look-up was slow does not use the second thread for some time.
 */
export class NameLookupThreads {
  readonly #payers = new SerialQueues<string>();
  readonly #threads = new SerialQueues<'first' | 'second'>();
  readonly #slowPayers: FairCache<true>;

  constructor(private readonly clock: Clock) {
    this.#slowPayers = new FairCache(clock, MOST_PAYERS);
  }

  /** Starts a look-up when its payer and a thread are free, unless the name is known by then. */
  inTurn<T>(lookup: WaitingNameLookup<T>): Promise<T> {
    return this.#payers.after(lookup.payer, () => lookup.known() ?? this.#onThread(lookup));
  }

  /** Waits for both threads, and begins on the one that is free first. The other one then passes it over. */
  #onThread<T>({ name, payer, known, start }: WaitingNameLookup<T>): Promise<T> {
    return new Promise((resolve) => {
      let hasBegun = false;
      const begin = async (): Promise<void> => {
        if (hasBegun) {
          return;
        }
        hasBegun = true;
        const began = this.clock.now();
        const found = known() ?? start();
        resolve(found);
        await found.catch(() => undefined);
        if (this.clock.now() - began > SLOW) {
          this.#slowPayers.set(payer, true, { tenant: payer, ttl: FIRST_ONLY });
        }
      };
      const isFree = this.#threads.isFree('first');
      void this.#threads.after('first', begin);
      if (!isFree && this.#slowPayers.get(payer) === undefined) {
        void isAnswered(name).then((isSoon) => (isSoon ? this.#threads.after('second', begin) : undefined));
      }
    });
  }
}

/** Whether name servers answer for a name without delay, also that it has no address. c-ares asks them, which takes no thread. */
async function isAnswered(name: string): Promise<boolean> {
  const resolver = new dns.promises.Resolver();
  const timer = setTimeout(() => resolver.cancel(), SLOW);
  const answers = await Promise.allSettled([resolver.resolve4(name), resolver.resolve6(name)]);
  clearTimeout(timer);
  return answers.every(
    (answer) => answer.status === 'fulfilled' || ['ENODATA', 'ENOTFOUND'].includes(errorCode(answer.reason)),
  );
}
