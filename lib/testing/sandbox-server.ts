import { once } from 'node:events';
import {
  createServer,
  IncomingMessage,
  type RequestListener,
  type Server,
  type ServerResponse,
} from 'node:http';
import type { AddressInfo, Socket } from 'node:net';

const HOST = '127.0.0.1';
const MAX_BODY_BYTES = 1024 * 1024;

/** The listening HTTP server of a sandbox and its connections. */
export class SandboxServer {
  readonly #sockets = new Map<Socket, number>();
  #connections = 0;
  #closing: Promise<void> | undefined;

  private constructor(private readonly server: Server) {
    server.on('connection', (socket) => {
      this.#connections += 1;
      this.#sockets.set(socket, this.#connections);
      socket.once('close', () => this.#sockets.delete(socket));
    });
  }

  /** Listens on loopback; port 0 takes a free one. */
  static async listen(port: number): Promise<SandboxServer> {
    const server = createServer();
    const listening = new SandboxServer(server);
    await new Promise<void>((resolve, reject) => {
      server.once('error', (cause) => reject(listenError(port, cause)));
      server.listen(port, HOST, resolve);
    });
    return listening;
  }

  get url(): string {
    const address: AddressInfo | string | null = this.server.address();
    return `http://${HOST}:${typeof address === 'object' ? address?.port : address}`;
  }

  /** TCP connections open now. */
  get openConnections(): number {
    return this.#sockets.size;
  }

  /** Number of a connection, counted from 1. */
  connectionOf(socket: Socket): number {
    return this.#sockets.get(socket) ?? 0;
  }

  serve(listener: RequestListener): void {
    this.server.on('request', listener);
  }

  /** Stops listening and destroys every connection, whatever is under way on it. */
  close(): Promise<void> {
    this.#closing ??= this.#close();
    return this.#closing;
  }

  async #close(): Promise<void> {
    const closed = [once(this.server, 'close')];
    this.server.close();
    // The server counts a connection as closed before those who listen to it have heard.
    for (const socket of this.#sockets.keys()) {
      closed.push(once(socket, 'close'));
      socket.destroy();
    }
    await Promise.all(closed);
  }
}

/** The whole body of a request, or `undefined` when the client left first or sent more than 1 MiB. */
export async function readBody(request: IncomingMessage): Promise<Buffer | undefined> {
  const chunks: Buffer[] = [];
  let length = 0;
  try {
    for await (const chunk of request) {
      length += chunk.length;
      if (length > MAX_BODY_BYTES) {
        return undefined;
      }
      chunks.push(chunk);
    }
    return Buffer.concat(chunks);
  } catch {
    return undefined;
  }
}

/** The same request once more with its body unread, since a stream is read only once. */
export function replay(request: IncomingMessage, body: Buffer): IncomingMessage {
  const copy = new IncomingMessage(request.socket);
  copy.method = request.method;
  copy.url = request.url;
  copy.headers = request.headers;
  copy.rawHeaders = request.rawHeaders;
  copy.httpVersion = request.httpVersion;
  copy.httpVersionMajor = request.httpVersionMajor;
  copy.httpVersionMinor = request.httpVersionMinor;
  // An incomplete message takes its connection along when it is destroyed.
  copy.complete = true;
  copy.push(body);
  copy.push(null);
  return copy;
}

/** Ends a reply with a JSON body. */
export function sendJson(
  response: ServerResponse,
  status: number,
  body: unknown,
  headers: Readonly<Record<string, string>> = {},
): void {
  const text = JSON.stringify(body);
  response.statusCode = status;
  response.setHeader('content-type', 'application/json; charset=utf-8');
  for (const [name, value] of Object.entries(headers)) {
    response.setHeader(name, value);
  }
  response.setHeader('content-length', Buffer.byteLength(text));
  response.end(text);
}

function listenError(port: number, cause: NodeJS.ErrnoException): Error {
  const reason =
    cause.code === 'EADDRINUSE'
      ? 'is already in use. Choose another port, or leave it out for a free one'
      : `cannot be listened on (${cause.code ?? cause.message})`;
  return new Error(`ExhibitorSandbox: port ${port} on ${HOST} ${reason}`, { cause });
}
