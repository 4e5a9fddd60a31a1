import type { KeyObject } from 'node:crypto';
import type { ParsedUrlQuery } from 'node:querystring';
import { jwtVerify } from 'jose';
import { MAX_ITEMS_PER_PAGE, pageOf } from '../page-of.js';
import type { SandboxExhibitor } from './generate-exhibitors.js';
import { tenantOf, type SandboxSeed, type SeedEvent, type SeedTenant } from './seed.js';

// Service spec, "Limits".
const DEFAULT_PAGE = 1;

/** The current exhibitors of every tenant and event. */
export class ExhibitorRecords {
  readonly #byTenant: Map<string, Map<string, readonly SandboxExhibitor[]>>;
  readonly #events: Map<string, SeedEvent>;

  constructor(private readonly seed: SandboxSeed) {
    this.#byTenant = new Map(
      seed.tenants.map(({ key }) => [key, new Map(Object.entries(seed.exhibitors[key] ?? {}))]),
    );
    this.#events = new Map(seed.events.map((event) => [event.id, event]));
  }

  /** The events of all tenants: seeded events first, then those added by {@link replace}. */
  get events(): readonly SeedEvent[] {
    return [...this.#events.values()];
  }

  /** The exhibitors of an event. `undefined` if the tenant does not have the event. */
  find(tenantKey: string, eventId: string): readonly SandboxExhibitor[] | undefined {
    return this.#exhibitorsByEvent(tenantKey).get(eventId);
  }

  /** Replaces the exhibitors of an event for one tenant, or for all. Adds the event if it does not exist. */
  replace(eventId: string, records: readonly SandboxExhibitor[], tenantKey?: string): void {
    const tenants =
      tenantKey === undefined ? [...this.#byTenant.values()] : [this.#exhibitorsByEvent(tenantKey)];
    for (const exhibitorsByEvent of tenants) {
      exhibitorsByEvent.set(eventId, [...records]);
    }
    if (!this.#events.has(eventId)) {
      this.#events.set(eventId, { id: eventId, title: eventId });
    }
  }

  #exhibitorsByEvent(tenantKey: string): Map<string, readonly SandboxExhibitor[]> {
    const { key } = tenantOf(this.seed, tenantKey);
    return this.#byTenant.get(key) ?? new Map();
  }
}

/** A request to one of the two REST endpoints, percent-decoded. */
export interface RestRequest {
  readonly method: string;
  readonly eventId: string;
  /** Of a lookup only. */
  readonly contactEmail?: string;
  readonly query: ParsedUrlQuery;
}

/** A reply of the REST API. The body is sent as JSON. */
export interface RestReply {
  readonly status: number;
  readonly headers?: Readonly<Record<string, string>>;
  readonly body: unknown;
}

/**
 * Creates the reply to a REST request by the rules of the service spec. Where the spec is silent, the sandbox limits
 * `ItemsPerPage` to 50, returns an empty page with correct metadata beyond the last page, and returns an empty array
 * for a lookup without results.
 */
export function createRestReply(
  request: RestRequest,
  access: ApiAccess,
  records: ExhibitorRecords,
): RestReply {
  if ('status' in access) {
    const { status, error, message } = access;
    return status === 401
      ? errorReply(status, error, message, { 'www-authenticate': `Bearer error="${error}"` })
      : errorReply(status, error, message);
  }
  if (request.method !== 'GET') {
    return errorReply(405, 'method_not_allowed', 'Only GET is allowed', { allow: 'GET' });
  }
  const exhibitors = records.find(access.tenant.key, request.eventId);
  if (!exhibitors) {
    return errorReply(404, 'event_not_found', 'The tenant has no such event');
  }
  const { contactEmail } = request;
  if (contactEmail !== undefined) {
    return { status: 200, body: exhibitors.filter((record) => record.contactEmails.includes(contactEmail)) };
  }
  const page = parsePositiveInteger(request.query['Page'], DEFAULT_PAGE);
  const itemsPerPage = parsePositiveInteger(request.query['ItemsPerPage'], MAX_ITEMS_PER_PAGE);
  if (page === undefined || itemsPerPage === undefined) {
    return errorReply(400, 'invalid_paging', 'Page and ItemsPerPage must be integers from 1');
  }
  return { status: 200, body: pageOf(exhibitors, page, Math.min(itemsPerPage, MAX_ITEMS_PER_PAGE)) };
}

