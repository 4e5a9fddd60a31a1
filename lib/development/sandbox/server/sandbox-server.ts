import { once } from 'node:events';
import { createServer, type Server, type ServerResponse } from 'node:http';

const HOST = '127.0.0.1';
export const JSON_CONTENT_TYPE = 'application/json; charset=utf-8';

/** @throws Error with `NODE_ENV=production`: by what has this name, anybody is anybody. */
export function refuseProduction(name: string): void {
  if (process.env['NODE_ENV'] === 'production') {
    throw new Error(`${name} is for development and tests only: it does not start with NODE_ENV=production`);
  }
}

/** Listens on 127.0.0.1, but not in production. Port 0 selects a free port. */
export async function startServer(port: number): Promise<Server> {
  refuseProduction('ExhibitorSandbox');
  const server = createServer();
  try {
    await once(server.listen(port, HOST), 'listening');
    return server;
  } catch (cause) {
    const advice = 'Choose another by port (--port), or 0 for any free one';
    throw new Error(`ExhibitorSandbox: port ${port} is not available: ${cause}. ${advice}`, { cause });
  }
}

export function urlOf(server: Server): string {
  const address = server.address();
  return `http://${HOST}:${typeof address === 'object' ? address?.port : address}`;
}

/** Stops listening and destroys every connection, including those with a request under way. */
export function stopServer(server: Server): Promise<void> {
  return new Promise((resolve) => {
    server.close(() => resolve());
    server.closeAllConnections();
  });
}

/** Sends a reply in one piece, as JSON where the headers name no other type. */
export function sendReply(
  response: ServerResponse,
  status: number,
  headers: Readonly<Record<string, string>>,
  body: string,
): void {
  response.statusCode = status;
  response.setHeaders(new Map(Object.entries({ 'content-type': JSON_CONTENT_TYPE, ...headers })));
  response.end(body);
}

export function sendJson(
  response: ServerResponse,
  status: number,
  body: unknown,
  headers: Readonly<Record<string, string>> = {},
): void {
  sendReply(response, status, headers, JSON.stringify(body));
}
