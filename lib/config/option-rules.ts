/** The rules between options. They are asked of options whose shapes are right. */
import * as v from 'valibot';
import type { ConfigurationProblem } from '../errors/configuration.error.js';
import type { ExhibitorSettings } from './exhibitor-settings.js';
import type { LoginSettings, TenantSettings } from './tenant-settings.js';
import type { TenantSource } from './tenant-options.interface.js';
import { parseUrl } from '../model/urls.js';
import { base, isAllowedUrl } from './value-schemas.js';

type Rule = [isBroken: boolean, path: string, expected: string];

const ORIGINS_REQUIRED =
  'is required with a TenantSource: a tenant that copies the issuer of another and has a token endpoint of its own can receive ' +
  "the codes of the other's users and log in as them. List the origins of all services and providers that no tenant controls";

/** Broken rules of the module options, some of which depend on the tenants. */
export function moduleRules(
  { session, secrets, store, cookies, allowedOrigins }: ExhibitorSettings,
  tenants: ReadonlyMap<string, TenantSettings> | TenantSource,
): ConfigurationProblem[] {
  const isFixed = tenants instanceof Map;
  const fixed: TenantSettings[] = isFixed ? [...tenants.values()] : [];
  const logins = hasBrowser(session) ? fixed.flatMap(({ login }) => login ?? []) : [];
  const hasSecrets = secrets.length > 0;
  const isInsecure = logins.some(({ redirectUri }) => redirectUri?.startsWith('http:') === true);
  return broken([
    [
      !hasSecrets && logins.length > 0,
      'secrets',
      'is required with a login: one or more strings of at least 32 characters',
    ],
    [!hasSecrets && logins.length === 0 && store !== undefined, 'secrets', 'is required with store'],
    [cookies.absoluteTtl < cookies.identityTtl, 'cookies.absoluteTtl', 'must be at least identityTtl'],
    [cookies.sameSite === 'none' && isInsecure, 'cookies.sameSite', "'none' needs an https redirectUri"],
    [!isFixed && allowedOrigins === undefined, 'allowedOrigins', ORIGINS_REQUIRED],
  ]);
}

/**
 * Broken rules of the options of a tenant.
 *
 * @param path their option path, `tenants.acme`
 */
export function tenantRules(
  tenant: TenantSettings,
  key: string,
  path: string,
  { session, allowedOrigins }: ExhibitorSettings,
): ConfigurationProblem[] {
  const { clientSecret, clientAuth, login } = tenant;
  const rules: Rule[] = [
    [clientSecret === undefined && typeof clientAuth !== 'object', 'clientSecret', 'is required'],
    ...(login === undefined ? [] : loginRules(login, session)),
  ];
  for (const [name, url] of urlsOf(tenant)) {
    const isForeign = url !== undefined && !isAllowedUrl(url, key, allowedOrigins);
    rules.push([isForeign, name, 'must be on one of allowedOrigins']);
  }
  return broken(rules).map((problem) => ({ ...problem, path: `${path}.${problem.path}` }));
}

/**
 * Sets `requireIss` where the host did not and tenants of different issuers share a callback. There, a malicious provider could
 * pass its response off as another's (mix-up attack); the `iss` parameter prevents that (RFC 9207 §1, RFC 9700 §4.4). Left unset,
 * discovery may set it.
 */
export function requireIssOfShared(tenants: ReadonlyMap<string, TenantSettings>): void {
  const issuersByCallback = new Map<string, Set<string>>();
  const logins = [...tenants.values()].flatMap(({ login }) => login ?? []);
  for (const { redirectUri, issuer } of logins) {
    const callback = callbackOf(redirectUri);
    const issuers = issuersByCallback.get(callback) ?? new Set();
    issuersByCallback.set(callback, issuers.add(issuer));
  }
  for (const login of logins) {
    const { redirectUri } = login;
    if (redirectUri !== undefined && (issuersByCallback.get(callbackOf(redirectUri))?.size ?? 0) > 1) {
      login.requireIss ??= true;
    }
  }
}

/** What tells callbacks apart: the login cookies belong to a host name, and the callback compares the path. It ignores the query. */
function callbackOf(redirectUri = ''): string {
  const url = parseUrl(redirectUri);
  return `${url?.hostname}${url?.pathname}`;
}

function loginRules(login: LoginSettings, session: ExhibitorSettings['session']): Rule[] {
  const { keys, discovery, issuer, clientId, redirectUri, clientAuth, clientSecret, audience } = login;
  const inBrowser = hasBrowser(session);
  const byBearer = session.includes('bearer');
  const accessToken = typeof audience === 'object' ? audience.accessToken : undefined;
  return [
    [keys === undefined && !discovery, 'login.keys', 'is required'],
    [
      // Discovery 1.0 §3.
      discovery && !v.is(base, issuer),
      'login.issuer',
      'must be an https URL without a query (http only for loopback hosts) with discovery',
    ],
    [
      login.requireVerifiedEmail && login.emailClaim !== 'email',
      'login.requireVerifiedEmail',
      "must be false with another emailClaim than 'email': email_verified true confirms the claim email only",
    ],
    [inBrowser && clientId === undefined, 'login.clientId', 'is required'],
    [inBrowser && redirectUri === undefined, 'login.redirectUri', 'is required'],
    [
      inBrowser && clientAuth === 'basic' && clientSecret === undefined,
      'login.clientSecret',
      "is required with clientAuth 'basic'",
    ],
    [
      byBearer && accessToken === undefined,
      'login.audience.accessToken',
      "is required with session 'bearer'",
    ],
    [
      byBearer && login.authorizedParties === undefined,
      'login.authorizedParties',
      "is required with session 'bearer'",
    ],
  ];
}

/** The URLs that requests are sent to, with the option that sets each. */
function urlsOf(tenant: TenantSettings): [option: string, url: string | undefined][] {
  const { baseUrl, authUrl, endpoints = {}, login } = tenant;
  return [
    ['baseUrl', baseUrl],
    ['authUrl', authUrl],
    ...Object.entries(endpoints).map(([name, url]): [string, string] => [`endpoints.${name}`, url]),
    ['login.keys', login?.keys?.kind === 'url' ? login.keys.url : undefined],
    // The provider's metadata is read from the issuer.
    ['login.issuer', login?.discovery === true ? login.issuer : undefined],
  ];
}

/** Whether there are logins: with bearer tokens alone there are none. */
export function hasBrowser(session: ExhibitorSettings['session']): boolean {
  return session.some((mode) => mode !== 'bearer');
}

function broken(rules: readonly Rule[]): ConfigurationProblem[] {
  return rules.filter(([isBroken]) => isBroken).map(([, path, expected]) => ({ path, expected }));
}
