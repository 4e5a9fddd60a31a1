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

/** Names that are warned about at most: a short prefix may be that of a whole system. */
const MOST_WARNINGS = 20;

/** A name that differs from a known one by so many letters is taken for a mistake. */
const LIKELY_MISTAKE = 2;

/** What Kubernetes sets for each service of a namespace: `ACME_PORT`, `ACME_SERVICE_HOST`, `ACME_PORT_80_TCP_ADDR`. */
const SERVICE_LINK = /(?:^|_)(?:PORT(?:_|$)|SERVICE_)/;

/**
 * Reads a tenant and `secrets` from environment variables: `TENANT_ID`, `BASE_URL`, `AUTH_URL`, `API_CLIENT_ID`,
 * `API_CLIENT_SECRET`, `LOGIN_CLIENT_ID`, `LOGIN_CLIENT_SECRET` (not set: a public client), `REDIRECT_URI`, `ISSUER`,
 * `IDP_PUBLIC_KEY` (a PEM may be one line, with `\n` for line breaks) and `COOKIE_SECRET`. These are the names of
 * `npx nestjs-exhibitor sandbox --write-env` and of the doctor. The module checks the values when it starts.
 *
 * Call it in `useFactory`, so that variables count that are set after the import, as by tests.
 *
 * A value in quotes is warned about, since they are part of it. A variable with the prefix that has none of these names is warned about, unless Kubernetes sets it for a service; without a
 * prefix, one that is nearly the name of a variable that is not set.
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
  const read = (name: string): string => {
    const value = given[name];
    return typeof value === 'string' && value.trim() !== '' ? value : '';
  };
  const required = (name: string, where = prefix + name): string => {
    const expected = given[where] === undefined ? 'is not set' : 'is empty';
    const value = read(where);
    if (value === '') {
      problems.push({ path: where, expected });
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
  const secrets = [read(prefix + SECRET_VARIABLE) || required(SECRET_VARIABLE, SECRET_VARIABLE)];

  const known = [...Object.values(names), SECRET_VARIABLE].map((name) => prefix + name);
  new Set([...known, SECRET_VARIABLE]).forEach((name) => warnAboutQuotes(name, read(name)));
  warnAboutNames(given, prefix, (name) => read(prefix + name) !== '');
  if (problems.length > 0) {
    const isAny = Object.values(names).some((name) => read(prefix + name) !== '');
    throw new ConfigurationError(problems, undefined, undefined, isAny ? undefined : NOT_LOADED);
  }
  return { tenant, secrets };
}

function warnAboutQuotes(name: string, value: string): void {
  if (value.length > 1 && '"\'`'.includes(value.charAt(0)) && value.endsWith(value.charAt(0))) {
    const line = 'begins and ends with a quote, which is part of its value: docker --env-file keeps quotes';
    new Logger('nestjs-exhibitor').warn(`${name} ${line}`);
  }
}

function warnAboutNames(given: object, prefix: string, isSet: (name: string) => boolean): void {
  const known: string[] = [...Object.values(HOST_VARIABLES), SECRET_VARIABLE];
  const meant = prefix === '' ? known.filter((name) => !isSet(name)) : known;
  const lines = Object.keys(given).flatMap((name) => {
    const own = name.slice(prefix.length);
    if (!name.startsWith(prefix) || known.includes(own) || (prefix !== '' && SERVICE_LINK.test(own))) {
      return [];
    }
    const letters = own.toUpperCase();
    const [nearest = ''] = meant.toSorted(
      (one, other) => difference(letters, one) - difference(letters, other),
    );
    const isNear = difference(letters, nearest) <= LIKELY_MISTAKE;
    if (isNear || (prefix !== '' && letters.endsWith(`_${nearest}`))) {
      return [`${untrustedText(name)} is not read: is ${prefix}${nearest} meant?`];
    }
    return prefix === '' ? [] : [`${untrustedText(name)} is not read`];
  });
  const logger = new Logger('nestjs-exhibitor');
  lines.slice(0, MOST_WARNINGS).forEach((line) => logger.warn(line));
}

/** Letters of the longer text without those that both have at their beginning and at their end. */
function difference(one: string, other: string): number {
  const shorter = Math.min(one.length, other.length);
  let begin = 0;
  while (begin < shorter && one[begin] === other[begin]) {
    begin += 1;
  }
  let end = 0;
  while (end < shorter - begin && one.at(-1 - end) === other.at(-1 - end)) {
    end += 1;
  }
  return Math.max(one.length, other.length) - begin - end;
}
