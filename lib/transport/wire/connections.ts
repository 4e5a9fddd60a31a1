import { Agent, buildConnector, Client, Pool, type Dispatcher } from 'undici';
import { ConnectionState } from './connection-state.js';
import type { ResponseHandler } from './response-handler.js';

/** A request for undici, with the handler of its response. */
export interface WireRequest extends Dispatcher.DispatchOptions {
  origin: string;
  handler: ResponseHandler;
}

/** Limit in ms for a connection that no deadline stops. */
const CONNECT_TIMEOUT = 10_000;

/** An undici client that tells each request's handler about its connection. */
class ObservedClient extends Client {
  readonly #connection: ConnectionState;

  constructor(origin: string | URL, connector: buildConnector.connector, connection = new ConnectionState()) {
    super(origin, { pipelining: 1, connect: connection.follow(connector) });
    this.#connection = connection;
  }

  override dispatch(
    options: Dispatcher.DispatchOptions & { handler?: ResponseHandler },
    handler: Dispatcher.DispatchHandler,
  ): boolean {
    if (options.handler !== undefined) {
      options.handler.connection = this.#connection;
      this.#connection.serve(options.handler);
    }
    return super.dispatch(options, handler);
  }
}

/** Our keep-alive connections: one pool per origin, shared by all tenants that have no dispatcher of their own. */
export class Connections {
  readonly #connector = buildConnector({ timeout: CONNECT_TIMEOUT });
  readonly #fresh = new Set<Client>();
  readonly #agent = new Agent({
    factory: (origin) => new Pool(origin, { factory: (url) => new ObservedClient(url, this.#connector) }),
  });

  /** Sends on a connection of the pool. */
  send(request: WireRequest): void {
    this.#agent.dispatch(request, request.handler);
  }

  /** Sends on a new connection, which is closed afterwards. */
  sendFresh(request: WireRequest): void {
    const client = new ObservedClient(request.origin, this.#connector);
    this.#fresh.add(client);
    client.dispatch(request, request.handler);
    void this.#closeAfter(request.handler, client);
  }

  async #closeAfter(handler: ResponseHandler, client: Client): Promise<void> {
    await handler.outcome;
    await client.destroy();
    this.#fresh.delete(client);
  }

  /** Aborts all requests and closes all connections. */
  async close(): Promise<void> {
    await Promise.all([this.#agent.destroy(), ...[...this.#fresh].map((client) => client.destroy())]);
  }
}
