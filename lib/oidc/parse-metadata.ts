import * as v from 'valibot';
import { endpointUrl, isAllowedUrl, type AllowedOrigins } from '../options/value-schemas.js';
import type { Refusal } from '../problems/problem.interface.js';
import type { EndpointName } from '../tenants/tenant.js';
import { described } from './check-claims.js';

/** Members of the metadata that are used (OpenID Connect Discovery 1.0 §3, RP-Initiated Logout 1.0 §2.1). */
export const MEMBERS: Readonly<Record<EndpointName | 'keys', string>> = {
  authorize: 'authorization_endpoint',
  token: 'token_endpoint',
  userinfo: 'userinfo_endpoint',
  endSession: 'end_session_endpoint',
  keys: 'jwks_uri',
};

export type MetadataUrl = keyof typeof MEMBERS;

/** Refuses an address of the metadata. */
export const UNUSABLE_URL = { reason: 'provider', option: 'login.discovery' } as const;

/** The metadata of a provider, as far as it is used. It never adds algorithms or kinds of client authentication. */
export interface Metadata {
  /** As published: {@link publishedUrl} checks one. */
  urls: Readonly<Partial<Record<MetadataUrl, unknown>>>;
  /** True where every authorization response has an `iss` (RFC 9207 §3). */
  sendsIss: boolean;
}

/**
 * Reads the metadata of a provider. Its issuer must be the configured one, character by character (Discovery 1.0 §4.3).
 */
export function parseMetadata(body: Record<string, unknown>, issuer: string): Metadata | Refusal {
  const found = body['issuer'];
  if (found !== issuer) {
    return { reason: 'issuer', expected: `issuer ${issuer}`, received: `issuer ${described(found)}` };
  }
  const urls = Object.fromEntries(Object.entries(MEMBERS).map(([name, member]) => [name, body[member]]));
  return { urls, sendsIss: body['authorization_response_iss_parameter_supported'] === true };
}

/**
 * A URL of the metadata; `undefined` where there is none. The rules are those for URLs of the options, since secrets and codes are
 * sent there.
 */
export function publishedUrl(
  { urls }: Metadata,
  name: MetadataUrl,
  tenantKey: string,
  allowedOrigins: AllowedOrigins | undefined,
): string | Refusal | undefined {
  const value = urls[name];
  if (value === undefined || value === null) {
    return undefined;
  }
  const { success, output: url, issues } = v.safeParse(endpointUrl, value);
  if (success && isAllowedUrl(url, tenantKey, allowedOrigins)) {
    return url;
  }
  const rule = success ? 'on one of allowedOrigins' : issues[0].message;
  return { ...UNUSABLE_URL, expected: `${MEMBERS[name]} ${rule}`, received: described(value) };
}

/** Discovery 1.0 §4: a trailing slash is removed from the issuer, so that two issuers may have one address. */
export function metadataUrl(issuer: string): string {
  return `${issuer.replace(/\/$/, '')}/.well-known/openid-configuration`;
}
