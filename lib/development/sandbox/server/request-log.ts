import type { IncomingHttpHeaders, IncomingMessage, ServerResponse } from 'node:http';
import { parse, type ParsedUrlQuery } from 'node:querystring';
import { LRUCache } from 'lru-cache';
import { parseRoute, type SandboxOperation } from './operations.js';
import { tenantOfClient, type SandboxSeed } from '../seed/seed.js';

const MAX_REQUESTS = 10_000;
/** Of addresses, headers and forms, in characters. Parsed, they take some times as many bytes. */
const MAX_TEXT = 16 * 1024 * 1024;

/**
 * A request that the sandbox received. A record is updated until its request has ended: then it has a `status` or is `aborted`.
 *
 * @example
 * const lookups = sandbox.requests.filter(({ operation, tenantKey }) => operation === 'lookup' && tenantKey === 'acme');
 */
export interface SandboxRequest {
  /** Time of arrival in milliseconds since the epoch. */
  readonly at: number;
  readonly method: string;
  /** Raw path: not percent-decoded, without the query. */
  readonly path: string;
  readonly operation: SandboxOperation;
  /** Key of the tenant: of its client in the form, the Basic credentials or the authorization request, else of `X-Tenant-Id`. */
  readonly tenantKey?: string;
  readonly headers: IncomingHttpHeaders;
  readonly query: ParsedUrlQuery;
  /** Form fields of the body, secrets included. */
  readonly body: ParsedUrlQuery;
  /** Status code of the reply. `undefined` until the request has ended, and if no headers were sent. */
  readonly status?: number;
  /** Kind of the fault applied to this request. */
  readonly fault?: string;
  /** Whether the connection was closed before the whole reply was sent: by the client, or by a fault. */
  readonly aborted: boolean;
}

/** A record that can still be updated. */
type OpenRequest = { -readonly [Field in keyof SandboxRequest]: SandboxRequest[Field] };

export class RequestLog {
  /** Characters of their text by request. */
  readonly #requests = new LRUCache<SandboxRequest, number>({
    max: MAX_REQUESTS,
    maxSize: MAX_TEXT,
    sizeCalculation: (text) => text,
  });

  constructor(private readonly seed: SandboxSeed) {}

  get requests(): readonly SandboxRequest[] {
    return [...this.#requests.rkeys()];
  }

  clear(): void {
    this.#requests.clear();
  }

  /** Records a request, until its reply was sent or its connection is closed. */
  add(request: IncomingMessage, response: ServerResponse, bytes: Buffer): OpenRequest {
    const { method = '', url = '', headers } = request;
    const [path = '', search = ''] = url.split(/\?(.*)/s);
    const isForm = headers['content-type']?.startsWith('application/x-www-form-urlencoded') ?? false;
    const form = isForm ? bytes.toString() : '';
    const [query, body] = [{ ...parse(search) }, { ...parse(form) }];
    const record: OpenRequest = {
      at: Date.now(),
      method,
      path,
      operation: parseRoute(path).operation,
      tenantKey: this.#tenantOf(headers, body['client_id'] ?? clientOf(headers) ?? query['client_id']),
      headers,
      query,
      body,
      aborted: false,
    };
    this.#requests.set(record, [url, form, ...request.rawHeaders].join('').length);
    response.once('close', () => {
      record.status = response.headersSent ? response.statusCode : undefined;
      record.aborted = !response.writableFinished;
    });
    return record;
  }

  #tenantOf(headers: IncomingHttpHeaders, client: unknown): string | undefined {
    const named = this.seed.tenants.find(({ tenantId }) => tenantId === headers['x-tenant-id']);
    return (tenantOfClient(this.seed, client) ?? named)?.key;
  }
}

/** The client of Basic credentials, in which it is form-encoded (RFC 6749 §2.3.1): `parse` decodes `+` as well. */
function clientOf({ authorization = '' }: IncomingHttpHeaders): string | undefined {
  const credentials = /^Basic (.+)$/i.exec(authorization)?.[1] ?? '';
  const [clientId = ''] = Buffer.from(credentials, 'base64').toString().split(':');
  return Object.keys(parse(clientId))[0];
}
