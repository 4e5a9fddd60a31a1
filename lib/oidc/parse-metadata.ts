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
  /** As published: {@link publishedUrl} checks one. */
  urls: Readonly<Partial<Record<MetadataUrl, unknown>>>;
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
  const urls = Object.fromEntries(Object.entries(MEMBERS).map(([name, member]) => [name, body[member]]));
  return { urls, sendsIss: body['authorization_response_iss_parameter_supported'] === true };
}

/**
 * A URL of the metadata; `undefined` where there is none. The rules are those for URLs of the options, since secrets and codes are sent
 * there.
 */
export function publishedUrl(
  { urls }: Metadata,
  name: MetadataUrl,
  tenantKey: string,
  allowedOrigins: AllowedOrigins | undefined,
): string | RefusedUrl | undefined {
  const value = urls[name] ?? undefined;
  if (value === undefined) {
    return undefined;
  }
  const parsed = v.safeParse(endpointUrl, value);
  if (!parsed.success) {
    return { expected: `${MEMBERS[name]} ${parsed.issues[0].message}`, received: shown(value) };
  }
  return isAllowedUrl(parsed.output, tenantKey, allowedOrigins)
    ? parsed.output
    : { expected: `${MEMBERS[name]} on one of allowedOrigins`, received: parsed.output };
}

function shown(value: unknown): string {
  return typeof value === 'string' ? value : typeof value;
}

/** Discovery 1.0 §4: a trailing slash is removed from the issuer, so that two issuers may have one address. */
export function metadataUrl(issuer: string): string {
  return `${issuer.replace(/\/$/, '')}/.well-known/openid-configuration`;
}
