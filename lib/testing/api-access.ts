import type { KeyObject } from 'node:crypto';
import { jwtVerify } from 'jose';
import { API_SCOPE, apiAudience } from './identity-provider.js';
import type { SeedTenant } from './seed.js';

/** A request to the REST API that is let in, or why it is not. */
export type ApiAccess =
  | { readonly tenant: SeedTenant }
  | { readonly status: 401 | 403; readonly error: string; readonly message: string };

const NO_TOKEN = refuse(401, 'invalid_token', 'A bearer token of the client credentials grant is needed');

/** Checks bearer token and tenant header of the REST API, and remembers which tokens were revoked. */
export class ApiAccessCheck {
  /** Tokens carry ascending serials: revoking is one number a client, however many were issued. */
  #serial = 0;
  readonly #revokedUpTo = new Map<string, number>();
  readonly #tenants: ReadonlyMap<string, SeedTenant>;

  constructor(
    private readonly issuer: string,
    private readonly publicKey: KeyObject,
    tenants: readonly SeedTenant[],
  ) {
    this.#tenants = new Map(tenants.map((tenant) => [tenant.clientId, tenant]));
  }

  /** The claims that a token issued now carries for this check. */
  nextTokenClaims(): { readonly serial: number } {
    this.#serial += 1;
    return { serial: this.#serial };
  }

  /** Refuses what was issued so far: to this tenant, or to all. */
  revoke(tenantKey?: string): void {
    for (const { key, clientId } of this.#tenants.values()) {
      if (tenantKey === undefined || tenantKey === key) {
        this.#revokedUpTo.set(clientId, this.#serial);
      }
    }
  }

  /** `authorization` and `tenantId` are the header values as they arrived. */
  async check(authorization: string | undefined, tenantId: string | undefined): Promise<ApiAccess> {
    const token = /^Bearer ([\w.~+/=-]+)$/i.exec(authorization ?? '')?.[1];
    const tenant = token === undefined ? undefined : await this.#tenantOf(token);
    if (!tenant) {
      return NO_TOKEN;
    }
    if (tenantId !== tenant.tenantId) {
      return refuse(
        403,
        'tenant_mismatch',
        'X-Tenant-Id does not name the tenant that the token was issued to',
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
      const revoked = Number(payload['serial']) <= (this.#revokedUpTo.get(clientId) ?? 0);
      const inScope = String(payload['scope']).split(' ').includes(API_SCOPE);
      return inScope && !revoked ? this.#tenants.get(clientId) : undefined;
    } catch {
      return undefined;
    }
  }
}

function refuse(status: 401 | 403, error: string, message: string): ApiAccess {
  return { status, error, message };
}
