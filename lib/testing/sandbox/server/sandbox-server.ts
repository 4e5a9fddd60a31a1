import { once } from 'node:events';
import { createServer, type RequestListener, type Server } from 'node:http';
import type { Socket } from 'node:net';

const HOST = '127.0.0.1';

/** The HTTP server of a sandbox and its open connections. */
export class SandboxServer {
  readonly #connections = new Set<Socket>();
  #closing: Promise<void> | undefined;

  private constructor(private readonly server: Server) {
    server.on('connection', (socket) => {
      this.#connections.add(socket);
      socket.once('close', () => this.#connections.delete(socket));
    });
  }

  /** Listens on 127.0.0.1, but not in production. Port 0 selects a free port. */
  static async listen(port: number): Promise<SandboxServer> {
    if (process.env['NODE_ENV'] === 'production') {
      throw new Error(
        'ExhibitorSandbox is for development and tests only: it does not start with NODE_ENV=production',
      );
    }
    const server = createServer();
    const sandboxServer = new SandboxServer(server);
    await new Promise<void>((resolve, reject) => {
      server.once('error', (cause) => reject(listenError(port, cause)));
      server.listen(port, HOST, resolve);
    });
    return sandboxServer;
  }

  get url(): string {
    const address = this.server.address();
    return `http://${HOST}:${typeof address === 'object' ? address?.port : address}`;
  }

  /** Number of open TCP connections. */
  get openConnections(): number {
    return this.#connections.size;
  }

  serve(listener: RequestListener): void {
    this.server.on('request', listener);
  }

  /** Stops listening and destroys every connection, including those with a request under way. */
  close(): Promise<void> {
    this.#closing ??= this.#close();
    return this.#closing;
  }

  async #close(): Promise<void> {
    const closed = [once(this.server, 'close')];
    this.server.close();
    // `close` of the server may come before the `close` listeners of the sockets have run.
    for (const socket of this.#connections) {
      closed.push(once(socket, 'close'));
      socket.destroy();
    }
    await Promise.all(closed);
  }
}

function listenError(port: number, cause: NodeJS.ErrnoException): Error {
  const reason =
    cause.code === 'EADDRINUSE'
      ? 'is already in use. Choose another by port (--port), or 0 for any free one'
      : `is not available (${cause.code ?? cause.message})`;
  return new Error(`ExhibitorSandbox: port ${port} on ${HOST} ${reason}`, { cause });
}
