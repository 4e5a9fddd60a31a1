/** What an identity is, a person who is logged in: how one that was kept is read, whose it is, and how a new one is admitted. */
import { isExhibitorError } from '../errors/is-exhibitor-error.js';
import { shortDigestOf } from '../model/digest.js';
import { isRecord } from '../model/json-values.js';
import type { ExhibitorIdentity } from '../model/exhibitor-identity.interface.js';
import type { Claims } from '../oidc/user-info.service.js';
import type { SessionMode } from '../config/exhibitor-options.interface.js';
import type { Refusal } from '../config/problems/problem.interface.js';
import type { ProblemLog } from '../config/problems/problem-log.service.js';
import type { Tenant } from '../config/tenant.js';
import type { Call } from '../call/call.js';

/** The identity of a request, as it was checked. */
export interface FoundIdentity {
  identity: ExhibitorIdentity;
  tenant: Tenant;
  /**
   * Where it was found. Of one that a step of the host returned: that of the identity of the same tenant which `super.getIdentity()` found
   * before, else `cookie`, since it is no user of the host's session.
   */
  mode: SessionMode;
  /** Of one in a cookie: see {@link KeptIdentity}. */
  endsAt?: number;
}

/** An identity as it is kept: its tenant and its logout are not checked, and it may have expired. */
export interface KeptIdentity {
  readonly identity: ExhibitorIdentity;
  /** Time after which no seal makes it valid any more, in ms since 1970. */
  readonly endsAt: number;
}

/** An identity that is to end, since a new login replaces it or a logout ends it. */
export interface FormerIdentity {
  id: string;
  /** See {@link KeptIdentity}. */
  endsAt: number;
  /** See {@link personOf}. */
  person: string;
}

/** End of an identity that the host keeps without one. */
export const ENDLESS = Number.MAX_SAFE_INTEGER;

const OPTIONAL_STRINGS = ['registration', 'eventId', 'returnTo', 'sid'] as const;

/**
 * The identity in a cookie or in the host's session: its known members, each of its type. A host stores all of them; those that it left
 * out are empty, and `expiresAt` is then {@link ENDLESS}. Not by a schema: with a session of the host this runs at each request, and
 * a schema took a fifth of the guard's time.
 */
export function parseIdentity(value: unknown): ExhibitorIdentity | undefined {
  if (!isRecord(value)) {
    return undefined;
  }
  const { id = '', issuer, subject, email, tenant, tenantId = '', clientId = '', redirectUri = '' } = value;
  const { claims = {}, expiresAt = ENDLESS } = value;
  // Columns of a database have `null` for what is optional.
  const loggedInAt = value['loggedInAt'] ?? undefined;
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
    const given = value[name] ?? undefined;
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

/**
 * What ends these identities.
 *
 * @param tenantKey of a new login, which replaces identities at this tenant alone. A logout names none, and ends all
 */
export function formerOf(kept: readonly KeptIdentity[], tenantKey?: string): FormerIdentity[] {
  return kept
    .filter(({ identity }) => tenantKey === undefined || identity.tenant === tenantKey)
    .map(({ identity, endsAt }) => ({ id: identity.id, endsAt, person: personOf(identity) }));
}

/**
 * True where the identity belongs to this tenant and has not expired. Issuer, client and tenant id are compared with the
 * current options: if a key is given to another customer, the logins of the former customer must not be valid. So is the
 * `redirectUri`: another host with the same `secrets` and client may have a less strict `authorize`.
 *
 * @param now milliseconds since 1970
 */
export function isIdentityOf(tenant: Tenant, identity: ExhibitorIdentity, now: number): boolean {
  const { key, tenantId, login } = tenant;
  // Empty is what a host left out of the identity that it keeps. It is not compared.
  const compared = [
    [identity.tenantId, tenantId],
    [identity.clientId, login?.clientId],
    [identity.redirectUri, login?.redirectUri],
  ];
  return (
    identity.tenant === key &&
    identity.issuer === login?.issuer &&
    compared.every(([given, own]) => given === '' || given === own) &&
    identity.expiresAt > now
  );
}

/** Why a user is refused for whom {@link authorizedIdentity} returns `undefined`. */
export const NOT_AUTHORIZED: Refusal = {
  reason: 'not_authorized',
  option: 'login.authorize',
  detail: 'this function did not answer true',
  isWarning: true,
};

/** About the authentication, not the person: hosts check them, so they are always kept. */
const ALWAYS_KEPT = ['auth_time', 'acr'];

/**
 * The identity of a verified login, or of a new bearer token, as it is kept: with the claims of `login.keepClaims`. `undefined` where
 * `login.authorize`, the host's final check, refuses it; that function sees all claims.
 *
 * @throws {ExhibitorError} `service_unavailable` where that function throws
 */
export async function authorizedIdentity(
  tenant: Tenant,
  identity: ExhibitorIdentity,
  call: Call,
  log: ProblemLog,
): Promise<ExhibitorIdentity | undefined> {
  const { login } = tenant;
  try {
    const asked = async (): Promise<unknown> => login?.authorize === undefined || login.authorize(identity);
    if ((await call.race(asked())) !== true) {
      return undefined;
    }
  } catch (error) {
    if (isExhibitorError(error)) {
      throw error;
    }
    const place = { tenant, option: 'login.authorize' };
    const message = "the host's authorize function failed";
    throw log.hostError(place, error, { code: 'service_unavailable', message });
  }
  const { claims } = identity;
  const keep = login?.keepClaims;
  return { ...identity, claims: keep === undefined ? claims : keptClaims(claims, keep) };
}

/** The claims of these names, and those that are always kept. */
export function keptClaims(claims: Claims, names: readonly string[] = []): Claims {
  const kept = [...ALWAYS_KEPT, ...names];
  return Object.fromEntries(Object.entries(claims).filter(([name]) => kept.includes(name)));
}

function isString(value: unknown): value is string {
  return typeof value === 'string';
}

/** `NaN` would be later than every logout. */
function isNumber(value: unknown): value is number {
  return typeof value === 'number' && !Number.isNaN(value);
}
