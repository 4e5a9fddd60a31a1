import { Logger } from '@nestjs/common';
import { ConfigurationError, type ConfigurationProblem } from '../errors/configuration.error.js';
import { HOST_VARIABLES, SECRET_VARIABLE } from '../model/host-variables.js';
import { SHORTEST_SECRET } from './exhibitor-settings.js';
import type { LoginOptions, TenantOptions } from './tenant-options.interface.js';

const NOT_LOADED = 'no variable of these is set: is the file loaded? Node reads it by node --env-file=FILE';

/**
 * Reads a tenant with a login, and `secrets`, from environment variables: `TENANT_ID`, `BASE_URL`, `AUTH_URL`, `API_CLIENT_ID`,
 * `API_CLIENT_SECRET`, `LOGIN_CLIENT_ID`, `LOGIN_CLIENT_SECRET` (not set: a public client), `REDIRECT_URI`, `ISSUER`,
 * `IDP_PUBLIC_KEY` (a PEM may be one line, with `\n` for line breaks) and `COOKIE_SECRET` (during a rotation two or more, apart by spaces,
 * each of 32 characters or more; without such a part, a text with spaces is one secret). White space around a value is removed.
 * The module checks the values when it starts. Call it in `useFactory`: tests and `@nestjs/config` set variables after the import.
 *
 * @param env usually `process.env`
 * @param options `prefix` begins the names of one of several tenants, as in `ACME_TENANT_ID`; `COOKIE_SECRET` may be without it.
 * A warning names other variables with the prefix. Where its `TENANT_ID` is set, it leaves out those of a longer prefix that has one too
 * @throws {ConfigurationError} `configuration_invalid` with all variables that are not set or empty. No value is shown.
 * @example
 * ExhibitorModule.forRootAsync({ isGlobal: true, useFactory: () => exhibitorOptionsFrom(process.env) });
 */
export function exhibitorOptionsFrom(
  env: Readonly<Record<string, string | undefined>>,
  { prefix = '' }: { prefix?: '' | `${string}_` | undefined } = {},
): { tenant: TenantOptions & { login: LoginOptions }; secrets: string[] } {
  const problems: ConfigurationProblem[] = [];
  const required = (name: string): string => {
    // A line break at the end is common: from `echo secret | base64`, and from files of Windows.
    const value = typeof env[name] === 'string' ? env[name].trim() : '';
    if (value === '') {
      problems.push({ path: name, expected: env[name] === undefined ? 'is not set' : 'is empty' });
    }
    return value;
  };
  const read = (option: keyof typeof HOST_VARIABLES): string => required(prefix + HOST_VARIABLES[option]);
  const isConfidential = env[prefix + HOST_VARIABLES['login.clientSecret']] !== undefined;

  const tenant = {
    tenantId: read('tenantId'),
    baseUrl: read('baseUrl'),
    authUrl: read('authUrl'),
    clientId: read('clientId'),
    clientSecret: read('clientSecret'),
    login: {
      clientId: read('login.clientId'),
      clientSecret: isConfidential ? read('login.clientSecret') : undefined,
      redirectUri: read('login.redirectUri'),
      issuer: read('login.issuer'),
      keys: read('login.keys'),
    },
  };
  const ownSecret = prefix + SECRET_VARIABLE;
  const secretName = env[ownSecret] === undefined ? SECRET_VARIABLE : ownSecret;
  const secretText = required(secretName);
  const parts = secretText.split(/ +/);
  const isLong = ({ length }: string): boolean => length >= SHORTEST_SECRET;
  if (parts.some(isLong) && !parts.every(isLong)) {
    const expected = `has spaces: each secret must have at least ${SHORTEST_SECRET} characters`;
    problems.push({ path: secretName, expected });
  }
  // A secret may have spaces of its own.
  const secrets = parts.every(isLong) ? parts : [secretText];

  const names = [...Object.values(HOST_VARIABLES), SECRET_VARIABLE].map((name) => prefix + name);
  const others = Object.keys(env).filter((name) => name.startsWith(prefix) && !names.includes(name));
  // Another call reads those of a longer prefix, such as `ACME_EU_`, and has a warning of its own. But where this tenant is not set, the
  // prefix may be the mistake, and `ACME_LOGIN_` begins names of this one.
  const { tenantId } = HOST_VARIABLES;
  const longer = others
    .filter((name) => tenant.tenantId !== '' && name.endsWith(`_${tenantId}`))
    .map((name) => name.slice(0, -tenantId.length))
    .filter((one) => !names.some((name) => name.startsWith(one)));
  const unread = others.filter((name) => !longer.some((one) => name.startsWith(one)));
  if (prefix !== '' && unread.length > 0) {
    new Logger('nestjs-exhibitor').warn(`not read, since no variable has this name: ${unread.join(', ')}`);
  }
  if (names.every((name) => !env[name])) {
    problems.push({ path: '', expected: NOT_LOADED });
  }
  if (problems.length > 0) {
    throw new ConfigurationError(problems);
  }
  return { tenant, secrets };
}
