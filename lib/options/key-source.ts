import { createPublicKey, type KeyObject } from 'node:crypto';
import type { JSONWebKeySet, JWK } from 'jose';
import * as v from 'valibot';
import { isRecord } from '../model/json-values.js';
import { parsedBy, parseUrl, endpointUrl } from './value-schemas.js';

/** The parsed option `keys`: one PEM key, a key set, or the URL of a key set. */
export type KeySource =
  { kind: 'pem'; key: KeyObject } | { kind: 'jwks'; jwks: JSONWebKeySet } | { kind: 'url'; url: string };

/** Keys of one set. Providers publish two or three. */
export const MOST_KEYS = 100;

/** Characters of a modulus or exponent of 16,384 bits, in base64url. OpenSSL verifies with none that is longer. */
const LONGEST_MEMBER = 2_731;

const EXPECTED = 'must be the public key as PEM, JWK or JWKS, or the URL of a JWKS';

/** Expected of an RSA key that {@link isGiant}. */
export const TOO_LONG = 'must have a modulus and exponents of at most 16,384 bits';

/** Schema of the option `keys`. Private keys are refused. */
export const keySource = parsedBy(parseKeys);

function parseKeys(value: unknown): KeySource | string {
  return typeof value === 'string' ? parseText(value.trim()) : parseJwks(value);
}

function parseText(value: string): KeySource | string {
  if (value.startsWith('-----BEGIN')) {
    return parsePem(value);
  }
  if (value.startsWith('{')) {
    return parseJson(value);
  }
  if (parseUrl(value) === undefined) {
    return EXPECTED;
  }
  const url = v.safeParse(endpointUrl, value);
  return url.success ? { kind: 'url', url: url.output } : url.issues[0].message;
}

function parsePem(value: string): KeySource | string {
  if (value.includes('PRIVATE KEY')) {
    return 'must be a public key, not a private one';
  }
  try {
    const key = createPublicKey(withLineBreaks(value));
    return isGiant(key) ? TOO_LONG : { kind: 'pem', key };
  } catch {
    return 'must be a readable PEM (SPKI, PKCS#1 or certificate), with its line breaks, which may be written as \\n';
  }
}

/** Must be asked before the details of a key: with an exponent of 200 KB they take 40 s. */
export function isGiant(key: KeyObject): boolean {
  return key.asymmetricKeyType === 'rsa' && !Object.values(key.export({ format: 'jwk' })).every(isShort);
}

/** Asked of a member of a JWK. The time to import an exponent grows with the square of its length: 95 KB take a second. */
export function isShort(member: unknown): boolean {
  return typeof member !== 'string' || member.length <= LONGEST_MEMBER;
}

/** Variables of an environment often hold line breaks as `\\n`. */
export function withLineBreaks(pem: string): string {
  return pem.replaceAll('\\r', '').replaceAll('\\n', '\n');
}

function parseJson(value: string): KeySource | string {
  try {
    return parseJwks(JSON.parse(value));
  } catch {
    return 'must be valid JSON of a JWK or JWKS';
  }
}

function parseJwks(value: unknown): KeySource | string {
  if (!isRecord(value)) {
    return EXPECTED;
  }
  const keys: unknown = 'keys' in value ? value['keys'] : [value];
  if (!Array.isArray(keys) || keys.length === 0 || !keys.every(isJwk)) {
    return EXPECTED;
  }
  if (keys.length > MOST_KEYS) {
    return `must hold at most ${MOST_KEYS} keys`;
  }
  if (keys.some((key) => 'd' in key || key.kty === 'oct')) {
    return 'must hold public keys only';
  }
  return { kind: 'jwks', jwks: { keys } };
}

export function isJwk(value: unknown): value is JWK {
  return isRecord(value) && typeof value['kty'] === 'string';
}
