import { Socket } from 'node:net';
import type { buildConnector } from 'undici';

const UNWANTED = 'nobody waits for this connection';

/**
 * The connection of one undici client: whether it has served before, and how much came over it. undici does not tell
 * a request which connection it was written to, and both decide whether a reset request may be sent again.
 */
export class ConnectionState {
  #socket: Socket | undefined;
  #connecting: Socket | undefined;
  #served = false;
  #waiter: { readonly isSettled: boolean } | undefined;

  /** A request is given to this line. */
  serve(waiter: { readonly isSettled: boolean }): void {
    this.#waiter = waiter;
  }

  /** A connector that lets this line follow its socket. */
  follow(connector: buildConnector.connector): buildConnector.connector {
    return (options, callback) => {
      // undici connects again after a request was stopped, only to find that it was: one more connection for the
      // service to accept, whenever it is slow already.
      if (this.#waiter?.isSettled === true) {
        queueMicrotask(() => callback(new Error(UNWANTED), null));
        return;
      }
      const begun: unknown = connector(options, (...result) => {
        this.#connecting = undefined;
        this.#socket = result[1] ?? undefined;
        this.#served = false;
        callback(...result);
      });
      if (begun instanceof Socket && this.#socket !== begun) {
        this.#connecting = begun;
      }
    };
  }

  /** A request is written now; answers whether one was before, on the same connection. */
  take(): boolean {
    const reused = this.#served;
    this.#served = true;
    return reused;
  }

  /** Bytes that came over the connection, after TLS. */
  get bytesRead(): number {
    return this.#socket?.bytesRead ?? 0;
  }

  /** Nobody waits for the connection any more while it is being made: a host that does not answer keeps no socket. */
  abandon(): void {
    this.#connecting?.destroy(new Error(UNWANTED));
  }
}
