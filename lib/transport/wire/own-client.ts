import { Socket } from 'node:net';
import { buildConnector, Client, type Dispatcher } from 'undici';
import type { Connecting, NameLookups } from './name-lookups.js';

export interface ResponseReceiver extends Dispatcher.DispatchHandler {
  /** Settles when the request has ended, however it did. */
  readonly outcome: Promise<unknown>;
  /** See {@link TransportRequest}. */
  readonly payer: string;
  /** A connection that served another request before may be closing already. */
  isOnNewConnection: boolean;
}

/** Limit in ms for a connection that no deadline stops. */
const CONNECT_TIMEOUT = 10_000;

const UNWANTED = 'no request waits for this connection';

/** Agent and pool of undici wrap the handler of a request, but pass the request itself on to a client: so it carries its receiver. */
export interface OwnRequest extends Dispatcher.DispatchOptions {
  receiver?: ResponseReceiver;
}

/**
 * A client of undici, which has one connection. This one connects for a request of a payer, and stops when that has ended. What it
 * relies on in undici 7.30.2 is said where it does; `undici-contract.spec.ts` fails where a later version does otherwise.
 *
 * | what happens                         | receiver that is held | the connection                                        |
 * | ------------------------------------ | --------------------- | ----------------------------------------------------- |
 * | a request is dispatched              | that of the request   | an open one is used                                   |
 * | there is none: undici connects       | that of the request   | begins, and its name is looked up for the payer       |
 * | it is open                           | that of the request   | belongs to undici                                     |
 * | the request ends while it begins     | none                  | is destroyed                                          |
 * | undici connects for an ended request | none                  | fails at once                                         |
 */
export class OwnClient extends Client {
  /**
   * The receiver of the request that the client has. With `pipelining: 1` that is one at a time. It is not held after the end of the
   * request, since an idle client must not keep its reply.
   */
  #receiver: ResponseReceiver | undefined;

  constructor(
    origin: string | URL,
    private readonly names: NameLookups,
  ) {
    super(origin, { pipelining: 1, connect: (...args) => this.#connect(...args) });
  }

  override dispatch(request: OwnRequest, handler: Dispatcher.DispatchHandler): boolean {
    const { receiver } = request;
    this.#receiver = receiver;
    const forget = (): void => {
      if (this.#receiver === receiver) {
        this.#receiver = undefined;
      }
    };
    void receiver?.outcome.then(forget);
    return super.dispatch(request, handler);
  }

  /** A connector of its own for each connection: its `lookup` is for this request. */
  #connect(...[options, callback]: Parameters<buildConnector.connector>): void {
    const receiver = this.#receiver;
    if (receiver === undefined) {
      // undici cannot stop a request that waits for a connection, and connects for it although it has ended: a needless connection, to
      // a service that may already be slow. After this error, which has no code of undici, the request fails and is not sent later.
      queueMicrotask(() => callback(new Error(UNWANTED), null));
      return;
    }
    receiver.isOnNewConnection = true;
    // The socket keeps this as long as it lives, so it is not the receiver with its reply.
    const connecting: Connecting = { payer: receiver.payer, isWanted: true };
    const connect = buildConnector({
      timeout: CONNECT_TIMEOUT,
      lookup: (...args) => this.names.lookup(connecting, ...args),
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
    void receiver.outcome.then(stop);
  }
}
