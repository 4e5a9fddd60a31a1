import type { ServerResponse } from 'node:http';
import { isRecord } from '../model/json-values.js';

/** Node's response behind a response of Express or a reply of Fastify. That of HTTP/2 has the same methods. */
export function nodeResponseOf(response: unknown): ServerResponse | undefined {
  return [isRecord(response) ? response['raw'] : undefined, response].find(isNodeResponse);
}

function isNodeResponse(value: unknown): value is ServerResponse {
  return isRecord(value) && typeof value['writeHead'] === 'function';
}

/** Ends of the names of headers that caches obey in place of `Cache-Control` (RFC 9213 §2.2). */
const TARGETED = ['cdn-cache-control', 'surrogate-control', 'x-accel-expires'];

/** Replies that are kept private already: each may get several cookies. */
const isKept = new WeakSet<ServerResponse>();

/**
 * Gives the reply `Vary: Cookie` and, unless it is `private` or `no-store`, `Cache-Control: private, no-store`: a shared cache
 * would hand its cookies to other users (RFC 9111 §7.3). Headers for certain caches are removed. That happens when the headers
 * are sent, so it counts whatever the handler sets. Express and Fastify call `writeHead` then, as Node itself does.
 */
export function keepPrivate(reply: unknown): void {
  const response = nodeResponseOf(reply);
  if (response === undefined || isKept.has(response)) {
    return;
  }
  isKept.add(response);
  const { writeHead } = response;
  response.writeHead = (status: number, ...rest: unknown[]) => {
    setHeaders(response, typeof rest.at(-1) === 'object' ? rest.pop() : {});
    const cacheControl = listIn(response.getHeader('Cache-Control'));
    const isPrivate = cacheControl.includes('private') || cacheControl.includes('no-store');
    if (!isPrivate || cacheControl.includes('public')) {
      response.setHeader('Cache-Control', 'private, no-store');
    }
    const targeted = response.getHeaderNames().filter((name) => TARGETED.some((end) => name.endsWith(end)));
    targeted.forEach((name) => response.removeHeader(name));
    const vary = response.getHeader('Vary') ?? [];
    if (!listIn(vary).some((name) => name === 'cookie' || name === '*')) {
      response.setHeader('Vary', [vary, 'Cookie'].flat().join(', '));
    }
    return Reflect.apply(writeHead, response, [status, ...rest]);
  };
}

/** Sets the headers of a call of `writeHead`: an object, or a list in which each name is followed by its value. */
function setHeaders(response: ServerResponse, given: unknown): void {
  const fields = Array.isArray(given)
    ? given.flatMap((name, at) => (at % 2 === 0 ? [[name, given[at + 1]] as const] : []))
    : Object.entries(Object(given));
  fields.forEach(([name]) => response.removeHeader(name));
  fields.forEach(([name, value]) => response.appendHeader(name, value));
}

/** The members of a header that is a list, in lower case. */
function listIn(header: number | string | readonly string[] = ''): string[] {
  const members = String(header).toLowerCase().split(',');
  return members.map((member) => member.trim());
}
