import { isSecure } from '../http/cookies.js';
import { isRecord } from '../model/json-values.js';
import type { ExhibitorIdentity } from '../model/exhibitor-identity.interface.js';
import type { Tenant } from '../tenants/tenant.js';

/** Members that may be missing: hosts store an identity as they like. */
const OPTIONAL_STRINGS = [
  'tenantId',
  'clientId',
  'redirectUri',
  'registration',
  'eventId',
  'returnTo',
  'sid',
] as const;

/** Data of a cookie or of the host's session that has the form of an identity. */
export type IdentityData = Omit<ExhibitorIdentity, 'tenantId' | 'clientId' | 'redirectUri'> &
  Partial<Pick<ExhibitorIdentity, 'tenantId' | 'clientId' | 'redirectUri'>>;

/**
 * The known members of an identity, each of its type. Not by a schema: with a session of the host this runs at each request,
 * and a schema took a fifth of the guard's time.
 */
export function parseIdentity(value: unknown): IdentityData | undefined {
  if (!isRecord(value)) {
    return undefined;
  }
  const { id = '', issuer, subject, email, tenant } = value;
  const { claims = {}, loggedInAt, expiresAt = Number.MAX_SAFE_INTEGER } = value;
  if (!isString(id) || !isString(issuer) || !isString(subject) || !isString(email) || !isString(tenant)) {
    return undefined;
  }
  if (!isRecord(claims) || !isNumber(expiresAt) || !(loggedInAt === undefined || isNumber(loggedInAt))) {
    return undefined;
  }
  // Requests share the claims of a host's session: a handler that changes its own must not change theirs.
  const data: IdentityData = { id, issuer, subject, email, claims: { ...claims }, tenant, expiresAt };
  if (loggedInAt !== undefined) {
    data.loggedInAt = loggedInAt;
  }
  return copyStrings(value, data) ? data : undefined;
}

/** Copies the optional strings. Answers false where one of them is no string. */
function copyStrings(from: Record<string, unknown>, to: IdentityData): boolean {
  for (const name of OPTIONAL_STRINGS) {
    const given = from[name];
    if (isString(given)) {
      to[name] = given;
    } else if (given !== undefined) {
      return false;
    }
  }
  return true;
}

function isString(value: unknown): value is string {
  return typeof value === 'string';
}

/** An end that is not a number would never come. */
function isNumber(value: unknown): value is number {
  return typeof value === 'number' && !Number.isNaN(value);
}

/**
 * The identity, where it belongs to this tenant and has not expired. Issuer, client and tenant id are compared with the
 * current options: if a key is given to another customer, the logins of the former customer must not be valid. So is the
 * `redirectUri`: another host with the same `secrets` and client may have a stricter `authorize`. What is missing is not compared.
 *
 * @param secure true where its cookie has the `__Host-` prefix, which must be as the tenant's cookies have it: a sibling domain can
 * set a cookie without it; `undefined` in the host's session
 * @param now milliseconds since 1970
 */
export function identityFor(
  data: IdentityData,
  tenant: Tenant,
  secure: boolean | undefined,
  now: number,
): ExhibitorIdentity | undefined {
  const { clientId: ownClient = '', redirectUri: ownUri = '' } = tenant.login ?? {};
  const { tenantId = tenant.tenantId, clientId = ownClient, redirectUri = ownUri } = data;
  if (data.tenant !== tenant.key || tenantId !== tenant.tenantId) {
    return undefined;
  }
  if (data.issuer !== tenant.login?.issuer || clientId !== ownClient || redirectUri !== ownUri) {
    return undefined;
  }
  if (data.expiresAt <= now || (secure !== undefined && secure !== isSecure(ownUri))) {
    return undefined;
  }
  return isComplete(data) ? data : { ...data, tenantId, clientId, redirectUri };
}

/** The identity of a cookie is complete, and not copied for each request. Hosts may leave members out. */
function isComplete(data: IdentityData): data is ExhibitorIdentity {
  return data.tenantId !== undefined && data.clientId !== undefined && data.redirectUri !== undefined;
}
