import * as v from 'valibot';
import type { ConfigurationProblem } from '../errors/configuration.error.js';
import type { ExhibitorSettings } from './exhibitor-settings.js';
import { parseUrl, problemsOf } from './option-schemas.js';
import { tenantSchema, type LoginSettings, type TenantSettings } from './tenant-settings.js';

/** The module settings that the options of a tenant depend on. */
export type TenantRules = Pick<ExhibitorSettings, 'session' | 'allowedOrigins' | 'secrets' | 'cookies'>;

/** Checks the options of one tenant. `path` is their option path, `tenants.acme`. */
export function checkTenant(
  input: unknown,
  path: string,
  rules: TenantRules,
): { settings?: TenantSettings; problems: ConfigurationProblem[] } {
  const parsed = v.safeParse(tenantSchema, input);
  if (!parsed.success) {
    return { problems: problemsOf(parsed.issues, path) };
  }
  const settings = parsed.output;
  const problems = [
    ...originProblems(settings, path, rules),
    ...loginProblems(settings.login, `${path}.login`, rules),
  ];
  return { settings, problems };
}

function originProblems(tenant: TenantSettings, path: string, rules: TenantRules): ConfigurationProblem[] {
  const { allowedOrigins } = rules;
  if (allowedOrigins === undefined) {
    return [];
  }
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
    .filter(([, url]) => url !== undefined && !allowedOrigins.includes(parseUrl(url)?.origin ?? ''))
    .map(([name]) => ({ path: `${path}.${name}`, expected: 'must be on one of allowedOrigins' }));
}

function loginProblems(
  login: LoginSettings | undefined,
  path: string,
  rules: TenantRules,
): ConfigurationProblem[] {
  if (login === undefined) {
    return [];
  }
  const bearer = rules.session.includes('bearer');
  const browser = rules.session.some((mode) => mode !== 'bearer');
  return [
    ...(browser ? browserProblems(login, path, rules) : []),
    ...(bearer ? bearerProblems(login, path) : []),
  ];
}

function browserProblems(login: LoginSettings, path: string, rules: TenantRules): ConfigurationProblem[] {
  const problems: ConfigurationProblem[] = [];
  if (login.clientId === undefined) {
    problems.push({ path: `${path}.clientId`, expected: 'is required' });
  }
  if (login.redirectUri === undefined) {
    problems.push({ path: `${path}.redirectUri`, expected: 'is required' });
  }
  if (rules.secrets.length === 0) {
    problems.push({
      path: 'secrets',
      expected: 'is required with a login: one or more strings of at least 32 characters',
    });
  }
  if (rules.cookies.sameSite === 'none' && login.redirectUri?.startsWith('http:')) {
    problems.push({ path: 'cookies.sameSite', expected: "'none' needs an https redirectUri" });
  }
  if (login.clientAuth === 'basic' && login.clientSecret === undefined) {
    problems.push({ path: `${path}.clientSecret`, expected: "is required with clientAuth 'basic'" });
  }
  return problems;
}

function bearerProblems(login: LoginSettings, path: string): ConfigurationProblem[] {
  const problems: ConfigurationProblem[] = [];
  const accessToken = typeof login.audience === 'object' ? login.audience.accessToken : undefined;
  if (accessToken === undefined) {
    problems.push({ path: `${path}.audience.accessToken`, expected: "is required with session 'bearer'" });
  }
  if (login.authorizedParties === undefined) {
    problems.push({ path: `${path}.authorizedParties`, expected: "is required with session 'bearer'" });
  }
  return problems;
}
