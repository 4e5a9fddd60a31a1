import type * as Undici from 'undici';
import type { buildConnector, Client, Dispatcher } from 'undici';
import { ConnectionState } from './connection-state.js';
import type { ResponseHandler } from './response-handler.js';

/** A request for undici, with the handler of its response. */
export interface WireRequest extends Dispatcher.DispatchOptions {
  origin: string;
  handler: ResponseHandler;
}

/** Limit in ms for a connection that no deadline stops. */
const CONNECT_TIMEOUT = 10_000;

/** Creates undici clients that tell each request's handler about its connection. */
function observedClients(
  undici: typeof Undici,
): (origin: string | URL, connector: buildConnector.connector) => Client {
  class ObservedClient extends undici.Client {
    readonly #connection: ConnectionState;

    constructor(
      origin: string | URL,
      connector: buildConnector.connector,
      connection = new ConnectionState(),
    ) {
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
  return (origin, connector) => new ObservedClient(origin, connector);
}

/** Our keep-alive connections: one pool per origin, shared by all tenants that have no dispatcher of their own. */
export class Connections {
  readonly #connector: buildConnector.connector;
  readonly #create: ReturnType<typeof observedClients>;
  readonly #fresh = new Set<Client>();
  readonly #agent: Dispatcher;

  constructor(undici: typeof Undici) {
    const create = observedClients(undici);
    const connector = undici.buildConnector({ timeout: CONNECT_TIMEOUT });
    this.#create = create;
    this.#connector = connector;
    this.#agent = new undici.Agent({
      factory: (origin) => new undici.Pool(origin, { factory: (url) => create(url, connector) }),
    });
  }

  /** Sends on a connection of the pool. */
  send(request: WireRequest): void {
    this.#agent.dispatch(request, request.handler);
  }

  /** Sends on a new connection, which is closed afterwards. */
  sendFresh(request: WireRequest): void {
    const client = this.#create(request.origin, this.#connector);
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
