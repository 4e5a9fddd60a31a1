import { shortDigestOf } from '../model/digest.js';
import { isRecord } from '../model/json-values.js';
import type { ExhibitorIdentity } from '../model/exhibitor-identity.interface.js';

const OPTIONAL_STRINGS = ['registration', 'eventId', 'returnTo', 'sid'] as const;

/**
 * The identity in a cookie or in the host's session: its known members, each of its type. A host stores all of them; those that it left
 * out are empty, and without `expiresAt` it never expires. Not by a schema: with a session of the host this runs at each request, and
 * a schema took a fifth of the guard's time.
 */
export function parseIdentity(value: unknown): ExhibitorIdentity | undefined {
  if (!isRecord(value)) {
    return undefined;
  }
  const { id = '', issuer, subject, email, tenant, tenantId = '', clientId = '', redirectUri = '' } = value;
  const { claims = {}, loggedInAt, expiresAt = Number.MAX_SAFE_INTEGER } = value;
  if (!isString(id) || !isString(issuer) || !isString(subject) || !isString(email) || !isString(tenant)) {
    return undefined;
  }
  if (!isString(tenantId) || !isString(clientId) || !isString(redirectUri) || !isRecord(claims)) {
    return undefined;
  }
  if (!isNumber(expiresAt) || !(loggedInAt === undefined || isNumber(loggedInAt))) {
    return undefined;
  }
  const identity: ExhibitorIdentity = {
    id,
    issuer,
    subject,
    email,
    tenant,
    tenantId,
    clientId,
    redirectUri,
    expiresAt,
    claims,
  };
  if (loggedInAt !== undefined) {
    identity.loggedInAt = loggedInAt;
  }
  for (const name of OPTIONAL_STRINGS) {
    const given = value[name];
    if (isString(given)) {
      identity[name] = given;
    } else if (given !== undefined) {
      return undefined;
    }
  }
  return identity;
}

/** Names a person at a tenant, and shows neither. */
export function personOf({ tenant, issuer, subject }: ExhibitorIdentity): string {
  return shortDigestOf(JSON.stringify([tenant, issuer, subject]));
}

function isString(value: unknown): value is string {
  return typeof value === 'string';
}

/** `NaN` would be later than every logout. */
function isNumber(value: unknown): value is number {
  return typeof value === 'number' && !Number.isNaN(value);
}
