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
  /** Form fields of the body, secrets included. Empty until the whole body has arrived. */
  readonly body: ParsedUrlQuery;
  /** Status code of the reply. `undefined` until the request has ended, and if no headers were sent. */
  readonly status?: number;
  /** Kind of the fault applied to this request. */
  readonly fault?: string;
  /** Whether the connection was closed before the whole reply was sent: by the client, or by a fault. */
  readonly aborted: boolean;
}

/** A record that can still be updated. */
export type OpenRequest = { -readonly [Field in keyof SandboxRequest]: SandboxRequest[Field] };

export class RequestLog {
  /** Characters of their text by request. */
  readonly #requests = new LRUCache<SandboxRequest, number>({
    max: MAX_REQUESTS,
    maxSize: MAX_TEXT,
    sizeCalculation: (text) => text,
  });
  #open = 0;

  constructor(private readonly seed: SandboxSeed) {}

  get requests(): readonly SandboxRequest[] {
    return [...this.#requests.rkeys()];
  }

  get open(): number {
    return this.#open;
  }

  clear(): void {
    this.#requests.clear();
  }

  /** Records a request when its headers have arrived, until its reply was sent or its connection is closed. */
  begin(request: IncomingMessage, response: ServerResponse): OpenRequest {
    const [path = '', search = ''] = (request.url ?? '').split(/\?(.*)/s);
    const record: OpenRequest = {
      at: Date.now(),
      method: request.method ?? '',
      path,
      operation: parseRoute(path).operation,
      headers: request.headers,
      query: { ...parse(search) },
      body: {},
      aborted: false,
    };
    this.#setClient(record);
    this.#requests.set(record, [request.method, request.url, ...request.rawHeaders].join('').length);
    this.#open += 1;
    response.once('close', () => {
      this.#open -= 1;
      record.status = response.headersSent ? response.statusCode : undefined;
      record.aborted = !response.writableFinished;
    });
    return record;
  }

  recordForm(record: OpenRequest, text: string): void {
    const form = { ...parse(text) };
    record.body = form;
    const known = this.#requests.get(record);
    if (known !== undefined) {
      this.#requests.set(record, known + text.length);
    }
    this.#setClient(record);
  }

  #setClient(record: OpenRequest): void {
    const { body, headers, query } = record;
    const ids = [body['client_id'], basicClientId(headers.authorization), query['client_id']];
    const client = ids.find((id) => typeof id === 'string');
    const named = this.seed.tenants.find(({ tenantId }) => tenantId === headers['x-tenant-id']);
    record.tenantKey = (tenantOfClient(this.seed, client) ?? named)?.key;
  }
}

// RFC 6749 §2.3.1: client id and secret are form-encoded before they are joined with a colon.
function basicClientId(authorization: string | undefined): string | undefined {
  const credentials = /^Basic (.+)$/i.exec(authorization ?? '')?.[1];
  if (credentials === undefined) {
    return undefined;
  }
  const [clientId = ''] = Buffer.from(credentials, 'base64').toString().split(':');
  // `parse` decodes `+` as well as percent-encoding.
  return Object.keys(parse(clientId))[0];
}
