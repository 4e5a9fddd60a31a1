import { once } from 'node:events';
import { createServer, type RequestListener } from 'node:http';
import type { Socket } from 'node:net';

const HOST = '127.0.0.1';

/** @throws Error with `NODE_ENV=production`: by what has this name, anybody is anybody. */
export function refuseProduction(name: string): void {
  if (process.env['NODE_ENV'] === 'production') {
    throw new Error(`${name} is for development and tests only: it does not start with NODE_ENV=production`);
  }
}

export class SandboxServer {
  readonly #server = createServer();
  readonly #connections = new Set<Socket>();
  #closed: Promise<unknown> | undefined;

  /** Listens on 127.0.0.1, but not in production. Port 0 selects a free port. */
  async listen(port: number): Promise<void> {
    refuseProduction('ExhibitorSandbox');
    this.#server.on('connection', (socket) => {
      this.#connections.add(socket);
      socket.once('close', () => this.#connections.delete(socket));
    });
    try {
      await once(this.#server.listen(port, HOST), 'listening');
    } catch (cause) {
      throw listenError(port, cause);
    }
  }

  get url(): string {
    const address = this.#server.address();
    return `http://${HOST}:${typeof address === 'object' ? address?.port : address}`;
  }

  get openConnections(): number {
    return this.#connections.size;
  }

  serve(listener: RequestListener): void {
    this.#server.on('request', listener);
  }

  /** Stops listening and destroys every connection, including those with a request under way. */
  async close(): Promise<void> {
    // `close` of the server may come before the `close` listeners of the sockets have run.
    this.#closed ??= Promise.all([this.#server, ...this.#connections].map((one) => once(one, 'close')));
    this.#server.close();
    this.#connections.forEach((socket) => socket.destroy());
    await this.#closed;
  }
}

function listenError(port: number, cause: unknown): Error {
  const code: unknown = Reflect.get(Object(cause), 'code');
  const reason =
    code === 'EADDRINUSE'
      ? 'is already in use. Choose another by port (--port), or 0 for any free one'
      : `is not available (${String(code)})`;
  return new Error(`ExhibitorSandbox: port ${port} on ${HOST} ${reason}`, { cause });
}
