import * as v from 'valibot';
import { parseJson } from '../json.js';
import { generateExhibitors, type SandboxExhibitor } from './generate-exhibitors.js';

/** A tenant with the ids and credentials that it gets at onboarding. */
export interface SeedTenant {
  /** Key of the tenant in the options of `ExhibitorModule`. */
  readonly key: string;
  /** Shown on the login page. */
  readonly name: string;
  /** GUID sent as `X-Tenant-Id`, and as `tenantId` of an authorization request for branding. */
  readonly tenantId: string;
  /** Client of the REST API (client credentials grant). */
  readonly clientId: string;
  readonly clientSecret: string;
  /** Confidential login client. */
  readonly loginClientId: string;
  readonly loginClientSecret: string;
  /** Public login client. It must use PKCE. */
  readonly publicLoginClientId: string;
  /** Address of the host that receives the logout tokens of both login clients. Default: none. */
  readonly backChannelLogoutUri?: string;
}

/** A trade event. */
export interface SeedEvent {
  /** Event id of the REST API. */
  readonly id: string;
  readonly title: string;
}

/** A person who can log in. */
export interface SeedPerson {
  /** The `sub` claim. `signInAs` accepts it as well as the e-mail address. */
  readonly sub: string;
  readonly name: string;
  /** The `email` claim. Absent: the claim is not sent. */
  readonly email?: string;
  /** The `email_verified` claim; some providers send it as a string. Absent: the claim is not sent. */
  readonly emailVerified?: boolean | 'true' | 'false';
  /** Sends the e-mail claims in userinfo only, not in the ID token. Default `false`. */
  readonly emailOnlyInUserinfo?: boolean;
}

/**
 * The initial data of a sandbox. A test can change the result of {@link defaultSeed} and pass it to
 * `ExhibitorSandbox.start({ seed })`.
 */
export interface SandboxSeed {
  tenants: SeedTenant[];
  events: SeedEvent[];
  people: SeedPerson[];
  /** Exhibitors by tenant key and event id. An event without an entry does not exist for the tenant. */
  exhibitors: Record<string, Record<string, readonly SandboxExhibitor[]>>;
}

/** The tenants of {@link defaultSeed}. */
export const TENANTS: readonly SeedTenant[] = [
  tenant('acme', 'Acme Fairs', '0a1b6c9e-5f43-4c3e-9a52-6b1f0e7d1001', 'for-development-only'),
  // Reserved characters: a client that does not form-encode its credentials (RFC 6749 §2.3.1) fails.
  tenant('globex', 'Globex Expo', '3d8f2c71-9e0a-4b6d-8c15-27a4f9b02002', 'for+development/only&=%20:?'),
  tenant('initech', 'Initech Trade Shows', '7e4a90b2-1c6f-4d28-b3e7-915d60c83003', 'for-development-only'),
];

const EVENTS: readonly (SeedEvent & { readonly exhibitors: number })[] = [
  { id: 'empty-2026', title: 'Empty Hall Preview 2026', exhibitors: 0 },
  { id: 'boutique-2026', title: 'Boutique Design Days 2026', exhibitors: 7 },
  { id: 'regional-2026', title: 'Regional Craft Fair 2026', exhibitors: 50 },
  { id: 'national-2026', title: 'National Building Show 2026', exhibitors: 251 },
  { id: 'world-2026', title: 'World Industry Expo 2026', exhibitors: 1234 },
];

const PEOPLE: readonly SeedPerson[] = [
  { sub: 'nora.none', name: 'Nora None', email: 'nora.none@example.com', emailVerified: true },
  { sub: 'olga.one', name: 'Olga One', email: 'olga.one@example.com', emailVerified: true },
  { sub: 'sam.several', name: 'Sam Several', email: 'sam.several@example.com', emailVerified: true },
  { sub: 'zoe.fair', name: 'Zoë Fair', email: 'zoë+fair@example.com', emailVerified: true },
  {
    sub: 'uma.unverified',
    name: 'Uma Unverified',
    email: 'uma.unverified@example.com',
    emailVerified: false,
  },
  { sub: 'mo.mailless', name: 'Mo Mailless' },
];

/**
 * Creates the default seed. It has the tenants `acme`, `globex` and `initech`, and five events with 0, 7, 50, 251 and
 * 1,234 exhibitors. Each tenant has different records. The people have no, one or several exhibitors; one has an
 * unverified e-mail address and one has none. Each call returns new arrays, which a test may change.
 *
 * @example
 * const seed = defaultSeed();
 * seed.people.push({ sub: 'pat', name: 'Pat', email: 'pat@example.com', emailOnlyInUserinfo: true });
 * const sandbox = await ExhibitorSandbox.start({ seed });
 */
