import { createPublicKey, type createPrivateKey, type KeyObject } from 'node:crypto';
import type { JSONWebKeySet, JWK } from 'jose';
import * as v from 'valibot';
import { isRecord } from '../model/json-values.js';
import { parseUrl } from '../model/urls.js';
import { endpointUrl, ONE_PROBLEM, parsedBy } from './value-schemas.js';

/** The parsed option `keys`: one PEM key, a key set, or the URL of a key set. */
export type KeySource =
  { kind: 'pem'; key: KeyObject } | { kind: 'jwks'; jwks: JSONWebKeySet } | { kind: 'url'; url: string };

/** Keys of one set. Providers publish two or three. */
export const MOST_KEYS = 100;

/** Longest PEM, and longest JSON of a JWK, in characters. The time to import a key grows with the square of its exponent. */
const LONGEST_KEY = 16_384;

const EXPECTED = 'must be the public key as PEM, JWK or JWKS, or the URL of a JWKS';

export const TOO_LONG = `must have at most ${LONGEST_KEY} characters`;

/** Schema of the option `keys`. Private keys are refused. */
export const keySource = parsedBy(parseKeys);

function parseKeys(value: unknown): KeySource | string {
  const given = textOrObject(value);
  if (typeof given !== 'string') {
    return parseJwks(given);
  }
  if (given.startsWith('-----BEGIN')) {
    return parsePem(given);
  }
  if (parseUrl(given) === undefined) {
    return EXPECTED;
  }
  const url = v.safeParse(endpointUrl, given, ONE_PROBLEM);
  return url.success ? { kind: 'url', url: url.output } : url.issues[0].message;
}

/** The value of an option for a key: JSON is parsed, where it can be. */
export function textOrObject(value: unknown): unknown {
  const text = typeof value === 'string' ? value.trim() : '';
  if (!text.startsWith('{')) {
    return typeof value === 'string' ? text : value;
  }
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}

function parsePem(pem: string): KeySource | string {
  if (pem.includes('PRIVATE KEY')) {
    return 'must be a public key, not a private one';
  }
  if (isTooLong(pem)) {
    return TOO_LONG;
  }
  const key = importKey(pem, createPublicKey);
  return key === undefined
    ? 'must be a readable PEM (SPKI, PKCS#1 or certificate), with its line breaks, which may be written as \\n'
    : { kind: 'pem', key };
}

function parseJwks(value: unknown): KeySource | string {
  if (!isRecord(value)) {
    return EXPECTED;
  }
  const given: unknown = 'keys' in value ? value['keys'] : [value];
  const keys = Array.isArray(given) ? given.flatMap((jwk) => parseJwk(jwk) ?? []) : [];
  if (!Array.isArray(given) || keys.length === 0 || keys.length < given.length) {
    return EXPECTED;
  }
  if (keys.length > MOST_KEYS) {
    return `must hold at most ${MOST_KEYS} keys`;
  }
  if (keys.some(isTooLong)) {
    return TOO_LONG;
  }
  if (keys.some((key) => key.d !== undefined || key.kty === 'oct')) {
    return 'must hold public keys only';
  }
  return { kind: 'jwks', jwks: { keys } };
}

export function isTooLong(key: string | JWK): boolean {
  return (typeof key === 'string' ? key : JSON.stringify(key)).length > LONGEST_KEY;
}

/** A key as Node has it; `undefined` where it is unreadable. In a PEM, which may come from the environment, line breaks may be `\n`. */
export function importKey(
  given: string | JWK,
  create: typeof createPublicKey | typeof createPrivateKey,
): KeyObject | undefined {
  try {
    return typeof given === 'string'
      ? create(given.replaceAll('\\r', '').replaceAll('\\n', '\n'))
      : create({ key: given, format: 'jwk' });
  } catch {
    return undefined;
  }
}

/** Members that are used (RFC 7517 §4, RFC 7518 §6), those of a private key at the end. */
const MEMBERS = 'kty use key_ops alg kid crv x y n e d p q dp dq qi k'.split(' ');

/** A copy, since an object of the host may have accessors; without `null`, which some programs write as `d` or `kid` of public keys. */
export function parseJwk(value: unknown): JWK | undefined {
  const members = isRecord(value) ? MEMBERS.map((name): [string, unknown] => [name, value[name]]) : [];
  const jwk = Object.fromEntries(members.filter(([, member]) => (member ?? undefined) !== undefined));
  return typeof jwk['kty'] === 'string' ? (jwk as JWK) : undefined;
}
