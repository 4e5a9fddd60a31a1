import { Socket } from 'node:net';
import { Agent, buildConnector, Client, Pool, type Dispatcher } from 'undici';
import type { Clock } from '../../time/clock.js';
import { NameLookups, type Connecting } from './name-lookups.js';

/** Receives the response to a request. */
export interface ResponseReceiver extends Dispatcher.DispatchHandler {
  /** Settles when the request has ended, however it did. */
  readonly outcome: Promise<unknown>;
  /** See {@link TransportRequest}. */
  readonly payer: string;
  /** A connection that served another request before may be closing already. */
  isOnNewConnection: boolean;
}

/** A request for undici. */
export interface WireRequest {
  /** Absolute, with an encoded path and query. */
  url: string;
  method: 'GET' | 'POST';
  headers: Readonly<Record<string, string | string[]>>;
  body: string | undefined;
}

/** Where a request is sent. */
interface Route {
  /** Dispatcher of the host; our own connections if none. */
  dispatcher: Dispatcher | undefined;
  /** Sends on a new connection, which is closed afterwards. */
  onNewConnection: boolean;
}

/** Limit in ms for a connection that no deadline stops. */
const CONNECT_TIMEOUT = 10_000;

const UNWANTED = 'no request waits for this connection';

/** Agent and pool of undici wrap the handler of a request, but pass the request itself on to a client: so it carries its receiver. */
interface OwnRequest extends Dispatcher.DispatchOptions {
  receiver?: ResponseReceiver;
}

/**
 * A client of undici, which has one connection. This one connects for a request of a payer, and stops when that has ended. What it
 * relies on in undici 7.30.2 is said where it does; `undici-contract.spec.ts` fails where a later version does otherwise.
 */
class OwnClient extends Client {
  /**
   * The last request, for which the client connects: with `pipelining: 1`, it is given another one only after this one has ended. Not
   * longer, since an idle client must not keep its reply.
   */
  #request: ResponseReceiver | undefined;
  readonly #names: NameLookups;

  constructor(origin: string | URL, names: NameLookups) {
    super(origin, { pipelining: 1, connect: (...args) => this.#connect(...args) });
    this.#names = names;
  }

  override dispatch(request: OwnRequest, handler: Dispatcher.DispatchHandler): boolean {
    const { receiver } = request;
    this.#request = receiver;
    const forget = (): void => {
      if (this.#request === receiver) {
        this.#request = undefined;
      }
    };
    void receiver?.outcome.then(forget);
    return super.dispatch(request, handler);
  }

  /** A connector of its own for each connection: its `lookup` is for this request. */
  #connect(...[options, callback]: Parameters<buildConnector.connector>): void {
    const request = this.#request;
    if (request === undefined) {
      // undici cannot stop a request that waits for a connection, and connects for it although it has ended: a needless connection, to
      // a service that may already be slow. After this error, which has no code of undici, the request fails and is not sent later.
      queueMicrotask(() => callback(new Error(UNWANTED), null));
      return;
    }
    request.isOnNewConnection = true;
    // The socket keeps this as long as it lives, so it is not the request with its reply.
    const connecting: Connecting = { payer: request.payer, isWanted: true };
    const connect = buildConnector({
      timeout: CONNECT_TIMEOUT,
      lookup: (...args) => this.#names.lookup(connecting, ...args),
    });
    const socket: unknown = connect(options, (...result) => {
      connecting.isWanted = false;
      callback(...result);
    });
    const stop = (): void => {
      if (connecting.isWanted && socket instanceof Socket) {
        connecting.isWanted = false;
        socket.destroy(new Error(UNWANTED));
      }
    };
    void request.outcome.then(stop);
  }
}

/** Our keep-alive connections: one pool per origin, shared by all tenants that have no dispatcher of their own. */
export class Connections {
  readonly #names: NameLookups;
  readonly #agent = new Agent({
    factory: (origin, options) =>
      new Pool(origin, { ...options, factory: (url) => new OwnClient(url, this.#names) }),
  });

  constructor(clock: Clock) {
    this.#names = new NameLookups(clock);
  }

  send(
    { url, method, headers, body }: WireRequest,
    receiver: ResponseReceiver,
    { dispatcher, onNewConnection }: Route,
  ): void {
    const { origin, path } = splitUrl(url);
    // The deadline limits headers and body; undici's own timers are not needed.
    const request = { origin, path, method, headers, body, headersTimeout: 0, bodyTimeout: 0 };
    if (dispatcher !== undefined) {
      // Which connection it uses is not known.
      receiver.isOnNewConnection = true;
      dispatcher.dispatch({ ...request, reset: onNewConnection }, receiver);
    } else if (onNewConnection) {
      const client = new OwnClient(origin, this.#names);
      void receiver.outcome.then(() => client.destroy());
      const own: OwnRequest = { receiver, reset: true, ...request };
      client.dispatch(own, receiver);
    } else {
      const own: OwnRequest = { receiver, ...request };
      this.#agent.dispatch(own, receiver);
    }
  }

  /** Closes all kept-alive connections. Others end with their requests. */
  close(): Promise<void> {
    return this.#agent.destroy();
  }
}

/** Origin and path of an absolute URL. The path is kept as it is; `new URL` would normalize it. */
export function splitUrl(url: string): { origin: string; path: string } {
  const authority = url.indexOf('//') + 2;
  const slash = url.indexOf('/', authority);
  if (slash === -1) {
    return { origin: url, path: '/' };
  }
  return { origin: url.slice(0, slash), path: url.slice(slash) };
}
