import {
  createPrivateKey,
  createPublicKey,
  generateKeyPair,
  randomUUID,
  type JsonWebKey,
  type KeyObject,
} from 'node:crypto';
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
  readonly publicKeyPem: string;
  readonly publicJwks: { readonly keys: readonly PublicJwk[] };
  readonly privateJwk: JsonWebKey & { readonly kty: 'RSA'; readonly kid: string };
}

/** Around the given RSA private key (PEM), or a new one. */
export async function createSigningKey(pem?: string): Promise<SigningKey> {
  const privateKey =
    pem === undefined
      ? (await promisify(generateKeyPair)('rsa', { modulusLength: 2048 })).privateKey
      : createPrivateKey(pem);
  const publicKey = createPublicKey(privateKey);
  const kid = randomUUID();
  const { n = '', e = '' } = publicKey.export({ format: 'jwk' });
  return {
    publicKey,
    publicKeyPem: publicKey.export({ format: 'pem', type: 'spki' }).toString(),
    publicJwks: { keys: [{ kty: 'RSA', kid, alg: 'RS256', use: 'sig', n, e }] },
    privateJwk: { ...privateKey.export({ format: 'jwk' }), kty: 'RSA', kid, alg: 'RS256', use: 'sig' },
  };
}
