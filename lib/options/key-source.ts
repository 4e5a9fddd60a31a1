import { createPublicKey, type KeyObject } from 'node:crypto';
import type { JSONWebKeySet, JWK } from 'jose';
import * as v from 'valibot';
import { parseUrl, secureUrl } from './option-schemas.js';

/** Where the public keys of a provider come from, told apart once. */
export type KeySource =
  { kind: 'pem'; key: KeyObject } | { kind: 'jwks'; jwks: JSONWebKeySet } | { kind: 'url'; url: string };

const EXPECTED = 'must be the public key as PEM, JWK or JWKS, or the URL of a JWKS';

/** Parses `keys`; a private key is refused, since onboarding never hands one out. */
export const keySource = v.pipe(
  v.unknown(),
  v.rawTransform<unknown, KeySource>(({ dataset, addIssue, NEVER }) => {
    const parsed = parseKeys(dataset.value);
    if (typeof parsed !== 'string') {
      return parsed;
    }
    addIssue({ message: parsed });
    return NEVER;
  }),
);

function parseKeys(value: unknown): KeySource | string {
  if (typeof value === 'string') {
    return parseText(value.trim());
  }
  return parseJwks(value);
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
  const url = v.safeParse(secureUrl, value);
  return url.success ? { kind: 'url', url: url.output } : url.issues[0].message;
}

function parsePem(value: string): KeySource | string {
  if (value.includes('PRIVATE KEY')) {
    return 'must be a public key, not a private one';
  }
  try {
    return { kind: 'pem', key: createPublicKey(value) };
  } catch {
    return 'must be a readable PEM (SPKI, PKCS#1 or certificate)';
  }
}

function parseJson(value: string): KeySource | string {
  try {
    return parseJwks(JSON.parse(value));
  } catch {
    return 'must be valid JSON of a JWK or JWKS';
  }
}

function parseJwks(value: unknown): KeySource | string {
  if (!isObject(value)) {
    return EXPECTED;
  }
  const keys: unknown = 'keys' in value ? value['keys'] : [value];
  if (!Array.isArray(keys) || keys.length === 0 || !keys.every(isJwk)) {
    return EXPECTED;
  }
  if (keys.some((key) => 'd' in key || key.kty === 'oct')) {
    return 'must hold public keys only';
  }
  return { kind: 'jwks', jwks: { keys } };
}

function isObject(value: unknown): value is Record<string, unknown> {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}

function isJwk(value: unknown): value is JWK {
  return isObject(value) && typeof value['kty'] === 'string';
}
