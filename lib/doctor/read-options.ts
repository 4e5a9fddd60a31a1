import { readFile } from 'node:fs/promises';
import { resolve } from 'node:path';
import { pathToFileURL } from 'node:url';
import { CommandError } from '../bin/command.error.js';
import { HOST_VARIABLES } from '../bin/host-environment.js';
import type { TenantOptions } from '../options/tenant-options.interface.js';
import { isRecord } from '../model/json-values.js';
import { untrustedText } from '../model/untrusted-text.js';

/** Where the command finds the options of a tenant. */
interface Source {
  env?: string | undefined;
  config?: string | undefined;
  options?: string | undefined;
  tenant?: string | undefined;
}

/** @throws {CommandError} where they cannot be read */
export async function readOptions({ env = '', config, options, tenant }: Source): Promise<TenantOptions> {
  if (config !== undefined) {
    return pick(await load(config, async (file) => JSON.parse(await readFile(file, 'utf8'))), tenant);
  }
  return options === undefined ? fromEnvironment(env) : pick(await load(options, evaluate), tenant);
}

async function load(file: string, read: (file: string) => Promise<unknown>): Promise<unknown> {
  try {
    return await read(resolve(file));
  } catch (error) {
    // The message may quote the file.
    const { code, name = 'unknown error' }: { code?: string; name?: string } = Object(error);
    throw new CommandError(`${file} cannot be read (${code ?? name})`);
  }
}

/** The default export of a module, or its `options`, or what that function returns. */
async function evaluate(file: string): Promise<unknown> {
  const module: Record<string, unknown> = await import(pathToFileURL(file).href);
  const exported = module['default'] ?? module['options'];
  return typeof exported === 'function' ? exported() : exported;
}

/** The tenant in options of the module, or the options of a tenant themselves. `diagnose` checks them. */
async function pick(found: unknown, named: string | undefined): Promise<TenantOptions> {
  const { tenants, ...module } = isRecord(found) ? found : {};
  if (!isRecord(tenants)) {
    return isRecord(module['tenant']) ? withHttp(module['tenant'], module['http']) : withHttp(module, {});
  }
  const isSource = typeof tenants['find'] === 'function';
  const keys = isSource ? ['…'] : Object.keys(tenants);
  const [key = ''] = named === undefined ? keys : [named];
  if (named === undefined && (isSource || keys.length > 1)) {
    throw new CommandError(`there are several tenants: name one with --tenant (${keys.join(', ')})`);
  }
  const tenant: unknown = isSource
    ? await Reflect.apply(Object(tenants['find']), tenants, [key])
    : tenants[key];
  if (!isRecord(tenant)) {
    throw new CommandError(`there is no tenant '${untrustedText(key)}'`);
  }
  return withHttp(tenant, module['http']);
}

/** A tenant with the `http` options of the module. */
function withHttp(tenant: Record<string, unknown>, http: unknown): TenantOptions {
  return { ...tenant, http: { ...Object(http), ...Object(tenant['http']) } } as TenantOptions;
}

/** @throws {CommandError} where none of the variables is set */
function fromEnvironment(prefix: string): TenantOptions {
  const options: Record<string, string> = {};
  const login: Record<string, string> = {};
  const names = Object.entries(HOST_VARIABLES).map(([path, name]) => [path, `${prefix}${name}`] as const);
  for (const [path, name] of names) {
    const [first = '', inner] = path.split('.');
    const value = process.env[name];
    if (value !== undefined && value !== '') {
      (inner === undefined ? options : login)[inner ?? first] = value;
    }
  }
  const hasLogin = Object.keys(login).length > 0;
  if (!hasLogin && Object.keys(options).length === 0) {
    const all = names.map(([, name]) => name).join(', ');
    throw new CommandError(`no values: set ${all}, or name a file with --config or --options`);
  }
  return { ...options, ...(hasLogin ? { login } : {}) } as unknown as TenantOptions;
}
