import dns, { type LookupAddress, type LookupOptions } from 'node:dns';
import type { LookupFunction } from 'node:net';
import { callbackify, promisify } from 'node:util';
import type { Clock } from '../../time/clock.js';
import { FairCache } from '../../time/fair-cache.js';
import { SerialQueues } from '../../time/serial-queues.js';
import { withTimeout } from '../../time/with-timeout.js';
import { errorCode } from './stale-connection.js';

/** A name server that takes longer to answer is slow, in ms. */
const SLOW = 1_000;
/** Time in ms for which an answer is used without a new look-up. */
const FRESH = 30_000;
/** Time in ms for which an answer is used while new look-ups are slow or fail. TLS makes a stale address harmless. */
const USABLE = 24 * 60 * 60_000;
/** Time in ms for which a tenant whose look-up was slow uses the first thread only. */
const FIRST_ONLY = 10 * 60_000;
/** Largest number of names, and of slow tenants, that are remembered. */
const MOST_NAMES = 10_000;

/** The answer to the last look-up of a name that succeeded. */
interface Known {
  readonly addresses: LookupAddress[];
  /** {@link Clock.now} until which no new look-up is made. */
  freshUntil: number;
}

/** A connection that is being opened. */
interface Connecting {
  /** Key of the tenant that it is opened for, or of a document that several tenants wait for. */
  readonly share: string;
  /** False once its request has ended. */
  readonly isWanted: boolean;
}

/**
 * Resolves names by the operating system (`/etc/hosts`, search domains), for all tenants. `dns.lookup` cannot be cancelled and
 * blocks one of libuv's two threads for slow work until the name servers have answered: two names whose servers are silent
 * would stop every look-up of the process for 10 s and more. Therefore each thread has one look-up at a time:
 *
 * - The first one takes any look-up, in the order in which they come.
 * - While it is busy, the second one takes names for which name servers answer c-ares. They may be silent afterwards: a tenant
 *   whose look-up was slow does not use the second thread for some time.
 *
 * A tenant waits with one name at a time, so that none waits for all names of another. Addresses are kept for all tenants, and used while a
 * new look-up is slow or fails.
 */
export class NameLookups {
  readonly #known: FairCache<Known>;
  /** Look-ups that have begun, by name: a name has one at a time. */
  readonly #running = new Map<string, Promise<LookupAddress[]>>();
  /** Shares with a look-up that was slow. */
  readonly #slowShares: FairCache<true>;
  readonly #shares = new SerialQueues<string>();
  readonly #threads = new SerialQueues<'first' | 'second'>();

  constructor(private readonly clock: Clock) {
    this.#known = new FairCache(clock, MOST_NAMES);
    this.#slowShares = new FairCache(clock, MOST_NAMES);
  }

  /** The `lookup` of a socket. */
  lookup(connecting: Connecting, ...[name, options, callback]: Parameters<LookupFunction>): void {
    callbackify(() => this.#resolve(name, connecting, options))((error, addresses = []) => {
      const [first] = addresses;
      // Without autoSelectFamily, a socket asks for one address.
      if (options.all === true || first === undefined) {
        callback(error, addresses);
      } else {
        callback(error, first.address, first.family);
      }
    });
  }

  async #resolve(name: string, connecting: Connecting, options: LookupOptions): Promise<LookupAddress[]> {
    const known = this.#known.get(name);
    const found = this.#current(name) ?? this.#inTurn(name, connecting, options);
    if (known === undefined) {
      return found;
    }
    try {
      return await withTimeout(SLOW, () => found);
    } catch {
      known.freshUntil = this.clock.now() + FRESH;
      return known.addresses;
    }
  }

  /** Addresses that are fresh, or that are being looked up. */
  #current(name: string): Promise<LookupAddress[]> | undefined {
    const known = this.#known.get(name);
    const isFresh = known !== undefined && this.clock.now() < known.freshUntil;
    return isFresh ? Promise.resolve(known.addresses) : this.#running.get(name);
  }

  #inTurn(name: string, connecting: Connecting, options: LookupOptions): Promise<LookupAddress[]> {
    const { share } = connecting;
    const lookUp = (): Promise<LookupAddress[]> =>
      this.#current(name) ?? this.#lookUp(name, connecting, options);
    // It needs no name server (RFC 6761 §6.3).
    if (name === 'localhost') {
      return lookUp();
    }
    return this.#shares.after(share, () => this.#current(name) ?? this.#onThread(name, share, lookUp));
  }

  /** Looks up on the thread that is free first. The other one then passes it over. */
  #onThread<T>(name: string, share: string, lookUp: () => Promise<T>): Promise<T> {
    return new Promise((resolve) => {
      let hasBegun = false;
      const begin = async (): Promise<void> => {
        if (!hasBegun) {
          hasBegun = true;
          const found = lookUp();
          resolve(found);
          await found.catch(() => undefined);
        }
      };
      const isFree = this.#threads.isFree('first');
      void this.#threads.after('first', begin);
      if (!isFree && this.#slowShares.get(share) === undefined) {
        void isAnswered(name).then((isSoon) => (isSoon ? this.#threads.after('second', begin) : undefined));
      }
    });
  }

  async #lookUp(name: string, connecting: Connecting, options: LookupOptions): Promise<LookupAddress[]> {
    if (!connecting.isWanted) {
      throw new Error('the connection is not wanted any more');
    }
    const { share } = connecting;
    const began = this.clock.now();
    const found = promisify(dns.lookup)(name, { ...options, all: true });
    this.#running.set(name, found);
    try {
      const addresses = await found;
      const known = { addresses, freshUntil: this.clock.now() + FRESH };
      this.#known.set(name, known, { tenant: share, ttl: USABLE });
      return addresses;
    } finally {
      this.#running.delete(name);
      if (this.clock.now() - began > SLOW) {
        this.#slowShares.set(share, true, { tenant: share, ttl: FIRST_ONLY });
      }
    }
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
