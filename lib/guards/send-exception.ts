import type { ArgumentsHost } from '@nestjs/common';
import type { ErrorBody } from './to-http-exception.js';

/** A client of Socket.IO, or a native WebSocket as of `ws`. */
interface SocketClient {
  readyState?: unknown;
  send?: (message: string) => void;
  emit?: (event: string, data: object) => void;
}

/** Sends an `exception` event to the client of a WebSocket context, in the form of Nest's own exception filter. */
export function sendException(host: ArgumentsHost, body: ErrorBody): void {
  const client = host.switchToWs().getClient<SocketClient>();
  const data = { status: 'error', ...body };
  // The `emit` of a native WebSocket calls local listeners only.
  if (typeof client.readyState === 'number') {
    client.send?.(JSON.stringify({ event: 'exception', data }));
    return;
  }
  client.emit?.('exception', data);
}
