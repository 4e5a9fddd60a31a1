import { Logger } from '@nestjs/common';
import { ConfigurationError, type ConfigurationProblem } from '../errors/configuration.error.js';
import { HOST_VARIABLES, SECRET_VARIABLE } from '../model/host-variables.js';
import { untrustedText } from '../model/untrusted-text.js';
import type { LoginOptions, TenantOptions } from './tenant-options.interface.js';
import { NOT_LOADED } from './value-schemas.js';

/** What {@link exhibitorOptionsFrom} answers. */
export interface EnvironmentOptions {
  /** A tenant with a login. */
  tenant: TenantOptions & { login: LoginOptions };
  /** The value of `COOKIE_SECRET`. */
  secrets: string[];
}

/**
 * Reads a tenant and `secrets` from environment variables: `TENANT_ID`, `BASE_URL`, `AUTH_URL`, `API_CLIENT_ID`,
 * `API_CLIENT_SECRET`, `LOGIN_CLIENT_ID`, `LOGIN_CLIENT_SECRET` (not set: a public client), `REDIRECT_URI`, `ISSUER`,
 * `IDP_PUBLIC_KEY` (a PEM may be one line, with `\n` for line breaks) and `COOKIE_SECRET`. These are the names of
 * `npx nestjs-exhibitor sandbox --write-env` and of the doctor. The module checks the values when it starts.
 *
 * Call it in `useFactory`, so that variables count that are set after the import, as by tests.
 *
 * Warned about are values in quotes, since they are part of the value, and in one line the variables with the prefix that have none
 * of these names. Without a prefix, those are the names that begin with `LOGIN_CLIENT`: of all variables only the secret of the
 * login may be missing, so that a mistake in its name would be no error.
 *
 * @param env usually `process.env`
 * @param options `prefix` begins the names of one of several tenants, as in `ACME_TENANT_ID`. `COOKIE_SECRET` may be without it.
 * @throws {ConfigurationError} `configuration_invalid` with all variables that are not set or empty. No value is shown.
 * @example
 * ExhibitorModule.forRootAsync({ isGlobal: true, useFactory: () => exhibitorOptionsFrom(process.env) });
 * @example
 * useFactory: () => {
 *   const { tenant: acme, secrets } = exhibitorOptionsFrom(process.env, { prefix: 'ACME_' });
 *   const { tenant: globex } = exhibitorOptionsFrom(process.env, { prefix: 'GLOBEX_' });
 *   return { tenants: { acme, globex }, secrets, resolveTenant: ({ params }) => params?.['tenant'] };
 * },
 */
export function exhibitorOptionsFrom(
  env: Readonly<Record<string, string | undefined>>,
  { prefix = '' }: { prefix?: '' | `${string}_` | undefined } = {},
): EnvironmentOptions {
  const given: Record<string, unknown> = { ...env };
  const problems: ConfigurationProblem[] = [];
  const logger = new Logger('nestjs-exhibitor');
  const read = (name: string): string => {
    const value = given[name];
    return typeof value === 'string' && value.trim() !== '' ? value : '';
  };
  const required = (name: string, where = prefix + name): string => {
    const value = read(where);
    if (value === '') {
      problems.push({ path: where, expected: given[where] === undefined ? 'is not set' : 'is empty' });
    }
    if (/^(["']).*\1$/s.test(value)) {
      const reason = 'which is part of its value: docker --env-file keeps quotes';
      logger.warn(`${where} begins and ends with a quote, ${reason}`);
    }
    return value;
  };
  const optional = (name: string): string | undefined =>
    given[prefix + name] === undefined ? undefined : required(name);

  const names = HOST_VARIABLES;
  const tenant = {
    tenantId: required(names.tenantId),
    baseUrl: required(names.baseUrl),
    authUrl: required(names.authUrl),
    clientId: required(names.clientId),
    clientSecret: required(names.clientSecret),
    login: {
      clientId: required(names['login.clientId']),
      clientSecret: optional(names['login.clientSecret']),
      redirectUri: required(names['login.redirectUri']),
      issuer: required(names['login.issuer']),
      keys: required(names['login.keys']),
    },
  };
  const ownSecret = prefix + SECRET_VARIABLE;
  const secrets = [required(SECRET_VARIABLE, read(ownSecret) === '' ? SECRET_VARIABLE : ownSecret)];

  const known = [...Object.values(names), SECRET_VARIABLE].map((name) => prefix + name);
  const others = Object.keys(given).filter(
    (name) => name.startsWith(prefix || 'LOGIN_CLIENT') && !known.includes(name),
  );
  if (others.length > 0) {
    logger.warn(`not read, since no variable has this name: ${untrustedText(others.join(', '), 300)}`);
  }
  if (problems.length > 0) {
    const isAny = Object.values(names).some((name) => read(prefix + name) !== '');
    throw new ConfigurationError(problems, undefined, undefined, isAny ? undefined : NOT_LOADED);
  }
  return { tenant, secrets };
}
