import { isRecord } from '../model/json-values.js';
import type { ExhibitorIdentity } from '../model/exhibitor-identity.interface.js';

/**
 * The identity in a cookie or in the host's session: its known members, each of its type. A host stores all of them; what it left out
 * is empty here, and has no end. Not by a schema: with a session of the host this runs at each request, and a schema took a fifth of
 * the guard's time.
 */
export function parseIdentity(value: unknown): ExhibitorIdentity | undefined {
  if (!isRecord(value)) {
    return undefined;
  }
  const { id = '', issuer, subject, email, tenant, tenantId = '', clientId = '', redirectUri = '' } = value;
  const { claims = {}, expiresAt = Number.MAX_SAFE_INTEGER } = value;
  const { registration, eventId, returnTo, sid, loggedInAt } = value;
  const isIdentity =
    [id, issuer, subject, email, tenant, tenantId, clientId, redirectUri].every(isText) &&
    [registration, eventId, returnTo, sid].every((text) => text === undefined || isText(text)) &&
    (loggedInAt === undefined || isNumber(loggedInAt)) &&
    isNumber(expiresAt) &&
    isRecord(claims);
  const identity = {
    id,
    issuer,
    subject,
    email,
    tenant,
    tenantId,
    clientId,
    redirectUri,
    registration,
    eventId,
    returnTo,
    sid,
    loggedInAt,
    expiresAt,
    claims,
  };
  return isIdentity ? (identity as ExhibitorIdentity) : undefined;
}

function isText(value: unknown): boolean {
  return typeof value === 'string';
}

/** An end that is not a number would never come. */
function isNumber(value: unknown): boolean {
  return typeof value === 'number' && !Number.isNaN(value);
}
