import type { IncomingHttpHeaders, IncomingMessage, ServerResponse } from 'node:http';
import type { Socket } from 'node:net';
import { parse, type ParsedUrlQuery } from 'node:querystring';
import { decodeJwt, type JWTPayload } from 'jose';
import type { Fault } from '../faults/fault-kinds.js';
import { parseRoute, type SandboxOperation } from './operations.js';
import { tenantOfClient, type SandboxSeed } from '../seed/seed.js';

const MAX_REQUESTS = 10_000;
/** Of addresses, headers and forms, in characters. Parsed, they take some times as many bytes. */
const MAX_TEXT = 16 * 1024 * 1024;

/**
 * A request that the sandbox received. A record is updated until its request has ended (`done`).
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
  /** Event id of `list` and `lookup`, percent-decoded. */
  readonly eventId?: string;
  /** Contact e-mail of `lookup`, percent-decoded. */
  readonly contactEmail?: string;
  readonly headers: IncomingHttpHeaders;
  readonly query: ParsedUrlQuery;
  /** Form fields of the body, secrets included. Empty until the whole body has arrived. */
  readonly body: ParsedUrlQuery;
  /** `grant_type` of a token request. */
  readonly grantType?: string;
  /** Client id from the form, the Basic credentials, the authorization request or the access token. */
  readonly clientId?: string;
  /** Key of the tenant that `clientId` belongs to. */
  readonly tenantKey?: string;
  /** Raw value of `X-Tenant-Id`. */
  readonly tenantId?: string;
  /** Key of the tenant that `X-Tenant-Id` names. It differs from `tenantKey` if a client mixes up its tenants. */
  readonly headerTenantKey?: string;
  /** Claims of the bearer token if it is a JWT. They are decoded but not verified. */
  readonly tokenClaims?: JWTPayload;
  /** Number of the TCP connection in the order of their first requests, from 1. Requests with equal numbers used the same connection. */
  readonly connection: number;
  /** Status code of the reply. `undefined` until the request has ended, and if no headers were sent. */
  readonly status?: number;
  /** The fault applied to this request. */
  readonly fault?: Fault;
  /** Whether the client closed the connection before the whole reply was sent. */
  readonly aborted: boolean;
  /** Whether the request has ended: the reply was sent, or the connection was closed. */
  readonly done: boolean;
}

/** A record that can still be updated. */
export type OpenRequest = { -readonly [Field in keyof SandboxRequest]: SandboxRequest[Field] };

export class RequestLog {
  #requests: { readonly record: SandboxRequest; text: number }[] = [];
  #text = 0;
  #open = 0;
  #connections = 0;
  readonly #connectionNumbers = new WeakMap<Socket, number>();

  constructor(private readonly seed: SandboxSeed) {}

  get requests(): readonly SandboxRequest[] {
    return this.#requests.map(({ record }) => record);
  }

  get open(): number {
    return this.#open;
  }

  clear(): void {
    this.#requests = [];
    this.#text = 0;
  }

  /** Records a request when its headers have arrived, until its reply was sent or its connection is closed. */
  begin(request: IncomingMessage, response: ServerResponse): OpenRequest {
    const [path = '', search = ''] = (request.url ?? '').split(/\?(.*)/s);
    const tenantId = stringOrUndefined(request.headers['x-tenant-id']);
    const record: OpenRequest = {
      at: Date.now(),
      method: request.method ?? '',
      path,
      ...parseRoute(path),
      headers: request.headers,
      query: { ...parse(search) },
      body: {},
      tenantId,
      headerTenantKey: this.seed.tenants.find((tenant) => tenant.tenantId === tenantId)?.key,
      tokenClaims: bearerClaims(request.headers.authorization),
      connection: this.#connectionNumber(request.socket),
      aborted: false,
      done: false,
    };
    this.#setClient(record);
    this.#requests.push({ record, text: 0 });
    this.#addText(record, [request.url ?? '', ...request.rawHeaders].join('').length);
    this.#open += 1;
    response.once('close', () => {
      this.#open -= 1;
      record.done = true;
      record.status = response.headersSent ? response.statusCode : undefined;
      record.aborted = !response.writableFinished && !closesConnection(record);
    });
    return record;
  }

  recordForm(record: OpenRequest, text: string): void {
    const form = { ...parse(text) };
    record.body = form;
    this.#addText(record, text.length);
    record.grantType = stringOrUndefined(form['grant_type']);
    this.#setClient(record);
  }

  /** The oldest requests make room. */
  #addText(of: OpenRequest, length: number): void {
    const entry = this.#requests.findLast(({ record }) => record === of);
    if (entry !== undefined) {
      entry.text += length;
      this.#text += length;
    }
    while (this.#requests.length > MAX_REQUESTS || this.#text > MAX_TEXT) {
      this.#text -= this.#requests.shift()?.text ?? 0;
    }
  }

  #connectionNumber(socket: Socket): number {
    const number = this.#connectionNumbers.get(socket) ?? (this.#connections += 1);
    this.#connectionNumbers.set(socket, number);
    return number;
  }

  #setClient(record: OpenRequest): void {
    const { body, headers, tokenClaims, query } = record;
    const ids = [body['client_id'], basicClientId(headers.authorization), tokenClaims?.['client_id']];
    record.clientId = [...ids, query['client_id']].find((id) => typeof id === 'string');
    record.tenantKey = tenantOfClient(this.seed, record.clientId)?.key;
  }
}

/** Whether the sandbox itself closes the connection before the reply is complete. */
function closesConnection({ fault }: OpenRequest): boolean {
  return fault?.kind === 'reset' || fault?.kind === 'truncate';
}

function bearerClaims(authorization: string | undefined): JWTPayload | undefined {
  const token = /^Bearer (.+)$/i.exec(authorization ?? '')?.[1];
  try {
    return token === undefined ? undefined : decodeJwt(token);
  } catch {
    return undefined;
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

function stringOrUndefined(value: unknown): string | undefined {
  return typeof value === 'string' ? value : undefined;
}
