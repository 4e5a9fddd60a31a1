import { randomInt } from 'node:crypto';
import {
  createServer,
  type IncomingMessage,
  type RequestListener,
  type Server,
  type ServerResponse,
} from 'node:http';
import {
  createServer as createTcpServer,
  type AddressInfo,
  type Server as TcpServer,
  type Socket,
} from 'node:net';

/** A server of a test, with what it received. */
export interface TestServer {
  url: string;
  requests: IncomingMessage[];
  /** Open connections. */
  connections: Set<Socket>;
  /** Connections made since the start. */
  connected: number;
  /** Closes the server and all its connections. May be called twice. */
  stop(): Promise<void>;
}

/** Starts an HTTP server on loopback. `count` is the number of the request, from 1. */
export async function startServer(
  listener: (request: IncomingMessage, response: ServerResponse, count: number) => void,
): Promise<TestServer> {
  const seen: RequestListener = (request, response) => {
    const count = test.requests.push(request);
    request.resume();
    listener(request, response, count);
  };
  const server: Server = createServer(seen);
  const test = await follow(server, 'http');
  return test;
}

/** Starts a server of any kind on loopback and tracks its connections. */
export async function follow(server: TcpServer, scheme: 'http' | 'https' = 'http'): Promise<TestServer> {
  const connections = new Set<Socket>();
  server.on('connection', (socket: Socket) => {
    test.connected += 1;
    connections.add(socket);
    socket.on('close', () => connections.delete(socket)).on('error', () => undefined);
  });
  const port = await listen(server);
  const test: TestServer = {
    url: `${scheme}://${scheme === 'https' ? 'localhost' : '127.0.0.1'}:${port}`,
    requests: [],
    connections,
    connected: 0,
    stop: () =>
      new Promise((resolve) => {
        for (const socket of connections) {
          socket.destroy();
        }
        server.close(() => resolve());
      }),
  };
  return test;
}

/** Listens on a free port of loopback, or on the given one; returns the port. */
export async function listen(server: TcpServer, port = 0): Promise<number> {
  await new Promise<void>((resolve, reject) => {
    server.once('error', reject).listen(port, '127.0.0.1', () => {
      server.off('error', reject);
      resolve();
    });
  });
  return (server.address() as AddressInfo).port;
}

/** Below the ports that systems give to clients, so that no connection takes one; a range for each worker of each Jest. */
const FIRST_PORT = Number(process.env['FIRST_PORT'] ?? 15_000);
const PORTS_OF_WORKER = 1_000;

/** Those that were handed out, where nothing may listen yet. */
const handedOut = new Set<number>();

/** A free port of loopback, for addresses that must be known before a server listens. */
export async function freePort(): Promise<number> {
  const worker = Number(process.env['JEST_WORKER_ID'] ?? 0) % 15;
  const first = FIRST_PORT + worker * PORTS_OF_WORKER;
  for (;;) {
    const port = first + randomInt(PORTS_OF_WORKER);
    if (!handedOut.has(port) && (await isFree(port))) {
      handedOut.add(port);
      return port;
    }
  }
}

/** Whether a server could listen on this port of loopback. */
export async function isFree(port: number): Promise<boolean> {
  const server = createTcpServer();
  try {
    await listen(server, port);
  } catch {
    return false;
  }
  await new Promise((resolve) => server.close(resolve));
  return true;
}

/** Answers with JSON; returns nothing, so that it can be the result of a listener. */
export function sendJson(
  response: ServerResponse,
  body: unknown = [],
  status = 200,
  headers: Record<string, string> = {},
): undefined {
  response.writeHead(status, { 'content-type': 'application/json', ...headers }).end(JSON.stringify(body));
}
