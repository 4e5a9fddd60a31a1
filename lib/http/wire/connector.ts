import dns, { type LookupAddress } from 'node:dns';
import { Socket, type LookupFunction } from 'node:net';
import { setTimeout as pause } from 'node:timers/promises';
import { callbackify, promisify } from 'node:util';
import { buildConnector } from 'undici';
import type { Clock } from '../../call/clock.js';
import { createCache, type ExpiringCache } from '../../call/expiring-cache.js';

/** Limit in ms for a connection. undici does not see the abort of a request that waits for one. */
const CONNECT_TIMEOUT = 10_000;

/** Time in ms after which the last addresses of a name are used, while its look-up goes on. */
const LOOKUP_PATIENCE = 100;

/** For how long they are used, in ms, and of how many names they are kept. */
const LAST_ADDRESSES = 600_000;
const MOST_NAMES = 10_000;

/** Opens our own connections. */
export class Connector {
  /** Look-ups under way. */
  readonly #lookups = new Map<string, Promise<LookupAddress[]>>();
  readonly #lastAddresses: ExpiringCache<LookupAddress[]>;

  constructor(clock: Clock) {
    this.#lastAddresses = createCache(clock, { max: MOST_NAMES });
  }

  /** Returns the socket that is connecting. */
  connect(...request: Parameters<buildConnector.connector>): Socket | undefined {
    const socket: unknown = this.#open(...request);
    return socket instanceof Socket ? socket : undefined;
  }

  /**
   * `dns.lookup` blocks a thread until the name servers answer, and two of libuv's four look up names. So each name is looked up once
   * at a time, and names that are known do not wait: else two names whose servers are silent would stop new connections to all others.
   */
  #addressesOf(name: string, look: () => Promise<LookupAddress[]>): Promise<LookupAddress[]> {
    const found = this.#lookups.get(name) ?? this.#keep(name, look());
    const last = this.#lastAddresses.get(name);
    return last === undefined ? found : Promise.race([found, pause(LOOKUP_PATIENCE, last, { ref: false })]);
  }

  #keep(name: string, looking: Promise<LookupAddress[]>): Promise<LookupAddress[]> {
    const found = looking
      .then((addresses) => {
        this.#lastAddresses.set(name, addresses, { ttl: LAST_ADDRESSES });
        return addresses;
      })
      .finally(() => this.#lookups.delete(name));
    this.#lookups.set(name, found);
    return found;
  }

  readonly #lookup: LookupFunction = (name, options, callback) => {
    const look = (): Promise<LookupAddress[]> => promisify(dns.lookup)(name, { ...options, all: true });
    callbackify(() => this.#addressesOf(name, look))((error, addresses = []) => {
      const [first] = addresses;
      // Without autoSelectFamily, a socket asks for one address.
      if (options.all === true || first === undefined) {
        callback(error, addresses);
      } else {
        callback(error, first.address, first.family);
      }
    });
  };

  readonly #open = buildConnector({ timeout: CONNECT_TIMEOUT, lookup: this.#lookup });
}
