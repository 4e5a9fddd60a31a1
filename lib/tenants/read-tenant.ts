import { isDeepStrictEqual } from 'node:util';
import { ConfigurationError } from '../errors/configuration.error.js';
import { ExhibitorError } from '../errors/exhibitor.error.js';
import { isExhibitorError } from '../errors/is-exhibitor-error.js';
import { untrustedText } from '../model/untrusted-text.js';
import { checkTenant } from '../options/check-tenant.js';
import type { TenantSettings } from '../options/tenant-settings.js';
import type { ExhibitorSettings } from '../options/exhibitor-settings.js';
import type { TenantSource } from '../options/tenant-options.interface.js';
import { httpCapped } from '../problems/host-problems.js';
import type { ThrottledLog } from '../problems/throttled-log.js';
import { TimeoutError, withTimeout } from '../time/with-timeout.js';
import { withRequireIss } from './require-iss.js';
import { Tenant } from './tenant.js';

/** Limits that are no larger than those of the module: all tenants share its process. */
const LIMITS = ['deadline', 'attemptTimeout', 'attempts', 'maxResponseBytes', 'maxConcurrent'] as const;

/** True where the source failed: it threw, rejected or did not answer. Wrong options are an answer. */
export function isSourceFailure(error: unknown): boolean {
  return !isExhibitorError(error) || error.code !== 'configuration_invalid';
}

/**
 * Reads a tenant from its source.
 *
 * @param before the tenant as it was read last: its state is kept where nothing but functions changed
 * @throws {ExhibitorError} `configuration_invalid`, `service_unavailable`, `deadline_exceeded`
 */
export async function readTenant(
  source: TenantSource,
  key: string,
  rules: ExhibitorSettings,
  before: Tenant | undefined,
  log: ThrottledLog,
): Promise<Tenant | undefined> {
  const options = await findInSource(source, key, rules.http.deadline);
  // Many databases answer null for a missing row.
  if (options === undefined || options === null) {
    return undefined;
  }
  const { settings, problems } = checkTenant(options, `tenants.${untrustedText(key)}`, rules);
  if (settings === undefined || problems.length > 0) {
    throw new ConfigurationError(problems, untrustedText(key));
  }
  const raised = LIMITS.filter((name) => (settings.http?.[name] ?? 0) > rules.http[name]);
  for (const name of raised) {
    settings.http = { ...settings.http, [name]: rules.http[name] };
  }
  const complete = withRequireIss(settings, true);
  const isUnchanged = before !== undefined && isSame(before.settings, complete);
  if (raised.length > 0 && !isUnchanged) {
    log.warn(httpCapped(key, raised), `http ${key}`);
  }
  return new Tenant(key, complete, rules.http, isUnchanged ? before.stateKey : undefined);
}

/** Guards and logins wait for the source without a deadline of their own. */
async function findInSource(source: TenantSource, key: string, deadline: number): Promise<unknown> {
  try {
    return await withTimeout(deadline, () => source.find(key));
  } catch (error) {
    if (isExhibitorError(error)) {
      // A host may throw `unknown_tenant` itself. It is remembered as any other answer that there is no such tenant.
      if (error.code === 'unknown_tenant') {
        return undefined;
      }
      throw error;
    }
    if (error instanceof TimeoutError) {
      throw new ExhibitorError('deadline_exceeded', 'the tenant source did not answer in time', {
        tenant: untrustedText(key),
      });
    }
    throw new ExhibitorError('service_unavailable', 'the tenant source failed', {
      tenant: untrustedText(key),
      cause: error,
    });
  }
}

/** Compares options without their functions, since a source creates new ones at each call, and without the dispatcher. */
function isSame(before: TenantSettings, after: TenantSettings): boolean {
  return isDeepStrictEqual(comparable(before), comparable(after));
}

function comparable({ http, ...settings }: TenantSettings): unknown {
  const { dispatcher: _dispatcher, ...limits } = http ?? {};
  return withoutFunctions({ ...settings, http: limits });
}

function withoutFunctions(value: unknown): unknown {
  if (typeof value === 'function') {
    return 'function';
  }
  if (typeof value !== 'object' || value === null || Array.isArray(value) || value.constructor !== Object) {
    return value;
  }
  return Object.fromEntries(Object.entries(value).map(([name, inner]) => [name, withoutFunctions(inner)]));
}
