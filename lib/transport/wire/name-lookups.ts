import dns, { type LookupAddress, type LookupOptions } from 'node:dns';
import type { LookupFunction } from 'node:net';
import { callbackify, promisify } from 'node:util';
import type { Clock } from '../../time/clock.js';
import { FairCache } from '../../time/fair-cache.js';
import { withTimeout } from '../../time/with-timeout.js';
import { NameLookupThreads, SLOW } from './name-lookup-threads.js';

/** Time in ms for which an answer is used without a new look-up. */
const FRESH = 30_000;
/** Time in ms for which an answer is used while new look-ups are slow or fail. TLS makes a stale address harmless. */
const USABLE = 24 * 60 * 60_000;
const MOST_NAMES = 10_000;

interface NameAnswer {
  readonly addresses: LookupAddress[];
  /** {@link Clock.now} until which no new look-up is made. */
  freshUntil: number;
}

export interface Connecting {
  /** See {@link TransportRequest}. */
  readonly payer: string;
  /** False once it is open, or its request has ended. */
  isWanted: boolean;
}

/**
 * Resolves names by the operating system (`/etc/hosts`, search domains). Addresses are kept for all tenants, and used while a new
 * look-up is slow or fails. {@link NameLookupThreads} decides when a name is looked up.
 */
export class NameLookups {
  readonly #answers: FairCache<NameAnswer>;
  /** Look-ups that have begun, by name: a name has one at a time. */
  readonly #running = new Map<string, Promise<LookupAddress[]>>();
  readonly #threads: NameLookupThreads;

  constructor(private readonly clock: Clock) {
    this.#answers = new FairCache(clock, MOST_NAMES);
    this.#threads = new NameLookupThreads(clock);
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
    const last = this.#answers.get(name);
    const found = this.#known(name) ?? this.#inTurn(name, connecting, options);
    if (last === undefined) {
      return found;
    }
    try {
      return await withTimeout(SLOW, () => found);
    } catch {
      last.freshUntil = this.clock.now() + FRESH;
      return last.addresses;
    }
  }

  /** Addresses that are fresh, or that are being looked up. */
  #known(name: string): Promise<LookupAddress[]> | undefined {
    const last = this.#answers.get(name);
    const isFresh = last !== undefined && this.clock.now() < last.freshUntil;
    return isFresh ? Promise.resolve(last.addresses) : this.#running.get(name);
  }

  #inTurn(name: string, connecting: Connecting, options: LookupOptions): Promise<LookupAddress[]> {
    const start = (): Promise<LookupAddress[]> => this.#start(name, connecting, options);
    // It needs no name server (RFC 6761 §6.3).
    if (name === 'localhost') {
      return start();
    }
    return this.#threads.inTurn({ name, payer: connecting.payer, known: () => this.#known(name), start });
  }

  async #start(name: string, connecting: Connecting, options: LookupOptions): Promise<LookupAddress[]> {
    if (!connecting.isWanted) {
      throw new Error('the connection is not wanted any more');
    }
    const found = promisify(dns.lookup)(name, { ...options, all: true });
    this.#running.set(name, found);
    try {
      const addresses = await found;
      const answer = { addresses, freshUntil: this.clock.now() + FRESH };
      this.#answers.set(name, answer, { tenant: connecting.payer, ttl: USABLE });
      return addresses;
    } finally {
      this.#running.delete(name);
    }
  }
}
