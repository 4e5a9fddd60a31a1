import type { KeyObject } from 'node:crypto';
import { jwtVerify } from 'jose';
import type { SeedTenant } from './seed.js';

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
