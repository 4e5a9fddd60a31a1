import {
  createHmac,
  createPrivateKey,
  createPublicKey,
  generateKeyPairSync,
  randomUUID,
  type KeyObject,
} from 'node:crypto';
import { CompactSign, type CompactJWSHeaderParameters, type JWK } from 'jose';
import { pemOf, type KeyName } from './keys.js';

/** A key a provider signs with. */
export interface SigningKey {
  kid?: string;
  alg: string;
  privateKey: KeyObject;
  publicKey: KeyObject;
  /** Public half, as a JWKS holds it. */
  jwk: JWK;
  /** Public half as SPKI. */
  pem: string;
}

const CURVES = { ES256: 'P-256', ES384: 'P-384', ES512: 'P-521' } as const;

/** A new elliptic curve key for an algorithm of RFC 7518. */
export function signingKey(alg: keyof typeof CURVES): SigningKey {
  const { privateKey } = generateKeyPairSync('ec', { namedCurve: CURVES[alg] });
  return withPublicHalf(alg, privateKey);
}

/** An RSA key of `keys/`: to generate one takes 200 ms, in every suite. */
function rsaKey(name: KeyName): SigningKey {
  return withPublicHalf('RS256', createPrivateKey(pemOf(name)));
}

function withPublicHalf(alg: string, privateKey: KeyObject): SigningKey {
  const publicKey = createPublicKey(privateKey);
  const kid = randomUUID();
  return {
    kid,
    alg,
    privateKey,
    publicKey,
    jwk: { ...(publicKey.export({ format: 'jwk' }) as JWK), kid, alg, use: 'sig' },
    pem: publicKey.export({ format: 'pem', type: 'spki' }).toString(),
  };
}

const rsa = rsaKey('provider');

/** Keys of the scripted provider and of an attacker. */
export const KEYS = {
  rs256: rsa,
  ps256: {
    ...rsa,
    kid: `${rsa.kid}-ps`,
    alg: 'PS256',
    jwk: { ...rsa.jwk, kid: `${rsa.kid}-ps`, alg: 'PS256' },
  },
  es256: signingKey('ES256'),
  /** The signing key after a rotation, and that of the sandbox: a file has only one of the two. */
  next: rsaKey('sandbox'),
  attacker: rsaKey('attacker'),
  attackerEs: signingKey('ES256'),
} satisfies Record<string, SigningKey>;

const base64url = (value: string | Uint8Array): string => Buffer.from(value).toString('base64url');

/** A JWS of any payload. */
export function sign(
  payload: string,
  { privateKey, kid, alg }: Pick<SigningKey, 'privateKey' | 'kid' | 'alg'>,
  header: Partial<CompactJWSHeaderParameters> = {},
): Promise<string> {
  const complete = { alg, kid, typ: 'JWT', ...header };
  const kept = Object.fromEntries(Object.entries(complete).filter(([, value]) => value !== undefined));
  return new CompactSign(new TextEncoder().encode(payload))
    .setProtectedHeader(kept as CompactJWSHeaderParameters)
    .sign(privateKey);
}

/** A token with `alg: none`. */
export function unsigned(payload: string): string {
  return `${base64url(JSON.stringify({ alg: 'none' }))}.${base64url(payload)}.`;
}

/** A token signed by HMAC, with the public key (algorithm confusion) or with another secret. */
export function hmacSigned(payload: string, secret: string, kid?: string): string {
  const input = `${base64url(JSON.stringify({ alg: 'HS256', kid }))}.${base64url(payload)}`;
  return `${input}.${createHmac('sha256', secret).update(input).digest('base64url')}`;
}
