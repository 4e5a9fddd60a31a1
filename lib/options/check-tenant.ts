import * as v from 'valibot';
import type { ConfigurationProblem } from '../errors/configuration.error.js';
import { isRecord } from '../model/json-values.js';
import { untrustedText } from '../model/untrusted-text.js';
import type { ExhibitorSettings } from './exhibitor-settings.js';
import { isAllowedUrl, problemsOf, refineAny } from './value-schemas.js';
import { tenantSchema, type TenantSettings } from './tenant-settings.js';

/** The module settings that the options of a tenant depend on. */
export type TenantRules = Pick<
  ExhibitorSettings,
  'session' | 'allowedOrigins' | 'secrets' | 'cookies' | 'store'
>;

/**
 * Checks the options of a tenant that is known only at run time.
 *
 * @param path their option path, `tenants.acme`
 * @param key of the tenant, as `allowedOrigins` gets it
 */
export function checkTenant(
  input: unknown,
  path: string,
  key: string,
  rules: TenantRules,
): { settings?: TenantSettings; problems: ConfigurationProblem[] } {
  const parsed = v.safeParse(tenantUnder(rules), input);
  if (!parsed.success) {
    // Hosts may store options that customers write, names included.
    const problems = problemsOf(parsed.issues, path);
    return { problems: problems.map((one) => ({ ...one, path: untrustedText(one.path, 300) })) };
  }
  const settings = parsed.output;
  const foreign = foreignUrls(settings, key, rules);
  if (foreign.length > 0) {
    return { problems: foreign.map((one) => ({ path: `${path}.${one.path}`, expected: one.expected })) };
  }
  return { settings, problems: moduleNeeds([settings], rules) };
}

/** Schema of the options of a tenant, with what the module options require of them. */
export function tenantUnder(rules: TenantRules) {
  return v.pipe(
    tenantSchema,
    // Checked also where other options are wrong, so that all problems are reported together.
    refineAny((tenant) => loginNeeds(loginIn(tenant), rules)),
  );
}

/** What tenants, which may be wrong themselves, and a store require of the module options. */
export function moduleNeeds(tenants: readonly unknown[], rules: TenantRules): ConfigurationProblem[] {
  const problems: ConfigurationProblem[] = [];
  const logins = isBrowser(rules) ? tenants.map(loginIn).filter(isRecord) : [];
  if (rules.secrets.length === 0 && logins.length > 0) {
    problems.push({
      path: 'secrets',
      expected: 'is required with a login: one or more strings of at least 32 characters',
    });
  } else if (rules.secrets.length === 0 && rules.store !== undefined) {
    problems.push({ path: 'secrets', expected: 'is required with store' });
  }
  const isInsecure = logins.some(({ redirectUri }) => String(redirectUri).startsWith('http:'));
  if (rules.cookies.sameSite === 'none' && isInsecure) {
    problems.push({ path: 'cookies.sameSite', expected: "'none' needs an https redirectUri" });
  }
  return problems;
}

function loginIn(tenant: unknown): unknown {
  return isRecord(tenant) ? tenant['login'] : undefined;
}

function isBrowser({ session }: TenantRules): boolean {
  return session.some((mode) => mode !== 'bearer');
}

/** Options whose URL is on none of the `allowedOrigins`. */
export function foreignUrls(
  tenant: TenantSettings,
  key: string,
  { allowedOrigins }: TenantRules,
): ConfigurationProblem[] {
  const { keys, discovery, issuer } = tenant.login ?? {};
  const urls: [string, string | undefined][] = [
    ['baseUrl', tenant.baseUrl],
    ['authUrl', tenant.authUrl],
    ...Object.entries(tenant.endpoints ?? {}).map(([name, url]): [string, string] => [
      `endpoints.${name}`,
      url,
    ]),
    ['login.keys', keys?.kind === 'url' ? keys.url : undefined],
    // The provider's metadata is read from the issuer.
    ['login.issuer', discovery === true ? issuer : undefined],
  ];
  return urls
    .filter(([, url]) => url !== undefined && !isAllowedUrl(url, key, allowedOrigins))
    .map(([path]) => ({ path, expected: 'must be on one of allowedOrigins' }));
}

/** What the modes of the session require of a login, which may be wrong itself. */
function loginNeeds(login: unknown, rules: TenantRules): ConfigurationProblem[] {
  if (!isRecord(login)) {
    return [];
  }
  const { clientId, redirectUri, clientAuth, clientSecret, audience, authorizedParties } = login;
  const needed: [name: string, value: unknown, expected: string][] = [];
  if (isBrowser(rules)) {
    needed.push(['clientId', clientId, 'is required'], ['redirectUri', redirectUri, 'is required']);
  }
  if (isBrowser(rules) && clientAuth === 'basic') {
    needed.push(['clientSecret', clientSecret, "is required with clientAuth 'basic'"]);
  }
  if (rules.session.includes('bearer')) {
    const accessToken = isRecord(audience) ? audience['accessToken'] : undefined;
    const expected = "is required with session 'bearer'";
    needed.push(['audience.accessToken', accessToken, expected]);
    needed.push(['authorizedParties', authorizedParties, expected]);
  }
  return needed
    .filter(([, value]) => value === undefined)
    .map(([name, , expected]) => ({ path: `login.${name}`, expected }));
}
