import { decodeJwt, type JWTPayload } from 'jose';
import type { ExhibitorSandbox, SandboxRequest } from '../../lib/development/testing/index.js';
import { parseRoute } from '../../lib/development/sandbox/server/operations.js';

/** A request of the sandbox with what says whose it is. */
export interface TracedRequest extends SandboxRequest {
  /** Of `list` and `lookup`, percent-decoded. */
  eventId?: string;
  /** Of `lookup`, percent-decoded. */
  contactEmail?: string;
  /** Of the form, or of the token: then `tenantKey` is the tenant of the token. */
  clientId?: string;
  /** Raw value of `X-Tenant-Id`, and the tenant that it names. */
  tenantId?: string;
  headerTenantKey?: string;
  /** Of a bearer token that is a JWT. Not verified. */
  tokenClaims?: JWTPayload;
  isDone: boolean;
}

export function traced({
  requests,
  tenants,
}: Pick<ExhibitorSandbox, 'requests' | 'tenants'>): TracedRequest[] {
  return requests.map((request) => {
    const { path, headers, body, status, aborted } = request;
    const { eventId, contactEmail } = parseRoute(path);
    const tokenClaims = claimsOf(headers.authorization);
    const clientId = [body['client_id'], tokenClaims?.['client_id']].find((id) => typeof id === 'string');
    const tenantId = [headers['x-tenant-id']].flat()[0];
    const headerTenantKey = tenants.find((tenant) => tenant.tenantId === tenantId)?.key;
    const isDone = status !== undefined || aborted;
    const tenantKey = tenants.find((tenant) => tenant.clientId === clientId)?.key ?? request.tenantKey;
    const named = { tenantKey, clientId, tenantId, headerTenantKey };
    return { ...request, ...named, eventId, contactEmail, tokenClaims, isDone };
  });
}

function claimsOf(authorization = ''): JWTPayload | undefined {
  try {
    return decodeJwt(authorization.replace(/^Bearer /i, ''));
  } catch {
    return undefined;
  }
}
