import { createHmac, createSecretKey, hkdfSync, type KeyObject } from 'node:crypto';
import { Inject, Injectable } from '@nestjs/common';
import { CHECKED_OPTIONS, type CheckedOptions } from '../options/check-options.js';
import { SharedValues } from './shared-values.service.js';

/**
 * Shared values whose names are personal, such as an e-mail address. Their keys are HMACs with a key derived from `secrets`:
 * without it nobody can find out from the store whom a value is about, not even by guessing. The first secret names and seals
 * what is written; values under every secret are read, so that processes share them while `secrets` are rotated.
 */
@Injectable()
export class PrivateValues {
  readonly #values: SharedValues;
  readonly #keys: readonly KeyObject[];

  constructor(
    @Inject(CHECKED_OPTIONS) { settings }: CheckedOptions,
    @Inject(SharedValues) values: SharedValues,
  ) {
    this.#values = values;
    this.#keys = settings.secrets.map((secret) => {
      const derived = hkdfSync('sha256', secret, '', 'nestjs-exhibitor:store-keys', 32);
      return createSecretKey(new Uint8Array(derived));
    });
  }

  /** True where the host configured a store. */
  get enabled(): boolean {
    return this.#values.enabled;
  }

  /** The values of this name, of one secret after the other; `undefined` where the store is down. */
  async find(kind: string, name: string): Promise<unknown[] | undefined> {
    const found = await Promise.all(this.#keys.map((key) => this.#values.read(kind, macOf(key, kind, name))));
    return found.some((one) => one === undefined)
      ? undefined
      : found.flatMap((one) => (one?.value === undefined ? [] : [one.value]));
  }

  /** Sets a value for `ttl` ms. Answers whether it was set; `undefined` where there is no store or it is down. */
  set(
    kind: string,
    name: string,
    value: unknown,
    ttl: number,
    options?: { ifAbsent?: boolean },
  ): Promise<boolean | undefined> {
    return this.#values.set(kind, this.#nameOf(kind, name), value, ttl, options);
  }

  /** A name that tells nothing: an HMAC, the same in every process with these secrets, in any order. */
  digestOf(kind: string, name: string): string {
    const [digest] = this.#keys.map((key) => macOf(key, kind, name)).toSorted();
    return digest ?? '';
  }

  #nameOf(kind: string, name: string): string {
    const [first] = this.#keys;
    // Without secrets there is no store either, see `checkOptions`.
    return first === undefined ? '' : macOf(first, kind, name);
  }
}

function macOf(key: KeyObject, kind: string, name: string): string {
  return createHmac('sha256', key).update(`${kind}:${name}`).digest('base64url');
}
