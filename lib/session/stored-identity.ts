import * as v from 'valibot';
import { isSecure } from '../http/cookies.js';
import { isRecord } from '../model/json-values.js';
import type { ExhibitorIdentity } from '../model/exhibitor-identity.interface.js';
import type { Tenant } from '../tenants/tenant.js';

/** Selected exhibitor by event, the newest last. */
export type Selections = readonly (readonly [eventId: string, exhibitorId: string])[];

/** Number of selections that are kept. */
const MAX_SELECTIONS = 20;

const selectionsSchema = v.array(v.tuple([v.string(), v.string()]));

const identitySchema = v.object({
  id: v.optional(v.string(), ''),
  issuer: v.string(),
  subject: v.string(),
  email: v.string(),
  claims: v.optional(v.pipe(v.custom<Record<string, unknown>>(isRecord), v.transform(copyOf)), {}),
  tenant: v.string(),
  tenantId: v.optional(v.string()),
  clientId: v.optional(v.string()),
  eventId: v.optional(v.string()),
  returnTo: v.optional(v.string()),
  sid: v.optional(v.string()),
  loggedInAt: v.optional(v.number()),
  expiresAt: v.optional(v.number(), Number.MAX_SAFE_INTEGER),
});

/** Data of a cookie or of the host's session that has the form of an identity. */
export type IdentityData = v.InferOutput<typeof identitySchema>;

/** Requests share the claims of a host's session: a handler that changes its own must not change theirs. */
function copyOf(claims: Record<string, unknown>): Record<string, unknown> {
  return { ...claims };
}

export function parseIdentity(value: unknown): IdentityData | undefined {
  const parsed = v.safeParse(identitySchema, value);
  return parsed.success ? parsed.output : undefined;
}

export function parseSelections(value: unknown): Selections {
  const parsed = v.safeParse(selectionsSchema, value);
  return parsed.success ? parsed.output : [];
}

/**
 * The identity, where it belongs to this tenant and has not expired. Issuer, client and tenant id are compared with the
 * current options: if a key is given to another customer, the logins of the former customer must not be valid.
 *
 * @param now milliseconds since 1970
 */
export function identityFor(data: IdentityData, tenant: Tenant, now: number): ExhibitorIdentity | undefined {
  const { tenantId = tenant.tenantId, clientId = tenant.login?.clientId ?? '' } = data;
  if (data.tenant !== tenant.key || tenantId !== tenant.tenantId) {
    return undefined;
  }
  if (data.issuer !== tenant.login?.issuer || clientId !== tenant.login.clientId) {
    return undefined;
  }
  if (data.expiresAt <= now) {
    return undefined;
  }
  return isComplete(data) ? data : { ...data, tenantId, clientId };
}

/** The identity of a cookie is complete, and not copied for each request. Hosts may leave members out. */
function isComplete(data: IdentityData): data is ExhibitorIdentity {
  return data.tenantId !== undefined && data.clientId !== undefined;
}

/** True where {@link identityFor} answers an identity, and its cookie has the prefix that the tenant's cookies have. */
export function belongsTo(
  data: IdentityData,
  tenant: Tenant,
  secure: boolean | undefined,
  now: number,
): boolean {
  const hasPrefix = secure === undefined || secure === isSecure(tenant.login?.redirectUri);
  return hasPrefix && identityFor(data, tenant, now) !== undefined;
}

/** Identifies the user of an identity. */
export function ownerOf({
  tenant,
  issuer,
  subject,
}: Pick<IdentityData, 'tenant' | 'issuer' | 'subject'>): string {
  return JSON.stringify([tenant, issuer, subject]);
}

/** The selections with that of one event replaced, or removed where `exhibitorId` is `undefined`. */
export function withSelection(
  before: Selections,
  eventId: string,
  exhibitorId: string | undefined,
): Selections {
  const others = before.filter(([event]) => event !== eventId);
  const after = exhibitorId === undefined ? others : [...others, [eventId, exhibitorId] as const];
  return after.slice(-MAX_SELECTIONS);
}
