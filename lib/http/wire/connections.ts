import { Socket, type LookupFunction } from 'node:net';
import dns, { type LookupAddress } from 'node:dns';
import { setTimeout as pause } from 'node:timers/promises';
import { callbackify, promisify } from 'node:util';
import { Client, buildConnector } from 'undici';
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
class Connector {
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

/** A connection to one origin, for one request at a time. It is made with the first one. */
class Connection {
  readonly client: Client;
  #connecting: Socket | undefined;

  constructor(
    readonly origin: string,
    connector: Connector,
    onClosed: (connection: Connection) => void,
  ) {
    const connect: buildConnector.connector = (options, callback) => {
      this.#connecting = connector.connect(options, (...result) => {
        this.#connecting = undefined;
        callback(...result);
      });
    };
    this.client = new Client(origin, { connect }).on('disconnect', () => onClosed(this));
  }

  /** undici itself waits up to 10 s for a socket that is connecting, such as in a TLS handshake to which nobody answers. */
  destroy(): Promise<void> {
    this.#connecting?.destroy(new Error('the request has ended'));
    return this.client.destroy();
  }
}

interface OfOrigin {
  readonly open: Set<Connection>;
  /** Those that no request uses now. The one that was used last is the next, so that others can end. */
  readonly free: Connection[];
}

/**
 * Our own connections. One ends with a request that fails, and else after it was free for as long as the server says, or for 4 s, so there
 * are as many as requests at a time, and no more. In an `Agent` of undici, those that are connecting stay when their request has ended, and
 * a request that is aborted makes a new one: 1,493 where 256 requests at a time went to a silent address (measured).
 */
export class Connections {
  readonly #byOrigin = new Map<string, OfOrigin>();
  readonly #connector: Connector;

  /** @param most to one origin */
  constructor(
    clock: Clock,
    private readonly most: number,
  ) {
    this.#connector = new Connector(clock);
  }

  /** A connection for one request, which must {@link leave} it: a free one, else a new one. */
  take(origin: string): Connection {
    return this.#byOrigin.get(origin)?.free.pop() ?? this.open(origin);
  }

  /** As {@link take}, but a new one. It takes the place of a free one where there would be too many. */
  open(origin: string): Connection {
    const { open, free } = this.#byOrigin.get(origin) ?? { open: new Set(), free: [] };
    const [oldest] = free;
    if (open.size >= this.most && oldest !== undefined) {
      this.#close(oldest);
    }
    const connection = new Connection(origin, this.#connector, this.#closed);
    open.add(connection);
    this.#byOrigin.set(origin, { open, free });
    return connection;
  }

  /** @param mayServe the reply was read to its end: the connection may serve another request */
  leave(connection: Connection, mayServe: boolean): void {
    if (mayServe && connection.client.stats.connected) {
      this.#byOrigin.get(connection.origin)?.free.push(connection);
    } else {
      this.#close(connection);
    }
  }

  async close(): Promise<void> {
    const all = [...this.#byOrigin.values()].flatMap(({ open }) => [...open]);
    await Promise.all(all.map((connection) => connection.destroy()));
  }

  /** The server has closed it, or it was free for too long. A request that uses it hears of that itself. */
  readonly #closed = (connection: Connection): void => {
    if (this.#byOrigin.get(connection.origin)?.free.includes(connection) === true) {
      this.#close(connection);
    }
  };

  #close(connection: Connection): void {
    void connection.destroy();
    const { open, free } = this.#byOrigin.get(connection.origin) ?? {};
    open?.delete(connection);
    const index = free?.indexOf(connection) ?? -1;
    if (index !== -1) {
      free?.splice(index, 1);
    }
    if (open?.size === 0) {
      this.#byOrigin.delete(connection.origin);
    }
  }
}
