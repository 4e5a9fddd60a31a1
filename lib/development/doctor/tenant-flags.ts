import { readFile } from 'node:fs/promises';
import { relative, resolve } from 'node:path';
import { pathToFileURL } from 'node:url';
import { HOST_VARIABLES, SECRET_VARIABLE } from '../../model/host-variables.js';

/** Where the commands that ask a service find the options of a tenant. */

const NAMES = [...Object.values(HOST_VARIABLES), SECRET_VARIABLE];
const text = { type: 'string' } as const;

/** For `parseArgs`. */
export const TENANT_FLAGS = { env: text, config: text, options: text, tenant: text } as const;

type TenantFlags = Readonly<Partial<Record<keyof typeof TENANT_FLAGS, string>>>;

/** The help on these flags. */
export function tenantHelp(command: string): string {
  return `Where the values are:
  (default)         Environment variables: ${NAMES.slice(0, 5).join(', ')},
                    ${NAMES.slice(5).join(', ')}
                    ${howToRead(command)}
  --env PREFIX_     What the names of these variables begin with.
  --config FILE     JSON with the options of a tenant, or those of the module.
  --options FILE    A module that exports such options, or an async function that returns them, as default or 'options'.
  --tenant KEY      The tenant, where there are several.`;
}

function howToRead(command: string): string {
  return `Node reads an env file: node --env-file=FILE ${relative('', process.argv[1] ?? '')} ${command}`;
}

/**
 * The options of a module with one tenant. They are not checked yet.
 *
 * @throws Error where they cannot be read
 * @throws {ConfigurationError} with the options whose environment variables a host refuses, or that are in quotes
 */
export async function readTenant(
  { env = '', config, options, tenant }: TenantFlags,
  command: string,
): Promise<Record<string, unknown>> {
  const isInFile = (config ?? options) !== undefined;
  return pick(isInFile ? await load(config, options) : await fromEnvironment(env, command), tenant);
}

/** The environment variable that sets an option, by the path of the option. */
export function variablesOf({ env = '', config, options }: TenantFlags): ReadonlyMap<string, string> {
  if ((config ?? options) !== undefined) {
    return new Map();
  }
  const ofTenant = Object.entries(HOST_VARIABLES).map(([path, name]) => [path, env + name] as const);
  const secret = process.env[env + SECRET_VARIABLE] === undefined ? SECRET_VARIABLE : env + SECRET_VARIABLE;
  return new Map([...ofTenant, ['secrets.0', secret]]);
}

/** The JSON of a file; or the default export of a module, or its `options`, or what that function returns. */
async function load(config: string | undefined, options = ''): Promise<unknown> {
  try {
    if (config !== undefined) {
      return JSON.parse(await readFile(config, 'utf8'));
    }
    const module: Record<string, unknown> = await import(pathToFileURL(resolve(options)).href);
    // The `default` of a CommonJS module is all that it exports.
    const main = Object(module['default'] ?? module);
    const exported: unknown = main.default ?? main.options ?? main;
    return typeof exported === 'function' ? await exported() : exported;
  } catch (error) {
    const { code, name = 'unknown error' }: { code?: string; name?: string } = Object(error);
    // oxlint-disable-next-line preserve-caught-error -- its message may quote the file
    throw new Error(`${config ?? options} cannot be read (${code ?? name})`);
  }
}

/** Options of a tenant become those of a module with one tenant. */
async function pick(found: unknown, named: string | undefined): Promise<Record<string, unknown>> {
  const { tenants, ...module }: Record<string, unknown> = Object(found);
  if (tenants === undefined) {
    return 'tenant' in module ? module : { tenant: module };
  }
  const source = Object(tenants);
  const isSource = typeof source.find === 'function';
  const keys = isSource ? [] : Object.keys(source);
  const key = named ?? (keys.length > 1 ? undefined : keys[0]);
  if (key === undefined) {
    throw new Error(`there are several tenants: name one with --tenant (${keys.join(', ') || '…'})`);
  }
  const tenant: unknown = isSource ? await source.find(key) : new Map(Object.entries(source)).get(key);
  if (tenant === undefined || tenant === null) {
    throw new Error(`there is no tenant '${key}'`);
  }
  return { ...module, tenant };
}

/** As the host of the README reads it, but for quotes: Docker and Kubernetes keep those of an env file, which no host means. */
async function fromEnvironment(prefix: string, command: string): Promise<unknown> {
  if (!isPrefix(prefix)) {
    throw new Error(`--env ${prefix}: the prefix of variables ends with _`);
  }
  const variables = variablesOf({ env: prefix });
  const ofTenant = [...variables.values()].filter((name) => name !== SECRET_VARIABLE);
  if (ofTenant.every((name) => !process.env[name])) {
    throw new Error(`no values: set ${ofTenant.join(', ')}, or name a file. ${howToRead(command)}`);
  }
  // --help does not need Nest.
  const { ConfigurationError } = await import('../../errors/configuration.error.js');
  const { exhibitorOptionsFrom } = await import('../../config/environment-options.js');
  const quoted = [...variables]
    .filter(([, name]) => /^(["'`]).*\1$/s.test(process.env[name]?.trim() ?? ''))
    .map(([path]) => ({ path, expected: 'is in quotes, which are a part of the value: write it without' }));
  if (quoted.length > 0) {
    throw new ConfigurationError(quoted);
  }
  try {
    return exhibitorOptionsFrom(process.env, { prefix });
  } catch (error) {
    const paths = new Map([...variables].map(([path, name]) => [name, path]));
    throw error instanceof ConfigurationError
      ? new ConfigurationError(
          error.problems.map((one) => ({ ...one, path: paths.get(one.path) ?? one.path })),
        )
      : error;
  }
}

function isPrefix(given: string): given is '' | `${string}_` {
  return /^$|_$/.test(given);
}
