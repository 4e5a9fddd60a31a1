import { createPrivateKey, createPublicKey, generateKeyPair, randomUUID } from 'node:crypto';
import type { JsonWebKey, KeyObject } from 'node:crypto';
import { promisify } from 'node:util';

/** A public RSA key as a JWK (RFC 7517). */
export interface PublicJwk {
  readonly kty: 'RSA';
  readonly kid: string;
  readonly alg: 'RS256';
  readonly use: 'sig';
  readonly n: string;
  readonly e: string;
}

/** The key pair of a sandbox. Each sandbox generates its own. */
export interface SigningKey {
  readonly publicKey: KeyObject;
  readonly publicJwk: PublicJwk;
  readonly privateJwk: JsonWebKey & { readonly kty: 'RSA'; readonly kid: string };
}

/** Around the given RSA private key (PEM), or a new one. */
export async function createSigningKey(pem?: string): Promise<SigningKey> {
  const privateKey =
    pem === undefined
      ? (await promisify(generateKeyPair)('rsa', { modulusLength: 2048 })).privateKey
      : createPrivateKey(pem);
  const publicKey = createPublicKey(privateKey);
  const { n = '', e = '' } = publicKey.export({ format: 'jwk' });
  const publicJwk = { kty: 'RSA', kid: randomUUID(), alg: 'RS256', use: 'sig', n, e } as const;
  return { publicKey, publicJwk, privateJwk: { ...privateKey.export({ format: 'jwk' }), ...publicJwk } };
}
