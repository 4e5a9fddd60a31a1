import * as v from 'valibot';
import { ConfigurationError } from '../errors/configuration.error.js';
import { isRecord } from '../model/json-values.js';
import { untrustedText } from '../model/untrusted-text.js';
import { moduleSchema, type ExhibitorSettings } from './exhibitor-settings.js';
import { moduleRules, requireIssOfShared, tenantRules } from './option-rules.js';
import { tenantSchema, type TenantSettings } from './tenant-settings.js';
import type { TenantSource } from './tenant-options.interface.js';
import { ONE_PROBLEM, optionsOf, problemsOf } from './value-schemas.js';

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

const isSource = (value: unknown): boolean => isRecord(value) && typeof value['find'] === 'function';

const MAX_KEY_BYTES = 128;
const tenantKey = v.pipe(v.string(), v.check(isTenantKey, `must have a key of 1 to ${MAX_KEY_BYTES} bytes`));

const tenantsByKey = v.pipe(
  v.custom<Record<string, unknown>>(
    (value) => isRecord(value) && Object.keys(value).length > 0,
    'must be an object of one or more tenants by key, or have a find method',
  ),
  v.transform((tenants) => new Map(Object.entries(tenants))),
  // `v.record` would leave out a tenant with the key `constructor`.
  v.map(tenantKey, tenantSchema),
);

const optionsSchema = optionsOf(
  {
    ...moduleSchema.entries,
    tenant: v.optional(tenantSchema),
    tenants: v.optional(
      v.lazy((value) => (isSource(value) ? v.custom<TenantSource>(isSource) : tenantsByKey)),
    ),
  },
  'must be an object of options',
);

/**
 * Checks all options, once, at boot: their shapes; then, where all of these are right, the rules between options.
 *
 * @throws {ConfigurationError} with every wrong shape, or else every broken rule, by option path
 */
export function checkOptions(input: unknown): CheckedOptions {
  const parsed = v.safeParse(optionsSchema, input, ONE_PROBLEM);
  if (!parsed.success) {
    throw new ConfigurationError(problemsOf(parsed.issues));
  }
  const { tenant, tenants: given, ...settings } = parsed.output;
  const tenants = tenant === undefined ? given : new Map([[SINGLE_TENANT, tenant]]);
  if (tenants === undefined || (tenant !== undefined && given !== undefined)) {
    throw new ConfigurationError([
      { path: 'tenants', expected: 'exactly one of tenant and tenants must be given' },
    ]);
  }
  const pathOf = tenant === undefined ? pathInTenants : () => 'tenant';
  const problems = moduleRules(settings, tenants);
  if (tenants instanceof Map) {
    problems.push(...[...tenants].flatMap(([key, one]) => tenantRules(one, key, pathOf(key), settings)));
  }
  if (problems.length > 0) {
    throw new ConfigurationError(problems);
  }
  if (tenants instanceof Map) {
    requireIssOfShared(tenants);
  }
  return { settings, tenants, pathOf };
}

/**
 * Checks the options of a tenant that is known only at run time, in the same two stages.
 *
 * @throws {ConfigurationError}
 */
export function checkTenant(input: unknown, key: string, settings: ExhibitorSettings): TenantSettings {
  const path = pathInTenants(key);
  const parsed = v.safeParse(tenantSchema, input, ONE_PROBLEM);
  if (!parsed.success) {
    // Hosts may store options that customers write, names included, and any number of them.
    const problems = problemsOf(parsed.issues.slice(0, 100), path);
    throw new ConfigurationError(
      problems.map((one) => ({ ...one, path: untrustedText(one.path, 300) })),
      untrustedText(key),
    );
  }
  const tenant = parsed.output;
  const problems = [
    ...moduleRules(settings, new Map([[key, tenant]])),
    ...tenantRules(tenant, key, path, settings),
  ];
  if (problems.length > 0) {
    throw new ConfigurationError(problems, untrustedText(key));
  }
  if (tenant.login !== undefined) {
    // Nobody knows who else shares its `redirectUri`.
    tenant.login.requireIss ??= true;
  }
  return tenant;
}

/** In bytes of UTF-8: keys of a source come from requests, and unknown ones are remembered. */
export function isTenantKey(key: string): boolean {
  return key !== '' && Buffer.byteLength(key) <= MAX_KEY_BYTES;
}

/** Keys of a source may come from requests. */
function pathInTenants(key: string): string {
  return `tenants.${untrustedText(key)}`;
}
