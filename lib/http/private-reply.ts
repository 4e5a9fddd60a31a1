import { isRecord } from '../model/json-values.js';

/** What is needed of Node's response, of HTTP/1 or HTTP/2. */
interface NodeResponse {
  readonly headersSent: boolean;
  getHeader(name: string): unknown;
  setHeader(name: string, value: string): unknown;
  appendHeader(name: string, value: unknown): unknown;
  removeHeader(name: string): void;
  writeHead(status: number, ...rest: unknown[]): unknown;
}

/** Node's response behind a response of Express or a reply of Fastify. */
export function nodeResponseOf(response: unknown): NodeResponse | undefined {
  const candidate = isRecord(response) ? (response['raw'] ?? response) : undefined;
  return isNodeResponse(candidate) ? candidate : undefined;
}

function isNodeResponse(value: unknown): value is NodeResponse {
  return isRecord(value) && typeof value['writeHead'] === 'function';
}

const privateReplies = new WeakSet<object>();

/**
 * Gives the reply `Vary: Cookie` and, unless it is `private` or `no-store`, `Cache-Control: private, no-store`: a shared cache
 * would hand its cookies to other users (RFC 9111 §7.3). That happens when the headers are sent, so it counts whatever the
 * handler sets. Express and Fastify call `writeHead` then, as Node itself does.
 */
export function keepPrivate(reply: unknown): void {
  const response = nodeResponseOf(reply);
  if (response === undefined || privateReplies.has(response)) {
    return;
  }
  privateReplies.add(response);
  const { writeHead } = response;
  response.writeHead = (status, ...rest) => {
    if (typeof rest.at(-1) === 'object') {
      setHeaders(response, rest.pop());
    }
    const cacheControl = listIn(response.getHeader('Cache-Control'));
    const isPrivate = cacheControl.includes('private') || cacheControl.includes('no-store');
    if (!isPrivate || cacheControl.includes('public')) {
      response.setHeader('Cache-Control', 'private, no-store');
    }
    const vary = response.getHeader('Vary') ?? [];
    if (!listIn(vary).some((name) => name === 'cookie' || name === '*')) {
      response.setHeader('Vary', [vary, 'Cookie'].flat().join(', '));
    }
    return writeHead.call(response, status, ...rest);
  };
}

/** Sets the headers of a call of `writeHead`: an object, or a list of names and values in turns. */
function setHeaders(response: NodeResponse, given: unknown): void {
  const fields = Array.isArray(given)
    ? given.flatMap((name, at): [string, unknown][] => (at % 2 === 0 ? [[String(name), given[at + 1]]] : []))
    : Object.entries(Object(given));
  fields.forEach(([name]) => response.removeHeader(name));
  fields.forEach(([name, value]) => response.appendHeader(name, value));
}

/** The members of a header that is a list, in lower case. */
function listIn(header: unknown): string[] {
  const members = [header ?? ''].flat().join(',').toLowerCase().split(',');
  return members.map((member) => member.trim()).filter(Boolean);
}
