import { isRecord } from '../model/json-values.js';
import type { ExhibitorIdentity } from '../model/exhibitor-identity.interface.js';

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
