import type { KeyObject } from 'node:crypto';
import { jwtVerify } from 'jose';
import { tenantOfClient, tenantsOf, type SandboxSeed, type SeedTenant } from '../seed/seed.js';

/** The scope of the REST API (service spec, endpoint 1). */
export const API_SCOPE = 'idp_api';

export function apiAudience(issuer: string): string {
  return `${issuer}/api/v1`;
}

/** The access tokens for the REST API. Each carries the number of revocations before it. */
export class ApiTokens {
  readonly #revocations = new Map<string, number>();

  constructor(
    private readonly issuer: string,
    private readonly publicKey: KeyObject,
    private readonly seed: SandboxSeed,
  ) {}

  /** Claims that the next access token of a client must carry. */
  claimsOf(clientId = ''): { readonly revocations: number } {
    return { revocations: this.#revocations.get(clientId) ?? 0 };
  }

  revoke(tenantKey?: string): void {
    for (const { clientId } of tenantsOf(this.seed, tenantKey)) {
      this.#revocations.set(clientId, this.claimsOf(clientId).revocations + 1);
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
        requiredClaims: ['exp', 'client_id', 'scope', 'revocations'],
        typ: 'at+jwt',
      });
      const clientId = String(payload['client_id']);
      const isRevoked = payload['revocations'] !== this.claimsOf(clientId).revocations;
      const inScope = String(payload['scope']).split(' ').includes(API_SCOPE);
      return inScope && !isRevoked ? tenantOfClient(this.seed, clientId) : undefined;
    } catch {
      return undefined;
    }
  }
}
