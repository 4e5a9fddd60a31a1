import { createPrivateKey, KeyObject } from 'node:crypto';
import * as v from 'valibot';
import { isRecord } from '../model/json-values.js';
import { importKey, isTooLong, parseJwk, textOrObject, TOO_LONG } from './key-source.js';
import { optionsOf, parsedBy, text } from './value-schemas.js';

/** A parsed private key that signs client assertions (`private_key_jwt`). */
export interface AssertionKey {
  privateKey: KeyObject;
  kid?: string;
  alg: string;
  /** `aud` of the assertions, where it is not the default. */
  audience?: string;
}

export type ClientAuthSettings = 'post' | 'basic' | AssertionKey;

const EC_ALGORITHM: Readonly<Record<string, string>> = {
  prime256v1: 'ES256',
  secp384r1: 'ES384',
  secp521r1: 'ES512',
};

/** Algorithms that a key can sign with. The first is the default. */
function algorithmsOf({ asymmetricKeyType, asymmetricKeyDetails }: KeyObject): readonly string[] {
  if (asymmetricKeyType === 'rsa') {
    return ['RS256', 'RS384', 'RS512', 'PS256', 'PS384', 'PS512'];
  }
  if (asymmetricKeyType === 'ec') {
    const algorithm = EC_ALGORITHM[asymmetricKeyDetails?.namedCurve ?? ''];
    return algorithm === undefined ? [] : [algorithm];
  }
  return asymmetricKeyType === 'ed25519' ? ['EdDSA', 'Ed25519'] : [];
}

const NOT_A_KEY = 'must be a private key as PEM, JWK or KeyObject, not encrypted';

/** A key, with what a JWK says of it. */
export interface ParsedKey {
  key: KeyObject;
  kid: unknown;
  alg: unknown;
}

const privateKey = parsedBy((value): ParsedKey | string => {
  const given = textOrObject(value);
  const jwk = parseJwk(given);
  const source = typeof given === 'string' ? given : jwk;
  if (source !== undefined && isTooLong(source)) {
    return TOO_LONG;
  }
  const key = given instanceof KeyObject ? given : importKey(source ?? '', createPrivateKey);
  if (key?.type !== 'private') {
    return NOT_A_KEY;
  }
  if (algorithmsOf(key).length === 0) {
    return 'must be an RSA key, an EC key (P-256, P-384 or P-521) or an Ed25519 key';
  }
  // RFC 7518 §3.3.
  return (key.asymmetricKeyDetails?.modulusLength ?? 2048) < 2048
    ? 'must have at least 2048 bits'
    : { key, kid: jwk?.kid, alg: jwk?.alg };
});

const EXPECTED = "must be 'post', 'basic' or { privateKey, kid, alg, audience }";

const assertionKey = v.pipe(
  optionsOf(
    {
      privateKey,
      kid: v.optional(text),
      alg: v.optional(v.string('must be a string')),
      audience: v.optional(text),
    },
    EXPECTED,
  ),
  v.rawTransform(({ dataset, addIssue, NEVER }): AssertionKey => {
    const { privateKey: parsed, audience } = dataset.value;
    const algorithms = algorithmsOf(parsed.key);
    const alg = dataset.value.alg ?? parsed.alg ?? algorithms[0];
    if (typeof alg !== 'string' || !algorithms.includes(alg)) {
      addIssue({ message: `must have an alg that fits its key: ${algorithms.join(', ')}` });
      return NEVER;
    }
    const kid = dataset.value.kid ?? (typeof parsed.kid === 'string' ? parsed.kid : undefined);
    return { privateKey: parsed.key, kid, alg, audience };
  }),
);

export const clientAuth = v.lazy((value) =>
  isRecord(value) ? assertionKey : v.picklist(['post', 'basic'], EXPECTED),
);

/** A secret of a client, or a function of the host that reads it. */
export type SecretSource = string | (() => string | Promise<string>);

export const clientSecret = v.union(
  [text, v.custom<() => string | Promise<string>>((value) => typeof value === 'function')],
  'must be a non-empty string or a function',
);
