import { createPrivateKey, createPublicKey, generateKeyPair, randomUUID } from 'node:crypto';
import { promisify } from 'node:util';

/** The key pair of a sandbox. Each sandbox generates its own. */
export type SigningKey = Awaited<ReturnType<typeof createSigningKey>>;

/** Around the given RSA private key (PEM), or a new one. */
export async function createSigningKey(pem?: string) {
  const privateKey =
    pem === undefined
      ? (await promisify(generateKeyPair)('rsa', { modulusLength: 2048 })).privateKey
      : createPrivateKey(pem);
  const publicKey = createPublicKey(privateKey);
  const use = { kty: 'RSA', kid: randomUUID(), alg: 'RS256', use: 'sig' } as const;
  const { n, e } = publicKey.export({ format: 'jwk' });
  return {
    publicKey,
    publicJwk: { ...use, n, e },
    privateJwk: { ...privateKey.export({ format: 'jwk' }), ...use },
  };
}
