import dns, { type LookupAddress } from 'node:dns';
import { Socket, type LookupFunction } from 'node:net';
import { callbackify, promisify } from 'node:util';
import { buildConnector } from 'undici';

/** Limit in ms for a connection. undici does not see the abort of a request that waits for one. */
const CONNECT_TIMEOUT = 10_000;

/** Opens our own connections. */
export class Connector {
  readonly #connecting = new Set<Socket>();
  readonly #lookups = new Map<string, Promise<LookupAddress[]>>();

  /** See {@link refuseNext}. */
  #isRefusing = false;

  readonly connect: buildConnector.connector = (options, callback) => {
    if (this.#isRefusing) {
      this.#isRefusing = false;
      queueMicrotask(() => callback(new Error('no request waits for this connection'), null));
      return;
    }
    const socket: unknown = this.#open(options, (...result) => {
      if (socket instanceof Socket) {
        this.#connecting.delete(socket);
      }
      callback(...result);
    });
    if (socket instanceof Socket) {
      this.#connecting.add(socket);
    }
  };

  /**
   * Refuses the connection that undici 7.30 opens, in this very step, after it closed one because its request was aborted: the
   * aborted request is still in its queue. A service that does not answer in time would get twice as many connections.
   */
  refuseNext(): void {
    this.#isRefusing = true;
    queueMicrotask(() => (this.#isRefusing = false));
  }

  /** Ends what is still connecting: undici waits 10 s for a socket in a TLS handshake to which nobody answers. */
  close(): void {
    for (const socket of this.#connecting) {
      socket.destroy(new Error('the module was closed'));
    }
  }

  /**
   * One look-up of a name at a time. `dns.lookup` blocks a thread until the name servers answer, and two of libuv's four look up
   * names: else one name whose servers are silent would stop new connections to all others.
   */
  readonly #lookup: LookupFunction = (name, options, callback) => {
    const look = (): Promise<LookupAddress[]> => promisify(dns.lookup)(name, { ...options, all: true });
    const found = this.#lookups.get(name) ?? look().finally(() => this.#lookups.delete(name));
    this.#lookups.set(name, found);
    callbackify(() => found)((error, addresses = []) => {
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
