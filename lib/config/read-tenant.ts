import { KeyObject } from 'node:crypto';
import { ExhibitorError } from '../errors/exhibitor.error.js';
import { isExhibitorError } from '../errors/is-exhibitor-error.js';
import { digestOf } from '../model/digest.js';
import { untrustedText } from '../model/untrusted-text.js';
import { checkTenant } from './check-options.js';
import type { ExhibitorSettings } from './exhibitor-settings.js';
import { Tenant } from './tenant.js';
import type { TenantSettings } from './tenant-settings.js';

/** Limits that are no larger than those of the module: all tenants share its process. */
const LIMITS = ['deadline', 'attemptTimeout', 'attempts', 'maxResponseBytes', 'maxConcurrent'] as const;

export interface ReadTenant {
  readonly tenant: Tenant;
  /** Of the settings that were read from what the source answered. */
  readonly digest: string;
}

/**
 * Reads a tenant from its source.
 *
 * @param read what the source answers
 * @param before the tenant as it was read last: its state is kept where its options are the same
 * @throws {ExhibitorError} `unknown_tenant`, `configuration_invalid`; `service_unavailable` and `deadline_exceeded` where the
 * source fails
 */
export async function readTenant(
  read: () => Promise<unknown>,
  key: string,
  rules: ExhibitorSettings,
  before: ReadTenant | undefined,
): Promise<ReadTenant> {
  const settings = await settingsInSource(read, key, rules);
  for (const name of LIMITS) {
    if ((settings.http?.[name] ?? 0) > rules.http[name]) {
      settings.http = { ...settings.http, [name]: rules.http[name] };
    }
  }
  const digest = digestOf(JSON.stringify(settings, comparable));
  const state = digest === before?.digest ? before.tenant.stateKey : undefined;
  return { tenant: new Tenant(key, settings, rules.http, state), digest };
}

export function unknownTenant(key: string): ExhibitorError {
  return new ExhibitorError('unknown_tenant', 'there is no such tenant', { tenant: untrustedText(key) });
}

async function settingsInSource(
  read: () => Promise<unknown>,
  key: string,
  rules: ExhibitorSettings,
): Promise<TenantSettings> {
  try {
    const options = await read();
    // Many databases answer null for a missing row.
    if (options === undefined || options === null) {
      throw unknownTenant(key);
    }
    // An accessor of an entity may throw: it is code of the source, too.
    return checkTenant(options, key, rules);
  } catch (error) {
    if (isExhibitorError(error)) {
      // A host may throw `unknown_tenant` itself.
      throw error.code === 'unknown_tenant' ? unknownTenant(key) : error;
    }
    const details = { tenant: untrustedText(key), cause: error };
    throw new ExhibitorError('service_unavailable', 'the tenant source failed', details);
  }
}

/**
 * Of a function counts only that there is one: a source creates new ones at each call, and the newest is called. The value is read
 * from its holder: `JSON.stringify` passes the result of a `toJSON` that a host has given its function.
 */
function comparable(this: Readonly<Record<string, unknown>>, name: string): unknown {
  const value = this[name];
  if (typeof value === 'function') {
    return { isFunction: true };
  }
  if (!(value instanceof KeyObject)) {
    return value;
  }
  try {
    return value.export({ format: 'jwk' });
  } catch {
    // A public RSA-PSS key, or one of a curve that JWK does not know. To write SPKI takes 50 times as long.
    return value.export({ type: 'spki', format: 'pem' });
  }
}
