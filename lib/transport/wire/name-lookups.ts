import dns, { type LookupAddress, type LookupOptions } from 'node:dns';
import type { LookupFunction } from 'node:net';
import { callbackify, promisify } from 'node:util';
import type { Clock } from '../../time/clock.js';
import { FairCache } from '../../time/fair-cache.js';
import { withTimeout } from '../../time/with-timeout.js';
import { SLOW, SlowLane } from './slow-lane.js';

/** Time in ms for which an answer is used without a new look-up. */
const FRESH = 30_000;
/** Time in ms for which an answer is used while a new look-up is slow or fails. TLS makes a stale address harmless. */
const USABLE = 24 * 60 * 60_000;
const MOST_NAMES = 10_000;

/** Answer to the last look-up of a name that succeeded. */
interface Known {
  addresses: LookupAddress[];
  /** {@link Clock.now} of the answer. */
  at: number;
  /** Whether the last look-up was slow, also where it failed. */
  isSlow: boolean;
}

/**
 * Resolves names by the operating system (`/etc/hosts`, search domains), for all tenants. `dns.lookup` cannot be cancelled and
 * blocks one of libuv's two threads for slow work until the name servers have answered: two names whose servers are silent
 * would stop every look-up of the process for 10 s and more. So one look-up of a name runs at a time, its answer is kept, and
 * names that are new or were slow share one thread.
 */
export class NameLookups {
  readonly #known: FairCache<Known>;
  /** Look-ups under way, by name. */
  readonly #running = new Map<string, Promise<LookupAddress[]>>();
  readonly #lane = new SlowLane();

  constructor(private readonly clock: Clock) {
    this.#known = new FairCache(clock, MOST_NAMES);
  }

  /** The `lookup` of a socket that is opened for this tenant. */
  lookup(tenant: string, ...[name, options, callback]: Parameters<LookupFunction>): void {
    callbackify(() => this.#resolve(name, tenant, options))((error, addresses = []) => {
      const [first] = addresses;
      // Without autoSelectFamily, a socket asks for one address.
      if (options.all === true || first === undefined) {
        callback(error, addresses);
      } else {
        callback(error, first.address, first.family);
      }
    });
  }

  /** Drops the look-ups that have not begun. */
  close(): void {
    this.#lane.close();
  }

  async #resolve(name: string, tenant: string, options: LookupOptions): Promise<LookupAddress[]> {
    const known = this.#known.get(name);
    if (known !== undefined && this.clock.now() - known.at < FRESH) {
      return known.addresses;
    }
    const running = this.#running.get(name);
    if (running !== undefined) {
      this.#lane.join(name, tenant);
      return running;
    }
    const found = this.#lookUp(name, tenant, options, known).finally(() => this.#running.delete(name));
    const answer = known === undefined ? found : withTimeout(SLOW, () => found).catch(() => known.addresses);
    this.#running.set(name, answer);
    return answer;
  }

  /** One look-up, in the slow lane where it may block its thread. `localhost` needs no name server (RFC 6761 §6.3). */
  async #lookUp(
    name: string,
    tenant: string,
    options: LookupOptions,
    known: Known | undefined,
  ): Promise<LookupAddress[]> {
    const isFast = known !== undefined && !known.isSlow;
    const leave = name === 'localhost' ? undefined : await this.#lane.enter(name, tenant, isFast);
    const began = this.clock.now();
    const isSlow = (): boolean => this.clock.now() - began > SLOW;
    try {
      const addresses = await promisify(dns.lookup)(name, { ...options, all: true });
      const answer = { addresses, at: this.clock.now(), isSlow: isSlow() };
      this.#known.set(name, answer, { tenant, ttl: USABLE });
      return addresses;
    } catch (error) {
      if (known !== undefined) {
        known.isSlow = isSlow();
      }
      throw error;
    } finally {
      leave?.();
    }
  }
}
