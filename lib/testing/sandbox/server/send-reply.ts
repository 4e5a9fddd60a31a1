import type { ServerResponse } from 'node:http';

export const JSON_CONTENT_TYPE = 'application/json; charset=utf-8';

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
