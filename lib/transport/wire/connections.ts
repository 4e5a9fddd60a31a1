import { Agent, buildConnector, Client, Pool, type Dispatcher } from 'undici';
import type { ResponseHandler } from './response-handler.js';
import { ConnectionState } from './connection-state.js';

/** A request as undici takes it, and the handler that follows it. */
export interface WireRequest extends Dispatcher.DispatchOptions {
  origin: string;
  handler: ResponseHandler;
}

/** The deadline of a call ends a connection attempt, too; this is for the one that nobody stopped. */
const CONNECT_TIMEOUT = 10_000;

class FollowedClient extends Client {
  readonly #state: ConnectionState;

  constructor(origin: string | URL, connector: buildConnector.connector, state = new ConnectionState()) {
    super(origin, { pipelining: 1, connect: state.follow(connector) });
    this.#state = state;
  }

  override dispatch(
    options: Dispatcher.DispatchOptions & { handler?: ResponseHandler },
    handler: Dispatcher.DispatchHandler,
  ): boolean {
    if (options.handler !== undefined) {
      options.handler.connection = this.#state;
      this.#state.serve(options.handler);
    }
    return super.dispatch(options, handler);
  }
}

/** Our own keep-alive connections: a pool for each origin, shared by all tenants without a dispatcher of their own. */
export class Connections {
  readonly #connector = buildConnector({ timeout: CONNECT_TIMEOUT });
  readonly #fresh = new Set<Client>();
  readonly #agent = new Agent({
    factory: (origin) => new Pool(origin, { factory: (url) => new FollowedClient(url, this.#connector) }),
  });

  /** Sends on a connection of the pool. */
  send(request: WireRequest): void {
    this.#agent.dispatch(request, request.handler);
  }

  /** Sends on a connection of its own, which is closed after. */
  sendFresh(request: WireRequest): void {
    const client = new FollowedClient(request.origin, this.#connector);
    this.#fresh.add(client);
    client.dispatch(request, request.handler);
    void this.#closeAfter(request.handler, client);
  }

  async #closeAfter(handler: ResponseHandler, client: Client): Promise<void> {
    await handler.outcome;
    await client.destroy();
    this.#fresh.delete(client);
  }

  /** Ends what is under way and closes every connection. */
  async close(): Promise<void> {
    await Promise.all([this.#agent.destroy(), ...[...this.#fresh].map((client) => client.destroy())]);
  }
}
