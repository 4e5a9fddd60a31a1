import { Socket } from 'node:net';
import { Agent, buildConnector, Client, type Dispatcher } from 'undici';

/** Receives the response to a request. */
export interface ResponseReceiver extends Dispatcher.DispatchHandler {
  /** Settles when the request has ended, however it did. */
  readonly outcome: Promise<unknown>;
  /** True once the request is being written to a connection. */
  readonly isSent: boolean;
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

/** Our keep-alive connections: one pool per origin, shared by all tenants that have no dispatcher of their own. */
export class Connections {
  readonly #connector = buildConnector({ timeout: CONNECT_TIMEOUT });
  readonly #agent = new Agent({ pipelining: 1, connect: (...args) => this.#connect(...args) });
  readonly #newClients = new Set<Client>();
  /** Requests that have not ended. */
  readonly #requests = new Set<ResponseReceiver>();
  /** undici opens a connection for the request that it is given, before it returns. */
  #dispatched: ResponseReceiver | undefined;
  readonly #connecting = new Set<Socket>();

  send(request: WireRequest, receiver: ResponseReceiver, { dispatcher, onNewConnection }: Route): void {
    if (dispatcher !== undefined) {
      // Which connection it uses is not known.
      receiver.isOnNewConnection = true;
      dispatcher.dispatch({ ...request, reset: onNewConnection }, receiver);
    } else if (onNewConnection) {
      this.#sendOnNewConnection(request, receiver);
    } else {
      this.#dispatch(this.#agent, request, receiver);
    }
  }

  #sendOnNewConnection(request: WireRequest, receiver: ResponseReceiver): void {
    const client = new Client(request.origin, {
      pipelining: 1,
      connect: (...args) => this.#connect(...args),
    });
    this.#newClients.add(client);
    void this.#destroyAfter(receiver, client);
    this.#dispatch(client, { ...request, reset: true }, receiver);
  }

  /** Aborts all requests and closes all connections. */
  async close(): Promise<void> {
    const all = [this.#agent, ...this.#newClients];
    const closed = Promise.all(all.map((dispatcher) => dispatcher.destroy()));
    for (const socket of this.#connecting) {
      abandon(socket);
    }
    await closed;
  }

  async #destroyAfter({ outcome }: ResponseReceiver, client: Client): Promise<void> {
    await outcome;
    await client.destroy();
    this.#newClients.delete(client);
  }

  #dispatch(dispatcher: Dispatcher, request: WireRequest, receiver: ResponseReceiver): void {
    this.#requests.add(receiver);
    void receiver.outcome.then(() => this.#requests.delete(receiver));
    this.#dispatched = receiver;
    try {
      dispatcher.dispatch(request, receiver);
    } finally {
      this.#dispatched = undefined;
    }
  }

  /** Connects for a request. A host that does not answer keeps no socket open once the request has ended. */
  #connect(options: buildConnector.Options, callback: buildConnector.Callback): void {
    if (!this.#isWanted()) {
      queueMicrotask(() => callback(new Error(UNWANTED), null));
      return;
    }
    const request = this.#dispatched;
    const connecting: unknown = this.#connector(options, (...result) => {
      if (connecting instanceof Socket) {
        this.#connecting.delete(connecting);
      }
      callback(...result);
    });
    if (!(connecting instanceof Socket)) {
      return;
    }
    this.#connecting.add(connecting);
    if (request === undefined) {
      return;
    }
    request.isOnNewConnection = true;
    void this.#abandonAfter(request, connecting);
  }

  /**
   * undici connects of itself where a connection is closed with a request in its queue. It also does after a request is
   * stopped: a needless connection to a service that may already be slow.
   */
  #isWanted(): boolean {
    if (this.#dispatched !== undefined) {
      return true;
    }
    const waiting = [...this.#requests].filter(({ isSent }) => !isSent);
    return waiting.length > this.#connecting.size;
  }

  async #abandonAfter({ outcome }: ResponseReceiver, connecting: Socket): Promise<void> {
    await outcome;
    if (this.#connecting.has(connecting)) {
      abandon(connecting);
    }
  }
}

function abandon(socket: Socket): void {
  socket.destroy(new Error(UNWANTED));
}
