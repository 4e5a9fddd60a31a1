import { createPublicKey } from 'node:crypto';
import type { CompactVerifyGetKey, JWK } from 'jose';
import { LoginFailedError } from '../errors/login-failed.error.js';
import { isRecord } from '../model/json-values.js';
import type { KeySource } from '../options/key-source.js';
import { keysNotFound } from '../problems/provider-problems.js';
import type { Tenant } from '../tenants/tenant.js';
import type { Deadline } from '../time/deadline.js';
import { ProviderDocuments, type DocumentTools } from './provider-documents.js';

/**
 * The pause before keys are fetched again for a token that fits none of them, and after a failed fetch, in ms. Any token can
 * cause such a fetch, so that forged tokens must not cause a flood of them.
 */
const PAUSE_BEFORE_REFETCH = 30_000;

/** The keys of a JWKS. */
interface KeySet {
  kids: ReadonlySet<string | undefined>;
  /** jose imports each key once per set, when it is first needed. */
  getKey: CompactVerifyGetKey;
}

/** Public keys to verify the tokens of a tenant's provider. */
export class ProviderKeys {
  readonly #published: ProviderDocuments<KeySet>;
  readonly #fixed = new WeakMap<KeySource, Promise<KeySet>>();

  constructor(tools: DocumentTools) {
    this.#published = new ProviderDocuments(
      {
        operation: 'keys',
        name: 'the keys of the provider',
        pause: PAUSE_BEFORE_REFETCH,
        urlOf: (url) => url,
        parse: keySetOf,
        notFound: ({ login }, status) => keysNotFound(login?.keys === undefined, status),
      },
      tools,
    );
  }

  /** The keys for a token whose header has this `kid`. They are fetched again where none has it. */
  async keysFor(
    tenant: Tenant,
    source: KeySource,
    kid: string | undefined,
    deadline: Deadline,
  ): Promise<CompactVerifyGetKey> {
    if (source.kind === 'pem') {
      return () => source.key;
    }
    if (source.kind === 'jwks') {
      return (await this.#fixedKeys(source)).getKey;
    }
    const keys = await this.#published.read(tenant, source.url, deadline);
    if (kid === undefined || keys.kids.has(kid)) {
      return keys.getKey;
    }
    return (await this.#published.readAgain(tenant, source.url, keys, deadline)).getKey;
  }

  /**
   * The keys for a token whose signature fits none of `used`: fetched again, unless that was done before. `undefined` where
   * there are no newer ones.
   */
  async newerKeys(
    tenant: Tenant,
    source: KeySource,
    used: CompactVerifyGetKey,
    deadline: Deadline,
  ): Promise<CompactVerifyGetKey | undefined> {
    if (source.kind !== 'url') {
      return undefined;
    }
    const known = await this.#published.read(tenant, source.url, deadline);
    const { getKey } =
      known.getKey === used ? await this.#published.readAgain(tenant, source.url, known, deadline) : known;
    return getKey === used ? undefined : getKey;
  }

  /** A tenant was forgotten: the next caller fetches its keys. */
  expire(tenant: Tenant): void {
    this.#published.expire(tenant);
  }

  #fixedKeys(source: Extract<KeySource, { kind: 'jwks' }>): Promise<KeySet> {
    const known = this.#fixed.get(source) ?? keySetOf(source.jwks);
    this.#fixed.set(source, known);
    return known;
  }
}

/**
 * The public signature keys of a JWKS. Unknown, unreadable, symmetric and private keys are removed, so that one bad key does
 * not make every login fail.
 *
 * @throws {LoginFailedError} `provider` where it is no JWKS, or has no usable key
 */
async function keySetOf(jwks: unknown): Promise<KeySet> {
  const published: unknown[] = isRecord(jwks) && Array.isArray(jwks['keys']) ? jwks['keys'] : [];
  const keys = published.filter(isUsable);
  if (keys.length === 0) {
    throw new LoginFailedError('provider', 'the provider publishes no usable signing key');
  }
  const { createLocalJWKSet } = await import('jose');
  return { kids: new Set(keys.map(({ kid }) => kid)), getKey: createLocalJWKSet({ keys }) };
}

/** RSA keys need 2048 bits (RFC 7518 §3.3). Node reads an unreadable modulus as one of length 0. */
function isUsable(key: unknown): key is JWK {
  if (!isRecord(key) || typeof key['kty'] !== 'string' || key['kty'] === 'oct' || key['d'] !== undefined) {
    return false;
  }
  try {
    const { asymmetricKeyDetails } = createPublicKey({ key, format: 'jwk' });
    return (asymmetricKeyDetails?.modulusLength ?? 2048) >= 2048;
  } catch {
    return false;
  }
}