/** `undefined` if the parameter is repeated or not an integer from 1 to 999,999,999. */
function parsePositiveInteger(
  value: string | readonly string[] | undefined,
  defaultValue: number,
): number | undefined {
  if (value === undefined) {
    return defaultValue;
  }
  return typeof value === 'string' && /^[1-9]\d{0,8}$/.test(value) ? Number(value) : undefined;
}

function errorReply(
  status: number,
  error: string,
  message: string,
  headers?: Record<string, string>,
): RestReply {
  return { status, headers, body: { error, message } };
}

/** The scope of the REST API (service spec, endpoint 1). */
export const API_SCOPE = 'idp_api';

/** Audience of access tokens for the REST API. */
export function apiAudience(issuer: string): string {
  return `${issuer}/api/v1`;
}

/** The result of the access check: the tenant of the access token, or the error reply. */
export type ApiAccess =
  | { readonly tenant: SeedTenant }
  | { readonly status: 401 | 403; readonly error: string; readonly message: string };

const INVALID_TOKEN = deny(
  401,
  'invalid_token',
  'A valid access token of the client credentials grant is required',
);

/** Checks the access token and the `X-Tenant-Id` header of REST requests. */
export class ApiAccessCheck {
  /** Access tokens carry ascending serial numbers, so that one number per client records all revoked tokens. */
  #lastSerial = 0;
  readonly #lastRevokedSerial = new Map<string, number>();
  readonly #tenants: ReadonlyMap<string, SeedTenant>;

  constructor(
    private readonly issuer: string,
    private readonly publicKey: KeyObject,
    tenants: readonly SeedTenant[],
  ) {
    this.#tenants = new Map(tenants.map((tenant) => [tenant.clientId, tenant]));
  }

  /** Claims that the next access token must carry for this check. */
  nextTokenClaims(): { readonly serial: number } {
    this.#lastSerial += 1;
    return { serial: this.#lastSerial };
  }

  /** Revokes the access tokens issued so far to one tenant, or to all. */
  revoke(tenantKey?: string): void {
    for (const { key, clientId } of this.#tenants.values()) {
      if (tenantKey === undefined || tenantKey === key) {
        this.#lastRevokedSerial.set(clientId, this.#lastSerial);
      }
    }
  }

  /** Checks the raw values of the headers `Authorization` and `X-Tenant-Id`. */
  async check(authorization: string | undefined, tenantId: string | undefined): Promise<ApiAccess> {
    const token = /^Bearer ([\w.~+/=-]+)$/i.exec(authorization ?? '')?.[1];
    const tenant = token === undefined ? undefined : await this.#tenantOf(token);
    if (!tenant) {
      return INVALID_TOKEN;
    }
    if (tenantId !== tenant.tenantId) {
      return deny(
        403,
        'tenant_mismatch',
        'X-Tenant-Id is not the tenant that the access token was issued to',
      );
    }
    return { tenant };
  }

  async #tenantOf(token: string): Promise<SeedTenant | undefined> {
    try {
      const { payload } = await jwtVerify(token, this.publicKey, {
        algorithms: ['RS256'],
        audience: apiAudience(this.issuer),
        issuer: this.issuer,
        requiredClaims: ['exp', 'client_id', 'scope', 'serial'],
        typ: 'at+jwt',
      });
      const clientId = String(payload['client_id']);
      const revoked = Number(payload['serial']) <= (this.#lastRevokedSerial.get(clientId) ?? 0);
      const inScope = String(payload['scope']).split(' ').includes(API_SCOPE);
      return inScope && !revoked ? this.#tenants.get(clientId) : undefined;
    } catch {
      return undefined;
    }
  }
}

function deny(status: 401 | 403, error: string, message: string): ApiAccess {
  return { status, error, message };
}
