import { createHash, hkdfSync } from 'node:crypto';
import { Inject, Injectable } from '@nestjs/common';
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
    const envelope: Unsealed = { until: this.#clock.epochMs() + ttl, value };
    return first.seal(JSON.stringify(envelope));
  }

  /** The value; `undefined` where it does not open: unknown key, changed, sealed for another purpose, or expired. */
  async open(purpose: SealPurpose, sealed: string): Promise<unknown> {
    const unsealed = await this.unseal(purpose, sealed);
    return unsealed !== undefined && unsealed.until > this.#clock.epochMs() ? unsealed.value : undefined;
  }

  /** As {@link open}, but also for an expired value: after a change of the host's date it may be valid again. */
  async unseal(purpose: SealPurpose, sealed: string): Promise<Unsealed | undefined> {
    for (const key of this.#keysFor(purpose)) {
      const text = await key.open(sealed);
      if (text !== undefined) {
        return parseUnsealed(text);
      }
    }
    return undefined;
  }

  #keysFor(purpose: SealPurpose): readonly SealingKey[] {
    const known = this.#keys.get(purpose);
    if (known !== undefined) {
      return known;
    }
    const keys = this.#secrets.map((secret) => new SealingKey(secret, purpose));
    this.#keys.set(purpose, keys);
    return keys;
  }
}

function parseUnsealed(text: string): Unsealed | undefined {
  const { until, value }: Record<string, unknown> = Object(JSON.parse(text));
  return typeof until === 'number' ? { until, value } : undefined;
}

/** Longest value that is opened, in characters: 1 MiB. Whoever can write to the store can leave a value of any length there. */
const LONGEST = 1_048_576;

/** Parts of a JWE in compact form. */
const PARTS = 5;

/** A key for JWE in compact form with `dir` and A256GCM (RFC 7516 §3.1). Loads jose when it is first used. */
class SealingKey {
  readonly #secret: Uint8Array;
  readonly #fields: { alg: 'dir'; enc: 'A256GCM'; kid: string };
  /** The protected header of everything that is sealed with this key. Nothing with another header is opened. */
  readonly #header: string;

  /** @param purpose keys of one secret for different purposes have nothing in common */
  constructor(secret: string, purpose: string) {
    this.#secret = new Uint8Array(hkdfSync('sha256', secret, '', `nestjs-exhibitor:${purpose}`, 32));
    const kid = createHash('sha256').update('id:').update(this.#secret).digest('base64url').slice(0, 8);
    this.#fields = { alg: 'dir', enc: 'A256GCM', kid };
    this.#header = Buffer.from(JSON.stringify(this.#fields)).toString('base64url');
  }

  async seal(text: string): Promise<string> {
    const { CompactEncrypt } = await import('jose');
    return new CompactEncrypt(new TextEncoder().encode(text))
      .setProtectedHeader(this.#fields)
      .encrypt(this.#secret);
  }

  /** The text; `undefined` where it was not sealed with this key or was changed, be it a bit that decoders ignore. */
  async open(sealed: string): Promise<string | undefined> {
    if (sealed.length > LONGEST || !sealed.startsWith(`${this.#header}..`)) {
      return undefined;
    }
    if (!sealed.split('.', PARTS + 1).every(isCanonical)) {
      return undefined;
    }
    const { compactDecrypt } = await import('jose');
    try {
      const { plaintext } = await compactDecrypt(sealed, this.#secret);
      return new TextDecoder().decode(plaintext);
    } catch {
      return undefined;
    }
  }
}

/** Decoders ignore what is not base64url, so that the encoded form must be compared. */
function isCanonical(part: string): boolean {
  return Buffer.from(part, 'base64url').toString('base64url') === part;
}
