import { createHash, hkdfSync } from 'node:crypto';
import { Inject, Injectable } from '@nestjs/common';
import { compactDecrypt, CompactEncrypt, decodeProtectedHeader } from 'jose';
import { isRecord } from '../model/json-values.js';
import { CHECKED_OPTIONS, type CheckedOptions } from '../options/check-options.js';
import { Clock } from '../time/clock.js';

/** Purpose of a sealed value. Each has its own key, so that a value cannot be used for another purpose. */
export type SealPurpose = 'login' | 'identity' | 'id-token' | 'store';

interface SealingKey {
  id: string;
  key: Uint8Array;
}

interface Envelope {
  /** End of validity, ms since the epoch. */
  until: number;
  value: unknown;
}

/** Seals values as JWE (`dir`, A256GCM; RFC 7516). The first secret seals, every secret opens. */
@Injectable()
export class Sealer {
  readonly #secrets: readonly string[];
  readonly #keys = new Map<SealPurpose, readonly SealingKey[]>();
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
    const envelope: Envelope = { until: this.#clock.epochMs() + ttl, value };
    return new CompactEncrypt(new TextEncoder().encode(JSON.stringify(envelope)))
      .setProtectedHeader({ alg: 'dir', enc: 'A256GCM', kid: first.id })
      .encrypt(first.key);
  }

  /** The value; `undefined` where it does not open: unknown key, changed, sealed for another purpose, or expired. */
  async open(purpose: SealPurpose, sealed: string): Promise<unknown> {
    const envelope = await this.#unseal(purpose, sealed);
    return envelope !== undefined && envelope.until > this.#clock.epochMs() ? envelope.value : undefined;
  }

  /** As {@link open}, but also for an expired value: after a change of the host's date it may be valid again. */
  async openExpired(purpose: SealPurpose, sealed: string): Promise<unknown> {
    const envelope = await this.#unseal(purpose, sealed);
    return envelope?.value;
  }

  async #unseal(purpose: SealPurpose, sealed: string): Promise<Envelope | undefined> {
    try {
      const { kid } = decodeProtectedHeader(sealed);
      const known = this.#keysFor(purpose).find(({ id }) => id === kid);
      if (known === undefined) {
        return undefined;
      }
      const { plaintext } = await compactDecrypt(sealed, known.key, {
        keyManagementAlgorithms: ['dir'],
        contentEncryptionAlgorithms: ['A256GCM'],
      });
      const envelope: unknown = JSON.parse(new TextDecoder().decode(plaintext));
      return isEnvelope(envelope) ? envelope : undefined;
    } catch {
      return undefined;
    }
  }

  #keysFor(purpose: SealPurpose): readonly SealingKey[] {
    const known = this.#keys.get(purpose);
    if (known !== undefined) {
      return known;
    }
    const keys = this.#secrets.map((secret) => deriveKey(secret, purpose));
    this.#keys.set(purpose, keys);
    return keys;
  }
}

function deriveKey(secret: string, purpose: SealPurpose): SealingKey {
  const key = new Uint8Array(hkdfSync('sha256', secret, '', `nestjs-exhibitor:${purpose}`, 32));
  const id = createHash('sha256').update('id:').update(key).digest('base64url').slice(0, 8);
  return { id, key };
}

function isEnvelope(value: unknown): value is Envelope {
  return isRecord(value) && typeof value['until'] === 'number';
}
