import { Agent, Pool, type Dispatcher } from 'undici';
import type { Clock } from '../../time/clock.js';
import { NameLookups } from './name-lookups.js';
import { OwnClient, type OwnRequest, type ResponseReceiver } from './own-client.js';

export interface WireRequest {
  /** Absolute, with an encoded path and query. */
  url: string;
  method: 'GET' | 'POST';
  headers: Readonly<Record<string, string | string[]>>;
  body: string | undefined;
}

interface Route {
  /** Dispatcher of the host; our own connections if none. */
  dispatcher: Dispatcher | undefined;
  /** Sends on a new connection, which is closed afterwards. */
  onNewConnection: boolean;
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
      // It is not known which connection it uses: a failure must not be taken for that of a stale one.
      receiver.isOnNewConnection = true;
      dispatcher.dispatch({ reset: onNewConnection, ...request }, receiver);
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
