import { Socket } from 'node:net';
import type { buildConnector } from 'undici';

const UNWANTED = 'no request waits for this connection';

/**
 * State of the connection of one undici client: whether it served a request before, and how many bytes it received. undici
 * does not say on which connection a request is sent; both values decide whether a reset request may be sent again.
 */
export class ConnectionState {
  #socket: Socket | undefined;
  #connecting: Socket | undefined;
  #served = false;
  #waiting: object | undefined;

  /** The client was given this request. */
  serve(request: object): void {
    this.#waiting = request;
  }

  /** The request is settled. It is dropped, since it would keep its reply in memory until the next request. */
  release(request: object): void {
    if (this.#waiting === request) {
      this.#waiting = undefined;
    }
  }

  /** Wraps a connector, so that this object knows the socket. */
  follow(connector: buildConnector.connector): buildConnector.connector {
    return (options, callback) => {
      // After a request is stopped, undici connects once more before it notices: a needless connection for a service that
      // may already be slow.
      if (this.#waiting === undefined) {
        queueMicrotask(() => callback(new Error(UNWANTED), null));
        return;
      }
      const connecting: unknown = connector(options, (...result) => {
        this.#connecting = undefined;
        this.#socket = result[1] ?? undefined;
        this.#served = false;
        callback(...result);
      });
      if (connecting instanceof Socket && this.#socket !== connecting) {
        this.#connecting = connecting;
      }
    };
  }

  /** A request is being written. Answers whether the connection served another one before. */
  take(): boolean {
    const reused = this.#served;
    this.#served = true;
    return reused;
  }

  /** Bytes received, after TLS. */
  get bytesRead(): number {
    return this.#socket?.bytesRead ?? 0;
  }

  /** Stops connecting: a host that does not answer must not keep a socket open. */
  abandon(): void {
    this.#connecting?.destroy(new Error(UNWANTED));
  }
}
