/** Names of the {@link Generations}. */

/** Replaced when any tenant is forgotten. */
export const ANY_FORGOTTEN = 'forgotten';

export function forgottenTenant(key: string): string {
  return JSON.stringify(['forgotten', key]);
}

export const ALL_LOOKUPS = 'lookups';

export function lookupsOfTenant(tenant: string): string {
  return JSON.stringify(['lookups', tenant]);
}

export function lookupsOfEvent(tenant: string, eventId: string): string {
  return JSON.stringify(['lookups', tenant, eventId]);
}

/** Added to the lifetime of a generation, in ms: what it invalidates may have been begun an hour before it was kept. */
export const GENERATION_MARGIN = 3_600_000;
