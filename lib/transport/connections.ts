import { Agent, buildConnector, Client, Pool, type Dispatcher } from 'undici';
import type { Exchange } from './exchange.js';
import { Line } from './line.js';

/** A request as undici takes it, and the exchange that follows it. */
export interface WireRequest extends Dispatcher.DispatchOptions {
  origin: string;
  exchange: Exchange;
}

/** The deadline of a call ends a connection attempt, too; this is for the one that nobody stopped. */
const CONNECT_TIMEOUT = 10_000;

class FollowedClient extends Client {
  readonly #line: Line;

  constructor(origin: string | URL, connector: buildConnector.connector, line = new Line()) {
    super(origin, { pipelining: 1, connect: line.follow(connector) });
    this.#line = line;
  }

  override dispatch(
    options: Dispatcher.DispatchOptions & { exchange?: Exchange },
    handler: Dispatcher.DispatchHandler,
  ): boolean {
    if (options.exchange !== undefined) {
      options.exchange.line = this.#line;
      this.#line.serve(options.exchange);
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
    this.#agent.dispatch(request, request.exchange);
  }

  /** Sends on a connection of its own, which is closed after. */
  sendFresh(request: WireRequest): void {
    const client = new FollowedClient(request.origin, this.#connector);
    this.#fresh.add(client);
    client.dispatch(request, request.exchange);
    void this.#closeAfter(request.exchange, client);
  }

  async #closeAfter(exchange: Exchange, client: Client): Promise<void> {
    await exchange.outcome;
    await client.destroy();
    this.#fresh.delete(client);
  }

  /** Ends what is under way and closes every connection. */
  async close(): Promise<void> {
    await Promise.all([this.#agent.destroy(), ...[...this.#fresh].map((client) => client.destroy())]);
  }
}
