import * as v from 'valibot';
import { ConfigurationError, type ConfigurationProblem } from '../errors/configuration.error.js';
import { untrustedText } from '../model/untrusted-text.js';
import { isRecord } from '../model/json-values.js';
import { foreignUrls, moduleNeeds, tenantUnder, type TenantRules } from './check-tenant.js';
import { moduleSchema, type ExhibitorSettings } from './exhibitor-settings.js';
import { problemsOf, refine, refineAny } from './value-schemas.js';
import type { TenantSettings } from './tenant-settings.js';
import type { TenantSource } from './tenant-options.interface.js';

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
  const parsed = v.safeParse(optionsUnder(rulesOf(input)), input);
  if (!parsed.success) {
    throw new ConfigurationError(problemsOf(parsed.issues));
  }
  const { tenant, tenants, ...settings } = parsed.output;
  if (tenants !== undefined) {
    // Keys of a source may come from requests.
    return { settings, tenants, pathOf: (key) => `tenants.${untrustedText(key)}` };
  }
  const fixed = new Map(tenant === undefined ? [] : [[SINGLE_TENANT, tenant]]);
  return { settings, tenants: fixed, pathOf: () => 'tenant' };
}

/** The module options that tenants are checked against. In place of a wrong one its default, since all problems are reported together. */
function rulesOf(input: unknown): TenantRules {
  const { session, allowedOrigins, secrets, cookies, store } = moduleSchema.entries;
  const defaults = v.parse(moduleSchema, {});
  const rules = v.object({
    session: v.fallback(session, defaults.session),
    allowedOrigins: v.fallback(allowedOrigins, undefined),
    // Wrong secrets are not missing.
    secrets: v.fallback(secrets, ['']),
    cookies: v.fallback(cookies, defaults.cookies),
    store: v.fallback(store, undefined),
  });
  return v.parse(rules, isRecord(input) ? input : {});
}

function optionsUnder(rules: TenantRules) {
  const tenant = tenantUnder(rules);
  return v.pipe(
    v.strictObject(
      {
        ...moduleSchema.entries,
        tenant: v.optional(
          v.pipe(
            tenant,
            refine((one) => foreignUrls(one, SINGLE_TENANT, rules)),
          ),
        ),
        tenants: v.optional(tenantsSchema(tenant, rules)),
      },
      'must be an object of options',
    ),
    // Checked also where other options are wrong.
    refineAny((options) => (isRecord(options) ? problemsBetween(options, rules) : [])),
  );
}

const ORIGINS_REQUIRED =
  'is required with a TenantSource: a tenant that copies the issuer of another and has a token endpoint of its own can receive ' +
  "the codes of the other's users and log in as them. List the origins of all services and providers that no tenant controls";

function problemsBetween(options: Record<string, unknown>, rules: TenantRules): ConfigurationProblem[] {
  const { tenant, tenants, allowedOrigins } = options;
  if ((tenant === undefined) === (tenants === undefined)) {
    return [{ path: 'tenants', expected: 'exactly one of tenant and tenants must be given' }];
  }
  const problems = moduleNeeds(tenants instanceof Map ? [...tenants.values()] : [tenant], rules);
  if (isSource(tenants) && allowedOrigins === undefined) {
    problems.push({ path: 'allowedOrigins', expected: ORIGINS_REQUIRED });
  }
  return problems;
}

const EXPECTED = 'must be an object of one or more tenants by key, or have a find method';

function tenantsSchema(tenant: ReturnType<typeof tenantUnder>, rules: TenantRules) {
  const byKey = v.pipe(
    v.custom<Record<string, unknown>>((value) => isRecord(value) && Object.keys(value).length > 0, EXPECTED),
    v.transform((tenants) => new Map(Object.entries(tenants))),
    // `v.record` would leave out a tenant with the key `constructor`.
    v.map(v.string(), tenant),
    refine((tenants) =>
      [...tenants].flatMap(([key, one]) =>
        foreignUrls(one, key, rules).map((problem) => ({ ...problem, path: `${key}.${problem.path}` })),
      ),
    ),
    v.check((tenants) => !tenants.has(''), 'must not have an empty key'),
  );
  return v.lazy((value) => (isSource(value) ? v.custom<TenantSource>(isSource) : byKey));
}

function isSource(value: unknown): boolean {
  return isRecord(value) && typeof value['find'] === 'function';
}