export function defaultSeed(): SandboxSeed {
  return {
    tenants: [...TENANTS],
    events: EVENTS.map(({ id, title }) => ({ id, title })),
    people: [...PEOPLE],
    exhibitors: seedExhibitors(TENANTS, EVENTS),
  };
}

/** Exhibitors of each tenant and event. An event that is not of the default seed has fifty. */
function seedExhibitors(tenants: readonly SeedTenant[], events: readonly SeedEvent[]) {
  const countOf = (eventId: string) => EVENTS.find(({ id }) => id === eventId)?.exhibitors ?? 50;
  const ofTenant = (key: string) =>
    Object.fromEntries(events.map(({ id }) => [id, generateExhibitors(key, id, countOf(id))]));
  return Object.fromEntries(tenants.map(({ key }) => [key, ofTenant(key)]));
}

const text = v.string();
const maybeText = v.optional(text);

const tenantSchema = v.strictObject({
  ...v.entriesFromList(['key', 'name', 'tenantId', 'clientId', 'clientSecret'], text),
  ...v.entriesFromList(['loginClientId', 'loginClientSecret', 'publicLoginClientId'], text),
  backChannelLogoutUri: maybeText,
});
const personSchema = v.strictObject({
  sub: text,
  name: text,
  email: maybeText,
  emailVerified: v.optional(v.union([v.boolean(), v.picklist(['true', 'false'])])),
  emailOnlyInUserinfo: v.optional(v.boolean()),
});
const exhibitorSchema = v.looseObject({ id: text, contactEmails: v.array(text) });

const seedFile = v.strictObject({
  tenants: v.exactOptional(v.pipe(v.array(tenantSchema), v.minLength(1))),
  events: v.exactOptional(v.array(v.strictObject({ id: text, title: text }))),
  people: v.exactOptional(v.array(personSchema)),
  exhibitors: v.exactOptional(v.record(text, v.record(text, v.array(exhibitorSchema)))),
});

/**
 * Parses a seed file. What it leaves out is that of the default seed; without `exhibitors` they are generated.
 *
 * @throws Error that names the file, each wrong field, and what is expected there.
 */
export function parseSeed(file: string, json: string): SandboxSeed {
  const { exhibitors, ...given } = parseJson(seedFile, json, file);
  const seed = { ...defaultSeed(), ...given };
  return { ...seed, exhibitors: exhibitors ?? seedExhibitors(seed.tenants, seed.events) };
}

function tenant(key: string, name: string, tenantId: string, secret: string): SeedTenant {
  return {
    key,
    name,
    tenantId,
    clientId: `${key}-api`,
    clientSecret: `${key}-api-secret-${secret}`,
    loginClientId: `${key}-web`,
    loginClientSecret: `${key}-web-secret-${secret}`,
    publicLoginClientId: `${key}-app`,
  };
}

/** @throws Error if the seed has no such tenant. */
export function tenantOf({ tenants }: SandboxSeed, key: string): SeedTenant {
  const keys = tenants.map((candidate) => candidate.key);
  return found(tenants[keys.indexOf(key)], `tenant "${key}"; it has ${keys.join(', ')}`);
}

/** The tenant with this key; without a key, all tenants. */
export function tenantsOf(seed: SandboxSeed, key: string | undefined): readonly SeedTenant[] {
  return key === undefined ? seed.tenants : [tenantOf(seed, key)];
}

export function tenantOfClient({ tenants }: SandboxSeed, id: unknown): SeedTenant | undefined {
  return tenants.find(({ clientId, loginClientId, publicLoginClientId }) =>
    [clientId, loginClientId, publicLoginClientId].some((one) => one === id),
  );
}

/**
 * @param person `sub` or e-mail address.
 * @throws Error if the seed has no such person.
 */
export function personOf({ people }: SandboxSeed, person: string): SeedPerson {
  const match = people.find(({ email, sub }) => person === sub || person === email);
  return found(match, `such person; it has ${people.map(({ sub }) => sub).join(', ')}`);
}

function found<T>(value: T | undefined, what: string): T {
  if (value === undefined) {
    throw new Error(`ExhibitorSandbox has no ${what}`);
  }
  return value;
}
