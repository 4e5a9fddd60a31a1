import type { KeyObject } from 'node:crypto';
import { jwtVerify } from 'jose';
import { tenantOfClient, tenantsOf, type SandboxSeed, type SeedTenant } from './seed.js';

/** The scope of the REST API (service spec, endpoint 1). */
export const API_SCOPE = 'idp_api';

/** Audience of access tokens for the REST API. */
export function apiAudience(issuer: string): string {
  return `${issuer}/api/v1`;
}

/** The access tokens for the REST API. They carry ascending serial numbers: one number per client revokes all before it. */
export class ApiTokens {
  #lastSerial = 0;
  readonly #lastRevokedSerial = new Map<string, number>();

  constructor(
    private readonly issuer: string,
    private readonly publicKey: KeyObject,
    private readonly seed: SandboxSeed,
  ) {}

  /** Claims that the next access token must carry. */
  nextClaims(): { readonly serial: number } {
    this.#lastSerial += 1;
    return { serial: this.#lastSerial };
  }

  /** Revokes the access tokens issued so far to one tenant, or to all. */
  revoke(tenantKey?: string): void {
    for (const { clientId } of tenantsOf(this.seed, tenantKey)) {
      this.#lastRevokedSerial.set(clientId, this.#lastSerial);
    }
  }

  /** The tenant whose valid access token the header `Authorization` has. */
  async tenantOf(authorization: string | undefined): Promise<SeedTenant | undefined> {
    const token = /^Bearer ([\w.~+/=-]+)$/i.exec(authorization ?? '')?.[1] ?? '';
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
      return inScope && !revoked ? tenantOfClient(this.seed, clientId) : undefined;
    } catch {
      return undefined;
    }
  }
}
