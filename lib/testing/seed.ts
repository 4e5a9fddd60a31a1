import { exhibitorsOf } from './exhibitor-names.js';
import type { SandboxExhibitor } from './sandbox-exhibitor.interface.js';

/** A tenant with everything that is handed out at onboarding. */
export interface SeedTenant {
  readonly key: string;
  readonly name: string;
  /** The GUID sent as `X-Tenant-Id`, and as `tenantId` of an authorize request for branding. */
  readonly tenantId: string;
  readonly clientId: string;
  readonly clientSecret: string;
  readonly loginClientId: string;
  readonly loginClientSecret: string;
  /** A login client without a secret; it must use PKCE. */
  readonly publicLoginClientId: string;
  /** Callback addresses beyond those on loopback, which are all accepted. */
  readonly redirectUris?: readonly string[];
}

/** A trade event. */
export interface SeedEvent {
  readonly id: string;
  readonly title: string;
}

/** Someone who can log in. */
export interface SeedPerson {
  /** The `sub` claim, and a name for `signInAs` that works for people without an e-mail address. */
  readonly sub: string;
  readonly name: string;
  /** Absent: no e-mail claim anywhere. */
  readonly email?: string;
  /** Some providers send the text `"false"`. Absent: the claim is not sent. */
  readonly emailVerified?: boolean | 'true' | 'false';
  /** Leaves the e-mail claims out of the id_token, so that only userinfo has them. */
  readonly emailOnlyInUserinfo?: boolean;
}

/**
 * Everything a sandbox starts with: plain data, so that a test takes {@link defaultSeed}, changes it and passes it to
 * `ExhibitorSandbox.start({ seed })`.
 */
export interface SandboxSeed {
  tenants: SeedTenant[];
  events: SeedEvent[];
  people: SeedPerson[];
  /** By tenant key, then by event id. A tenant does not know an event that is missing here. */
  exhibitors: Record<string, Record<string, readonly SandboxExhibitor[]>>;
}

/** The tenants of {@link defaultSeed}. */
export const TENANTS: readonly SeedTenant[] = [
  tenant('acme', 'Acme Fairs', '0a1b6c9e-5f43-4c3e-9a52-6b1f0e7d1001', 'for-development-only'),
  // Reserved characters, so that a client that does not form-encode its credentials is found out.
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
 * The seed a sandbox uses when none is given: the tenants `acme`, `globex` and `initech`; five events with 0, 7, 50,
 * 251 and 1,234 exhibitors, each tenant with records of its own; and people with no, one and several exhibitors, with
 * an unverified address and with none. Each call returns fresh arrays that a test may extend.
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
    exhibitors: Object.fromEntries(
      TENANTS.map(({ key }) => [
        key,
        Object.fromEntries(EVENTS.map(({ id, exhibitors }) => [id, exhibitorsOf(key, id, exhibitors)])),
      ]),
    ),
  };
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
