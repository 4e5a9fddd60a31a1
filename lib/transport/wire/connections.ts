import { Socket } from 'node:net';
import { Agent, buildConnector, Client, Pool, type Dispatcher } from 'undici';
import type { Clock } from '../../time/clock.js';
import { NameLookups } from './name-lookups.js';

/** Receives the response to a request. */
export interface ResponseReceiver extends Dispatcher.DispatchHandler {
  /** Settles when the request has ended, however it did. */
  readonly outcome: Promise<unknown>;
  /** See {@link TransportRequest}. */
  readonly share: string;
  /** True until the request is written to a connection, or ends before. */
  readonly isWaiting: boolean;
  /** A connection that served another request before may be closing already. */
  isOnNewConnection: boolean;
}

/** A request for undici. */
export interface WireRequest extends Dispatcher.DispatchOptions {
  origin: string;
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

/** The agent and the pools of undici wrap the handler on its way to the client. The request arrives as it is. */
interface OwnRequest extends Dispatcher.DispatchOptions {
  receiver?: ResponseReceiver;
}

/**
 * A client of undici, which has one connection. With `pipelining: 1` it is given a request only after the last one has ended. This
 * one connects for that request, and stops when it has ended.
 */
class OwnClient extends Client {
  /** The last request, until it has ended: an idle client must not keep its reply. */
  #request: ResponseReceiver | undefined;
  readonly #names: NameLookups;

  constructor(origin: string | URL, names: NameLookups) {
    super(origin, { pipelining: 1, connect: (...args) => this.#connect(...args) });
    this.#names = names;
  }

  override dispatch(request: OwnRequest, handler: Dispatcher.DispatchHandler): boolean {
    const { receiver } = request;
    if (receiver !== undefined) {
      this.#request = receiver;
      void receiver.outcome.then(() => this.#forget(receiver));
    }
    return super.dispatch(request, handler);
  }

  #forget(ended: ResponseReceiver): void {
    if (this.#request === ended) {
      this.#request = undefined;
    }
  }

  /** A connector of its own for each connection: its `lookup` is for this request. */
  #connect(...[options, callback]: Parameters<buildConnector.connector>): void {
    const request = this.#request;
    // undici also connects where only a request that was stopped is left in its queue: a needless connection to a service that
    // may already be slow.
    if (request?.isWaiting !== true) {
      queueMicrotask(() => callback(new Error(UNWANTED), null));
      return;
    }
    request.isOnNewConnection = true;
    // The socket keeps this as long as it lives, so it is not the request with its reply.
    const connecting = { share: request.share, isWanted: true };
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

  send(request: WireRequest, receiver: ResponseReceiver, { dispatcher, onNewConnection }: Route): void {
    const own: OwnRequest = { ...request, receiver };
    if (dispatcher !== undefined) {
      // Which connection it uses is not known.
      receiver.isOnNewConnection = true;
      dispatcher.dispatch({ ...request, reset: onNewConnection }, receiver);
    } else if (onNewConnection) {
      const client = new OwnClient(request.origin, this.#names);
      void receiver.outcome.then(() => client.destroy());
      client.dispatch({ ...own, reset: true }, receiver);
    } else {
      this.#agent.dispatch(own, receiver);
    }
  }

  /** Closes all kept-alive connections. Others end with their requests. */
  close(): Promise<void> {
    return this.#agent.destroy();
  }
}
