import type { KeyObject } from 'node:crypto';
import type { ServerResponse } from 'node:http';
import { setTimeout as pause } from 'node:timers/promises';
import { jwtVerify, type JWTPayload } from 'jose';
import type { SandboxExhibitor } from './seed/generate-exhibitors.js';
import { tenantOf, tenantOfClient, tenantsOf } from './seed/seed.js';
import type { SandboxSeed, SeedTenant } from './seed/seed.js';
import { parseRoute } from './server/operations.js';
import type { SandboxRequest } from './server/request-log.js';
import { sendJson } from './server/sandbox-server.js';

/** The scope of the REST API (service spec, endpoint 1). */
export const API_SCOPE = 'idp_api';

export function apiAudience(issuer: string): string {
  return `${issuer}/api/v1`;
}

/** Largest page of the service (service specification, Limits). */
const MAX_ITEMS_PER_PAGE = 50;

/** The REST API of a sandbox: the exhibitors of each tenant, and which access tokens are valid. */
export class RestApi {
  readonly #byTenant: ReadonlyMap<string, Map<string, readonly SandboxExhibitor[]>>;
  /** Of access tokens, by client. Each token carries the number of those before it. */
  readonly #revocations = new Map<string, number>();

  constructor(
    private readonly issuer: string,
    private readonly publicKey: KeyObject,
    private readonly seed: SandboxSeed,
  ) {
    this.#byTenant = new Map(
      seed.tenants.map(({ key }) => [key, new Map(Object.entries(seed.exhibitors[key] ?? {}))]),
    );
  }

  /** The exhibitors of an event. `undefined` if the tenant does not have the event. */
  find(tenantKey: string, eventId: string): readonly SandboxExhibitor[] | undefined {
    return this.#byTenant.get(tenantOf(this.seed, tenantKey).key)?.get(eventId);
  }

  /** Replaces the exhibitors of an event for one tenant, or for all. Adds the event if it does not exist. */
  replace(eventId: string, records: readonly SandboxExhibitor[], tenantKey?: string): void {
    for (const { key } of tenantsOf(this.seed, tenantKey)) {
      this.#byTenant.get(key)?.set(eventId, [...records]);
    }
  }

  /** Claims that the next access token of a client must carry. */
  claimsOf(clientId = ''): { readonly revocations: number } {
    return { revocations: this.#revocations.get(clientId) ?? 0 };
  }

  revokeTokens(tenantKey?: string): void {
    for (const { clientId } of tenantsOf(this.seed, tenantKey)) {
      this.#revocations.set(clientId, this.claimsOf(clientId).revocations + 1);
    }
  }

  /**
   * Replies to a list or a lookup by the rules of the service spec. Where the spec is silent, the sandbox limits `ItemsPerPage`
   * to 50, returns an empty page with correct metadata beyond the last page, and returns an empty array for a lookup without
   * results.
   */
  async reply({ path, query, headers }: SandboxRequest, response: ServerResponse, latency: number) {
    const refuse = (status: number, error: string, message: string, more?: Record<string, string>): void =>
      sendJson(response, status, { error, message }, more);

    await pause(latency, undefined, { ref: false });
    const { eventId = '', contactEmail } = parseRoute(path);
    const tenant = await this.#tenantOf(headers.authorization);
    if (!tenant) {
      const challenge = { 'www-authenticate': 'Bearer error="invalid_token"' };
      const message = 'A valid access token of the client credentials grant is required';
      return refuse(401, 'invalid_token', message, challenge);
    }
    if (headers['x-tenant-id'] !== tenant.tenantId) {
      const message = 'X-Tenant-Id is not the tenant that the access token was issued to';
      return refuse(403, 'tenant_mismatch', message);
    }
    const exhibitors = this.find(tenant.key, eventId);
    if (!exhibitors) {
      return refuse(404, 'event_not_found', 'The tenant has no such event');
    }
    if (contactEmail !== undefined) {
      const found = exhibitors.filter((record) => record.contactEmails.includes(contactEmail));
      return sendJson(response, 200, found);
    }
    const { Page: page = '1', ItemsPerPage: itemsPerPage = String(MAX_ITEMS_PER_PAGE) } = query;
    if (![page, itemsPerPage].every((value) => /^[1-9]\d{0,8}$/.test(String(value)))) {
      return refuse(400, 'invalid_paging', 'Page and ItemsPerPage must be integers from 1');
    }
    const size = Math.min(Number(itemsPerPage), MAX_ITEMS_PER_PAGE);
    sendJson(response, 200, pageOf(exhibitors, Number(page), size));
  }

  /** The tenant whose valid access token the header `Authorization` has. */
  async #tenantOf(authorization: string | undefined): Promise<SeedTenant | undefined> {
    const token = /^Bearer ([\w.~+/=-]+)$/i.exec(authorization ?? '')?.[1] ?? '';
    const verified = await jwtVerify(token, this.publicKey, {
      algorithms: ['RS256'],
      audience: apiAudience(this.issuer),
      issuer: this.issuer,
      requiredClaims: ['exp', 'client_id', 'scope', 'revocations'],
      typ: 'at+jwt',
    }).catch(() => undefined);
    const { client_id: clientId, scope, revocations }: JWTPayload = verified?.payload ?? {};
    const isRevoked = revocations !== this.claimsOf(String(clientId)).revocations;
    const inScope = String(scope).split(' ').includes(API_SCOPE);
    return inScope && !isRevoked ? tenantOfClient(this.seed, clientId) : undefined;
  }
}

/** One page in the collection wrapper of the service; beyond the last page, an empty one. */
export function pageOf<T>(items: readonly T[], currentPage: number, itemsPerPage: number) {
  const totalPages = Math.ceil(items.length / itemsPerPage);
  return {
    paginationMetadata: {
      currentPage,
      totalCount: items.length,
      totalPages,
      hasPreviousPage: currentPage > 1 && totalPages > 0,
      hasNextPage: currentPage < totalPages,
      itemsPerPage,
    },
    data: items.slice((currentPage - 1) * itemsPerPage, currentPage * itemsPerPage),
  };
}
