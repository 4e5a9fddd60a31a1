import { KeyObject } from 'node:crypto';
import * as v from 'valibot';
import { ConfigurationError, type ConfigurationProblem } from '../errors/configuration.error.js';
import { ExhibitorError } from '../errors/exhibitor.error.js';
import { isExhibitorError, type AnyExhibitorError } from '../errors/is-exhibitor-error.js';
import { digestOf } from '../model/digest.js';
import { untrustedText } from '../model/untrusted-text.js';
import type { Call } from '../call/call.js';
import { checkTenant } from './check-options.js';
import type { ExhibitorSettings } from './exhibitor-settings.js';
import type { SourceReads } from './source-reads.js';
import { Tenant } from './tenant.js';

/** Limits that are no larger than those of the module: all tenants share its process. */
const LIMITS = ['deadline', 'attemptTimeout', 'attempts', 'maxResponseBytes', 'maxConcurrent'] as const;

const SOURCE = 'the tenant source';

const problemsSchema = v.array(v.object({ path: v.string(), expected: v.string() }));

/** Why a key has no tenant: the source knows none, or answered these wrong options. No error: one of a request has a stack of 7 kB. */
export type Refusal = 'unknown' | readonly ConfigurationProblem[];

export interface ReadTenant {
  readonly tenant: Tenant;
  /** Of the settings that were read from what the source answered. */
  readonly digest: string;
}

/**
 * How a read ended. The last two also where the module closed.
 *
 * | kind        | where                                                          |
 * | ----------- | -------------------------------------------------------------- |
 * | `found`     | the source answered good options                               |
 * | `refused`   | it knows no such tenant, or answered wrong options             |
 * | `failed`    | it threw or was late, or `allowedOrigins` threw                |
 * | `not asked` | our own limit: the read had no place in time, or too many wait |
 */
export type Reading =
  | { readonly kind: 'found'; readonly found: ReadTenant }
  | { readonly kind: 'refused'; readonly refusal: Refusal }
  | { readonly kind: 'failed'; readonly what: string; readonly error: ExhibitorError }
  | { readonly kind: 'not asked'; readonly error: unknown };

/**
 * Reads a tenant from its source. Never rejects.
 *
 * @param before the tenant as it was read last: its state is kept where its options are the same
 * @param call the read, as for {@link SourceReads.find}
 */
export async function readTenant(
  source: SourceReads,
  key: string,
  rules: ExhibitorSettings,
  before: ReadTenant | undefined,
  call: Call,
): Promise<Reading> {
  try {
    const options = await source.find(key, before !== undefined, call);
    // Many databases answer null for a missing row.
    if (options === undefined || options === null) {
      return { kind: 'refused', refusal: 'unknown' };
    }
    // An accessor of an entity may throw: it is code of the source, too.
    const settings = checkTenant(options, key, rules);
    for (const name of LIMITS) {
      if ((settings.http?.[name] ?? 0) > rules.http[name]) {
        settings.http = { ...settings.http, [name]: rules.http[name] };
      }
    }
    const digest = digestOf(JSON.stringify(settings, comparable));
    const state = digest === before?.digest ? before.tenant.stateKey : undefined;
    return { kind: 'found', found: { tenant: new Tenant(key, settings, rules.http, state), digest } };
  } catch (error) {
    return call.partner.isSuspect ? readingOf(error, key) : { kind: 'not asked', error };
  }
}

/** What it means that the source threw or was late, or that its options are refused. */
function readingOf(thrown: unknown, key: string): Reading {
  try {
    if (isExhibitorError(thrown)) {
      return readingOfOwn(thrown);
    }
  } catch {
    // A host may throw anything, also what throws when it is read.
  }
  const details = { tenant: untrustedText(key), cause: thrown };
  const error = new ExhibitorError('service_unavailable', 'the tenant source failed', details);
  return { kind: 'failed', what: SOURCE, error };
}

/** The same of an error of this package, which the host may have created. */
function readingOfOwn(error: AnyExhibitorError): Reading {
  if (error.code === 'unknown_tenant') {
    return { kind: 'refused', refusal: 'unknown' };
  }
  const problems = error.code === 'configuration_invalid' ? error.problems : undefined;
  const named = v.safeParse(problemsSchema, problems);
  // An error of the host may have that code, and name no options.
  if (!named.success) {
    return { kind: 'failed', what: SOURCE, error };
  }
  return error.isOfHost === true
    ? { kind: 'failed', what: 'the option allowedOrigins', error }
    : { kind: 'refused', refusal: named.output };
}

export function refusalError(refusal: Refusal, key: string): ExhibitorError {
  return refusal === 'unknown' ? unknownTenant(key) : new ConfigurationError(refusal, untrustedText(key));
}

export function unknownTenant(key: string): ExhibitorError {
  return new ExhibitorError('unknown_tenant', 'there is no such tenant', { tenant: untrustedText(key) });
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
