import * as v from 'valibot';
import { isRecord } from '../model/json-values.js';
import { endpointUrl, isAllowedUrl, type AllowedOrigins } from '../options/value-schemas.js';
import type { EndpointName } from '../tenants/tenant.js';

/** Members of the metadata that are used (OpenID Connect Discovery 1.0 §3, RP-Initiated Logout 1.0 §2.1). */
const MEMBERS: Readonly<Record<EndpointName | 'keys', string>> = {
  authorize: 'authorization_endpoint',
  token: 'token_endpoint',
  userinfo: 'userinfo_endpoint',
  endSession: 'end_session_endpoint',
  keys: 'jwks_uri',
};

export type MetadataUrl = keyof typeof MEMBERS;

/** A URL that must not be used, with what was expected and received. */
export interface RefusedUrl {
  expected: string;
  received: string;
}

/** The metadata of a provider, as far as it is used. It never adds algorithms or kinds of client authentication. */
export interface Metadata {
  urls: Readonly<Partial<Record<MetadataUrl, string | RefusedUrl>>>;
  /** True where every authorization response has an `iss` (RFC 9207 §3). */
  sendsIss: boolean;
}

/** Metadata that must not be used; `received` is its issuer. */
export interface RefusedMetadata {
  reason: 'provider' | 'issuer';
  received: string;
}

/**
 * Reads the metadata of a provider. Its issuer must be the configured one, character by character (Discovery 1.0 §4.3).
 */
export function parseMetadata(body: unknown, issuer: string): Metadata | RefusedMetadata {
  if (!isRecord(body)) {
    return { reason: 'provider', received: 'no object' };
  }
  if (body['issuer'] !== issuer) {
    return { reason: 'issuer', received: `issuer ${shown(body['issuer'])}` };
  }
  const urls: Partial<Record<MetadataUrl, string | RefusedUrl>> = {};
  for (const [name, member] of Object.entries(MEMBERS) as [MetadataUrl, string][]) {
    const value = body[member];
    if (value !== undefined && value !== null) {
      urls[name] = checkUrl(value, member);
    }
  }
  return { urls, sendsIss: body['authorization_response_iss_parameter_supported'] === true };
}

/** The rules for URLs of the options: secrets and codes are sent there. */
function checkUrl(value: unknown, member: string): string | RefusedUrl {
  const parsed = v.safeParse(endpointUrl, value);
  if (!parsed.success) {
    return { expected: `${member} ${parsed.issues[0].message}`, received: shown(value) };
  }
  return parsed.output;
}

/** The URLs of the metadata, of which the tenant may use those on its `allowedOrigins`. */
export function urlsFor(
  { urls }: Metadata,
  tenantKey: string,
  allowedOrigins: AllowedOrigins | undefined,
): Metadata['urls'] {
  const checked: Partial<Record<MetadataUrl, string | RefusedUrl>> = { ...urls };
  for (const [name, url] of Object.entries(urls) as [MetadataUrl, string | RefusedUrl][]) {
    if (typeof url === 'string' && !isAllowedUrl(url, tenantKey, allowedOrigins)) {
      checked[name] = { expected: `${MEMBERS[name]} on one of allowedOrigins`, received: url };
    }
  }
  return checked;
}

function shown(value: unknown): string {
  return typeof value === 'string' ? value : typeof value;
}

/** Discovery 1.0 §4: a trailing slash is removed from the issuer, so that two issuers may have one address. */
export function metadataUrl(issuer: string): string {
  return `${issuer.replace(/\/$/, '')}/.well-known/openid-configuration`;
}
