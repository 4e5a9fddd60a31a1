import type { ServerResponse } from 'node:http';
import onHeaders from 'on-headers';
import { isRecord } from '../model/json-values.js';

/** Node's response behind a response of Express or a reply of Fastify. That of HTTP/2 has the same methods. */
export function nodeResponseOf(response: unknown): ServerResponse | undefined {
  return [isRecord(response) ? response['raw'] : undefined, response].find(isNodeResponse);
}

function isNodeResponse(value: unknown): value is ServerResponse {
  return isRecord(value) && typeof value['writeHead'] === 'function';
}

/** Ends of the names of headers that caches obey in place of `Cache-Control` (RFC 9213 §2.2). */
const TARGETED = ['-cache-control', 'surrogate-control', 'x-accel-expires'];

/** Replies that are kept private already: each may get several cookies. */
const isKept = new WeakSet<ServerResponse>();

/** Keeps a reply out of every cache when its head is written, so that it counts whatever the handler and a CDN's headers say. */
export function keepPrivate(reply: unknown): void {
  const response = nodeResponseOf(reply);
  if (response !== undefined && !isKept.has(response)) {
    isKept.add(response);
    onHeaders(response, () => makePrivate(response));
  }
}

/** Adds a cookie to a reply when its head is written, if it is wanted then. The reply is kept private with it. */
export function addCookieWithHead(
  reply: unknown,
  cookie: string,
  isWanted: (others: readonly string[]) => boolean,
): void {
  const response = nodeResponseOf(reply);
  if (response === undefined) {
    return;
  }
  onHeaders(response, () => {
    const others = [response.getHeader('Set-Cookie') ?? []].flat().map(String);
    if (isWanted(others)) {
      response.setHeader('Set-Cookie', [...others, cookie]);
      makePrivate(response);
    }
  });
}

/** A shared cache would hand the cookies of the reply to other users (RFC 9111 §7.3). */
function makePrivate(response: ServerResponse): void {
  if (response.getHeader('Cache-Control') !== 'no-store') {
    response.setHeader('Cache-Control', 'private, no-store');
  }
  response
    .getHeaderNames()
    .filter((name) => TARGETED.some((end) => name.endsWith(end)))
    .forEach((name) => response.removeHeader(name));
  const varied = [response.getHeader('Vary') ?? []].flat().join(', ');
  const names = varied
    .toLowerCase()
    .split(',')
    .map((name) => name.trim());
  if (!names.includes('cookie') && !names.includes('*')) {
    response.setHeader('Vary', varied === '' ? 'Cookie' : `${varied}, Cookie`);
  }
}
