import { readFile } from 'node:fs/promises';
import { relative, resolve } from 'node:path';
import { pathToFileURL } from 'node:url';
import { parseArgs } from 'node:util';
import { HOST_VARIABLES } from '../../model/host-variables.js';
import type { Finding } from './finding.js';

const NAMES = Object.values(HOST_VARIABLES);
const HOW_TO_READ = `Node reads an env file: node --env-file=FILE ${relative('', process.argv[1] ?? '')} doctor`;

export const help = `Usage: nestjs-exhibitor doctor [options]

Names the values from onboarding that are wrong. It sends at most a dozen requests, and logs nobody in.

Where the values are:
  (default)         Environment variables: ${NAMES.slice(0, 5).join(', ')},
                    ${NAMES.slice(5).join(', ')}
                    ${HOW_TO_READ}
  --env PREFIX_     What the names of these variables begin with.
  --config FILE     JSON with the options of a tenant, or those of the module.
  --options FILE    A module that exports such options, or an async function that returns them, as default or 'options'.
  --tenant KEY      The tenant, where there are several.

What to test with them:
  --event ID        The list of this event.
  --email ADDRESS   The lookup of this contact at the event.
  --start-url URL   The page where logins start: whether browsers send its cookies to the callback and back.
  --json            Prints each finding as a line of JSON.

Exit code: 0 nothing is wrong, 1 something is wrong, 2 the check could not run.`;

const text = { type: 'string' } as const;
const where = { env: text, config: text, options: text, tenant: text } as const;
const what = { event: text, email: text, 'start-url': text, json: { type: 'boolean' } } as const;

/** Prints a line for each step. Resolves with the exit code. */
export async function run(args: string[]): Promise<number> {
  const { values } = parseArgs({ args, options: { ...where, ...what } });
  const { env = '', config, options, tenant } = values;
  const variables = Object.entries(HOST_VARIABLES).map(([path, name]) => [path, env + name] as const);
  const isFile = (config ?? options) !== undefined;
  const found = isFile ? await load(config, options) : fromEnvironment(variables);
  const hints = { eventId: values.event, contactEmail: values.email, startUrl: values['start-url'] };
  const flags = { eventId: '--event', contactEmail: '--email', startUrl: '--start-url' };
  const sources = new Map([...Object.entries(flags), ...(isFile ? [] : variables)]);
  // --help does not need Nest, whose logger announces each application context.
  const { Logger } = await import('@nestjs/common');
  const { diagnoseModule } = await import('./diagnose.js');
  Logger.overrideLogger(false);
  let code = 0;
  for await (const finding of diagnoseModule(await pick(found, tenant), hints)) {
    console.log(values.json === true ? JSON.stringify(finding) : lineOf(finding, sources));
    code = finding.status === 'wrong' ? 1 : code;
  }
  return code;
}

/** @param sources what sets an option */
function lineOf(finding: Finding, sources: ReadonlyMap<string, string>): string {
  const { step, status, option, message, advice } = finding;
  const mark = status === 'wrong' ? 'WRONG' : status;
  const nameOf = (path: string): string => (sources.has(path) ? `${path} (${sources.get(path)})` : path);
  const options = option === undefined ? '' : `${option.split(', ').map(nameOf).join(', ')}: `;
  return `${mark.padEnd(8)}${step.padEnd(11)}${options}${[message, advice].filter(Boolean).join('. ')}`;
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

/** The options of a module with one tenant. Options of a tenant become such ones. They are not checked yet. */
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

/** @throws Error where none of the variables is set */
function fromEnvironment(variables: readonly (readonly [option: string, name: string])[]): unknown {
  const set = variables.filter(([, name]) => process.env[name]);
  if (set.length === 0) {
    const names = variables.map(([, name]) => name).join(', ');
    throw new Error(`no values: set ${names}, or name a file. ${HOW_TO_READ}`);
  }
  const tenant: Record<string, unknown> = {};
  for (const [path, name] of set) {
    const [option = '', inner] = path.split('.');
    const value = process.env[name]?.trim();
    tenant[option] = inner === undefined ? value : { ...Object(tenant[option]), [inner]: value };
  }
  return tenant;
}
