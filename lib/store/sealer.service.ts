import { createHash, hkdfSync } from 'node:crypto';
import { Inject, Injectable } from '@nestjs/common';
import type { JWEHeaderParameters } from 'jose';
import { CHECKED_OPTIONS, type CheckedOptions } from '../config/check-options.js';
import { Clock } from '../call/clock.js';

/** Purpose of a sealed value. Each has its own key, so that a value cannot be used for another purpose. */
type SealPurpose = 'login' | 'identity' | 'id-token' | 'store';

/** A value that was sealed with one of our secrets. It may have expired. */
export interface Unsealed {
  /** End of validity, ms since the epoch. */
  until: number;
  value: unknown;
}

/** Longest value that is opened, in characters: 1 MiB. Whoever can write to the store can leave a value of any length there. */
const LONGEST = 1_048_576;

/** A key for JWE is used as it is (`dir`), for A256GCM (RFC 7518 §4.5, §5.3). */
const HEADER = { alg: 'dir', enc: 'A256GCM' } as const;

const OPENS = {
  keyManagementAlgorithms: [HEADER.alg],
  contentEncryptionAlgorithms: [HEADER.enc],
  // `exp` is in seconds. The end in ms is inside, and who opens a value decides what an expired one is worth.
  currentDate: new Date(0),
};

/**
 * Seals values as encrypted JWT (RFC 7519, RFC 7516). The first secret seals, every secret opens. A sealed value has several
 * spellings: base64url leaves bits over. Tell values apart by an id inside, never by their text.
 */
@Injectable()
export class Sealer {
  readonly #secrets: readonly string[];
  readonly #keys = new Map<SealPurpose, ReadonlyMap<string, Uint8Array>>();
  readonly #clock: Clock;

  constructor(@Inject(CHECKED_OPTIONS) { settings }: CheckedOptions, @Inject(Clock) clock: Clock) {
    this.#secrets = settings.secrets;
    this.#clock = clock;
  }

  /** Seals a JSON value for `ttl` milliseconds. */
  async seal(purpose: SealPurpose, value: unknown, ttl: number): Promise<string> {
    const [first] = this.#keysFor(purpose);
    if (first === undefined) {
      throw new Error('the option secrets is required to seal a value');
    }
    const [kid, key] = first;
    const { EncryptJWT } = await import('jose');
    const until = this.#clock.epochMs() + ttl;
    return new EncryptJWT({ until, value })
      .setProtectedHeader({ ...HEADER, kid })
      .setExpirationTime(Math.ceil(until / 1000))
      .encrypt(key);
  }

  /** The value; `undefined` where it does not open: unknown key, changed, sealed for another purpose, or expired. */
  async open(purpose: SealPurpose, sealed: string): Promise<unknown> {
    const unsealed = await this.unseal(purpose, sealed);
    return unsealed !== undefined && unsealed.until > this.#clock.epochMs() ? unsealed.value : undefined;
  }

  /** As {@link open}, but also for an expired value: after a change of the host's date it may be valid again. */
  async unseal(purpose: SealPurpose, sealed: string): Promise<Unsealed | undefined> {
    if (sealed.length > LONGEST) {
      return undefined;
    }
    const keys = this.#keysFor(purpose);
    const { jwtDecrypt } = await import('jose');
    try {
      const { payload } = await jwtDecrypt(
        sealed,
        ({ kid = '' }: JWEHeaderParameters) => keys.get(kid) ?? noKey(),
        OPENS,
      );
      const { until, value } = payload;
      return typeof until === 'number' ? { until, value } : undefined;
    } catch {
      return undefined;
    }
  }

  /** Those of all secrets, by `kid`. */
  #keysFor(purpose: SealPurpose): ReadonlyMap<string, Uint8Array> {
    const keys = this.#keys.get(purpose) ?? new Map(this.#secrets.map((secret) => keyOf(secret, purpose)));
    this.#keys.set(purpose, keys);
    return keys;
  }
}

/** Keys of one secret for different purposes have nothing in common (HKDF, RFC 5869). */
function keyOf(secret: string, purpose: SealPurpose): [kid: string, key: Uint8Array] {
  const key = new Uint8Array(hkdfSync('sha256', secret, '', `nestjs-exhibitor:${purpose}`, 32));
  return [createHash('sha256').update('id:').update(key).digest('base64url').slice(0, 8), key];
}

function noKey(): never {
  throw new Error('sealed with another key');
}
