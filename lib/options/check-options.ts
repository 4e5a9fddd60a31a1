import * as v from 'valibot';
import { ConfigurationError, type ConfigurationProblem } from '../errors/configuration.error.js';
import { checkTenant } from './check-tenant.js';
import { HTTP_DEFAULTS, moduleSchema, type ExhibitorSettings } from './exhibitor-settings.js';
import { foreignText } from '../model/foreign-text.js';
import { isRecord } from '../model/json-values.js';
import { problemsOf } from './option-schemas.js';
import type { TenantSettings } from './tenant-settings.js';
import type { TenantSource } from './tenant-source.interface.js';

/** Injection token of the {@link CheckedOptions}. */
export const CHECKED_OPTIONS = Symbol('nestjs-exhibitor:checked-options');

/** Key of the tenant given as `tenant`. */
export const SINGLE_TENANT = 'default';

/** Checked options: the module settings, and the fixed tenants or their source. */
export interface CheckedOptions {
  settings: ExhibitorSettings;
  tenants: ReadonlyMap<string, TenantSettings> | TenantSource;
  /** Option path of a tenant: `tenant`, or `tenants.acme`. */
  pathOf: (key: string) => string;
}

/**
 * Checks all options, once, at boot.
 *
 * @throws {ConfigurationError} with every problem and its option path
 */
export function checkOptions(input: unknown): CheckedOptions {
  const parsed = v.safeParse(moduleSchema, input);
  const settings = parsed.success ? withDefaults(parsed.output) : undefined;
  const problems = parsed.success ? [] : problemsOf(parsed.issues);
  const given = tenantsOf(input, problems);
  if (given === undefined || 'find' in given) {
    const checked = refuseProblems(problems, settings);
    if (given === undefined) {
      throw new ConfigurationError(problems);
    }
    return { settings: requireStoreSecrets(checked), tenants: given, pathOf: pathAmongTenants };
  }
  // Where a module option is wrong, the tenants are checked against the defaults, so that all problems are reported together.
  const rules = settings ?? withDefaults(v.parse(moduleSchema, {}));
  const tenants = new Map<string, TenantSettings>();
  for (const [key, path, options] of given.entries) {
    const checked = checkTenant(options, path, rules);
    problems.push(
      ...checked.problems.filter(({ path: at }) => settings !== undefined || at.startsWith(path)),
    );
    if (checked.settings !== undefined) {
      tenants.set(key, checked.settings);
    }
  }
  const complete = requireStoreSecrets(refuseProblems(distinct(problems), settings));
  return { settings: complete, tenants, pathOf: given.pathOf };
}

/** Keys of a source may come from requests. */
function pathAmongTenants(key: string): string {
  return `tenants.${foreignText(key)}`;
}

function withDefaults(options: v.InferOutput<typeof moduleSchema>): ExhibitorSettings {
  const { tenant: _tenant, tenants: _tenants, http, ...rest } = options;
  return { ...rest, http: { ...HTTP_DEFAULTS, ...http } };
}

function refuseProblems(
  problems: readonly ConfigurationProblem[],
  settings: ExhibitorSettings | undefined,
): ExhibitorSettings {
  if (problems.length > 0 || settings === undefined) {
    throw new ConfigurationError(problems);
  }
  return settings;
}

function requireStoreSecrets(settings: ExhibitorSettings): ExhibitorSettings {
  if (settings.store === undefined || settings.secrets.length > 0) {
    return settings;
  }
  throw new ConfigurationError([{ path: 'secrets', expected: 'is required with store' }]);
}

type Given =
  | TenantSource
  | { entries: [key: string, path: string, options: unknown][]; pathOf: CheckedOptions['pathOf'] };

function tenantsOf(input: unknown, problems: ConfigurationProblem[]): Given | undefined {
  if (!isRecord(input)) {
    return undefined;
  }
  const { tenant, tenants } = input;
  if ((tenant === undefined) === (tenants === undefined)) {
    problems.push({ path: 'tenants', expected: 'exactly one of tenant and tenants must be given' });
    return undefined;
  }
  if (tenant !== undefined) {
    return { entries: [[SINGLE_TENANT, 'tenant', tenant]], pathOf: () => 'tenant' };
  }
  if (isSource(tenants)) {
    return tenants;
  }
  if (!isRecord(tenants) || Object.keys(tenants).length === 0) {
    problems.push({
      path: 'tenants',
      expected: 'must be an object of one or more tenants by key, or have a find method',
    });
    return undefined;
  }
  if (Object.hasOwn(tenants, '')) {
    problems.push({ path: 'tenants', expected: 'must not have an empty key' });
  }
  return {
    entries: Object.entries(tenants).map(([key, options]) => [key, `tenants.${key}`, options]),
    pathOf: pathAmongTenants,
  };
}

function distinct(problems: readonly ConfigurationProblem[]): ConfigurationProblem[] {
  return [...new Map(problems.map((problem) => [`${problem.path} ${problem.expected}`, problem])).values()];
}

function isSource(value: unknown): value is TenantSource {
  return isRecord(value) && typeof value['find'] === 'function';
}
