import type { IncomingHttpHeaders, IncomingMessage } from 'node:http';
import { parse, type ParsedUrlQuery } from 'node:querystring';
import { decodeJwt, type JWTPayload } from 'jose';
import type { Fault } from './faults.js';
import { routeOf, type Route, type SandboxOperation } from './operation.js';
import type { SeedTenant } from './seed.js';

const KEPT = 10_000;

/** A request that arrived, as the sandbox saw it. */
export interface SandboxRequest {
  /** When it arrived, in ms since the epoch. */
  readonly at: number;
  readonly method: string;
  /** As sent: not decoded, without the query. */
  readonly path: string;
  readonly operation: SandboxOperation;
  /** Decoded, on `list` and `lookup`. */
  readonly eventId?: string;
  /** Decoded, on `lookup`. */
  readonly contactEmail?: string;
  readonly headers: IncomingHttpHeaders;
  readonly query: ParsedUrlQuery;
  /** Fields of a posted form, secrets included; empty until the whole request has arrived. */
  readonly body: ParsedUrlQuery;
  readonly grantType?: string;
  /** The client that asks: from the form, the Basic header, the authorize query, or the API access token. */
  readonly clientId?: string;
  /** Key of the tenant that `clientId` belongs to. */
  readonly tenantKey?: string;
  /** `X-Tenant-Id` as sent. */
  readonly tenantId?: string;
  /** Key of the tenant that `X-Tenant-Id` names. Differs from `tenantKey` when a client mixes up its tenants. */
  readonly headerTenantKey?: string;
  /** Claims of the bearer token where it is a JWT; decoded, not verified. */
  readonly tokenClaims?: JWTPayload;
  /** Number of the TCP connection, from 1: equal numbers share one. */
  readonly connection: number;
  /** The status sent; `undefined` while, or if, none was. */
  readonly status?: number;
  /** The fault that met this request. */
  readonly fault?: Fault;
  /** The client left before the whole reply was sent. */
  readonly aborted: boolean;
  /** The exchange is over, in whatever way. */
  readonly done: boolean;
}

/** A record while its request is under way. */
export type OpenRequest = { -readonly [Field in keyof SandboxRequest]: SandboxRequest[Field] } & Route;

/** The last 10,000 requests. */
export class RequestLog {
  #requests: OpenRequest[] = [];
  #open = 0;
  readonly #byClient: ReadonlyMap<string, string>;
  readonly #byTenantId: ReadonlyMap<string, string>;

  constructor(tenants: readonly SeedTenant[]) {
    this.#byClient = new Map(
      tenants.flatMap(({ key, clientId, loginClientId, publicLoginClientId }) =>
        [clientId, loginClientId, publicLoginClientId].map((id): [string, string] => [id, key]),
      ),
    );
    this.#byTenantId = new Map(tenants.map(({ tenantId, key }) => [tenantId, key]));
  }

  get requests(): readonly SandboxRequest[] {
    return this.#requests.slice(-KEPT);
  }

  get open(): number {
    return this.#open;
  }

  clear(): void {
    this.#requests = [];
  }

  /** Notes a request whose headers have arrived. */
  begin(request: IncomingMessage, connection: number): OpenRequest {
    const [path = '', search = ''] = (request.url ?? '').split(/\?(.*)/s);
    const query = { ...parse(search) };
    const tenantId = single(request.headers['x-tenant-id']);
    const tokenClaims = bearerClaims(request.headers.authorization);
    const record: OpenRequest = {
      at: Date.now(),
      method: request.method ?? '',
      path,
      ...routeOf(path),
      headers: request.headers,
      query,
      body: {},
      tenantId,
      headerTenantKey: this.#byTenantId.get(tenantId ?? ''),
      tokenClaims,
      connection,
      aborted: false,
      done: false,
    };
    this.#nameClient(record, single(tokenClaims?.['client_id']) ?? single(query['client_id']));
    this.#requests.push(record);
    // Cut in batches: dropping one a request would copy the whole list each time.
    if (this.#requests.length >= 2 * KEPT) {
      this.#requests = this.#requests.slice(-KEPT);
    }
    this.#open += 1;
    return record;
  }

  /** Notes the form that a request posted. */
  complete(record: OpenRequest, form: ParsedUrlQuery): void {
    record.body = form;
    record.grantType = single(form['grant_type']);
    this.#nameClient(
      record,
      single(form['client_id']) ?? basicUser(record.headers.authorization) ?? record.clientId,
    );
  }

  /** Notes the end of an exchange. */
  end(record: OpenRequest): void {
    record.done = true;
    this.#open -= 1;
  }

  #nameClient(record: OpenRequest, clientId: string | undefined): void {
    record.clientId = clientId;
    record.tenantKey = this.#byClient.get(clientId ?? '');
  }
}

function bearerClaims(authorization: string | undefined): JWTPayload | undefined {
  const token = /^Bearer (.+)$/i.exec(authorization ?? '')?.[1];
  try {
    return token === undefined ? undefined : decodeJwt(token);
  } catch {
    return undefined;
  }
}

// RFC 6749 §2.3.1: both halves are form-encoded before they are joined.
function basicUser(authorization: string | undefined): string | undefined {
  const credentials = /^Basic (.+)$/i.exec(authorization ?? '')?.[1];
  if (credentials === undefined) {
    return undefined;
  }
  const [user = ''] = Buffer.from(credentials, 'base64').toString().split(':');
  return Object.keys(parse(user))[0];
}

function single(value: unknown): string | undefined {
  return typeof value === 'string' ? value : undefined;
}
