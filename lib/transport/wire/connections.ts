import { Socket } from 'node:net';
import { Agent, buildConnector, Client, Pool, type Dispatcher } from 'undici';
import type { Clock } from '../../time/clock.js';
import { NameLookups } from './name-lookups.js';

/** Receives the response to a request. */
export interface ResponseReceiver extends Dispatcher.DispatchHandler {
  /** Settles when the request has ended, however it did. */
  readonly outcome: Promise<unknown>;
  /** Key of the tenant that sends the request. */
  readonly tenant: string;
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

/** The pools of undici wrap the handler, but not the request. */
interface OwnRequest extends Dispatcher.DispatchOptions {
  receiver?: ResponseReceiver;
}

type Connect = (request: ResponseReceiver | undefined, ...args: Parameters<buildConnector.connector>) => void;

/** A client of undici has one connection. This one knows which of its requests waits for it. */
class OwnClient extends Client {
  /** Those that have not ended. */
  readonly #requests = new Set<ResponseReceiver>();

  constructor(origin: string | URL, connect: Connect) {
    super(origin, { pipelining: 1, connect: (...args) => connect(this.#waiting, ...args) });
  }

  override dispatch(request: OwnRequest, handler: Dispatcher.DispatchHandler): boolean {
    const { receiver } = request;
    if (receiver !== undefined) {
      this.#requests.add(receiver);
      void receiver.outcome.then(() => this.#requests.delete(receiver));
    }
    return super.dispatch(request, handler);
  }

  get #waiting(): ResponseReceiver | undefined {
    return [...this.#requests].find(({ isWaiting }) => isWaiting);
  }
}

/** Our keep-alive connections: one pool per origin, shared by all tenants that have no dispatcher of their own. */
export class Connections {
  readonly #names: NameLookups;
  readonly #connector = buildConnector({
    timeout: CONNECT_TIMEOUT,
    lookup: (...args) => this.#names.lookup(this.#connectingTenant, ...args),
  });
  readonly #agent = new Agent({
    factory: (origin, options) => new Pool(origin, { ...options, factory: (url) => this.#client(url) }),
  });
  readonly #newClients = new Set<Client>();
  readonly #connecting = new Set<Socket>();
  /** A socket looks up its name before `connect` returns. */
  #connectingTenant = '';

  constructor(clock: Clock) {
    this.#names = new NameLookups(clock);
  }

  send(request: WireRequest, receiver: ResponseReceiver, { dispatcher, onNewConnection }: Route): void {
    if (dispatcher !== undefined) {
      // Which connection it uses is not known.
      receiver.isOnNewConnection = true;
      dispatcher.dispatch({ ...request, reset: onNewConnection }, receiver);
    } else if (onNewConnection) {
      const client = this.#client(request.origin);
      this.#newClients.add(client);
      void this.#destroyAfter(receiver, client);
      client.dispatch({ ...request, receiver, reset: true }, receiver);
    } else {
      const own: OwnRequest = { ...request, receiver };
      this.#agent.dispatch(own, receiver);
    }
  }

  /** Aborts all requests and closes all connections. */
  async close(): Promise<void> {
    this.#names.close();
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

  #client(origin: string | URL): OwnClient {
    return new OwnClient(origin, (...args) => this.#connect(...args));
  }

  /**
   * Connects for the request that waits. undici also connects where only a request that was stopped is left in its queue: a
   * needless connection to a service that may already be slow. No socket stays open once its request has ended.
   */
  #connect(...[request, options, callback]: Parameters<Connect>): void {
    if (request === undefined) {
      queueMicrotask(() => callback(new Error(UNWANTED), null));
      return;
    }
    request.isOnNewConnection = true;
    this.#connectingTenant = request.tenant;
    const connecting: unknown = this.#connector(options, (...result) => {
      if (connecting instanceof Socket) {
        this.#connecting.delete(connecting);
      }
      callback(...result);
    });
    if (connecting instanceof Socket) {
      this.#connecting.add(connecting);
      void this.#abandonAfter(request, connecting);
    }
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
