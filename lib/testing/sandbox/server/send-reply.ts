import type { ServerResponse } from 'node:http';

export const JSON_CONTENT_TYPE = 'application/json; charset=utf-8';

/** Sends a reply with a known length, as JSON where the headers name no other type. */
export function sendReply(
  response: ServerResponse,
  status: number,
  headers: Readonly<Record<string, string>>,
  body: string | Uint8Array,
): void {
  response.statusCode = status;
  for (const [name, value] of Object.entries({ 'content-type': JSON_CONTENT_TYPE, ...headers })) {
    response.setHeader(name, value);
  }
  response.setHeader('content-length', Buffer.byteLength(body));
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

/** Refuses a body that is not read to its end, so the connection is of no further use. */
export function sendTooLarge(response: ServerResponse): void {
  const message = 'The sandbox takes bodies of 1 MiB at most';
  sendJson(response, 413, { error: 'too_large', message }, { connection: 'close' });
}

/** Resolves after `ms`, or as soon as the connection closes. */
export function pause(ms: number, response: ServerResponse): Promise<void> {
  return new Promise((resolve) => {
    const finish = () => {
      clearTimeout(timer);
      response.off('close', finish);
      resolve();
    };
    const timer = setTimeout(finish, ms);
    response.once('close', finish);
  });
}
