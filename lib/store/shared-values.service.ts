import { Inject, Injectable } from '@nestjs/common';
import { channels, type StoreMessage } from '../diagnostics/channels.js';
import { digestOf } from '../model/digest.js';
import { isRecord } from '../model/json-values.js';
import type { SharedStore } from '../model/shared-store.interface.js';
import { CHECKED_OPTIONS, type CheckedOptions } from '../options/check-options.js';
import { Clock } from '../time/clock.js';
import { GuardedStore } from './guarded-store.js';
import { Sealer } from './sealer.service.js';

const PREFIX = 'nestjs-exhibitor';

/** Names a value. */
export interface ValueName {
  readonly kind: string;
  readonly name: string;
}

/** An answer of the store; `value` is `undefined` where there is none or it does not open. */
export interface StoredValue {
  readonly value: unknown;
}

/**
 * The `store` of the host, with sealed values. Keys are digests, since names may contain an e-mail address. A store that
 * fails or does not answer within a second is a cache miss and a warning, never a failure of the call.
 */
@Injectable()
export class SharedValues {
  readonly #store: GuardedStore | undefined;
  readonly #sealer: Sealer;

  constructor(
    @Inject(CHECKED_OPTIONS) { settings }: CheckedOptions,
    @Inject(Sealer) sealer: Sealer,
    @Inject(Clock) clock: Clock,
  ) {
    this.#store = settings.store === undefined ? undefined : new GuardedStore(settings.store, clock);
    this.#sealer = sealer;
  }

  /** True where the host configured a store. */
  get enabled(): boolean {
    return this.#store !== undefined;
  }

  /** The value, or `undefined` where there is none, it does not open, or the store is down. Tells hit or miss. */
  async get(kind: string, name: string): Promise<unknown> {
    const found = await this.find(kind, name);
    if (found !== undefined) {
      this.tell(kind, found.value === undefined ? 'miss' : 'hit');
    }
    return found?.value;
  }

  /** As {@link get}, for looking again and again: tells neither hit nor miss. */
  async look(kind: string, name: string): Promise<unknown> {
    return (await this.find(kind, name))?.value;
  }

  /** The value, `undefined` where there is none or it does not open; no answer where the store is down. Tells only the latter. */
  async find(kind: string, name: string): Promise<StoredValue | undefined> {
    const key = keyOf(kind, name);
    const sealed = await this.#attempt(kind, (store) => store.get(key));
    return sealed && this.#open(key, sealed.answer);
  }

  /** As {@link find}, for several names, in their order. Where the store has `getMany`, it is asked once. */
  async findMany(names: readonly ValueName[]): Promise<readonly (StoredValue | undefined)[]> {
    if (this.#store?.readsMany !== true) {
      return Promise.all(names.map(({ kind, name }) => this.find(kind, name)));
    }
    const keys = names.map(({ kind, name }) => keyOf(kind, name));
    const sealed = await this.#store.attempt((store) => getMany(store, keys));
    if (sealed === undefined) {
      new Set(names.map(({ kind }) => kind)).forEach((kind) => this.tell(kind, 'failed'));
    }
    return keys.map((key, index) => sealed && this.#open(key, sealed.answer[index]));
  }

  /** Sets a value for `ttl` ms. Answers whether it was set; `undefined` where there is no store or it is down. */
  async set(
    kind: string,
    name: string,
    value: unknown,
    ttl: number,
    { ifAbsent = false }: { ifAbsent?: boolean } = {},
  ): Promise<boolean | undefined> {
    const set = await this.#attempt(kind, (store) =>
      this.#write(store, kind, name, { value, ttl, ifAbsent }),
    );
    return set?.answer;
  }

  /** Sets a value for `ttl` ms, also during the rest after a timeout. Answers whether the store took it. */
  async insist(kind: string, name: string, value: unknown, ttl: number): Promise<boolean> {
    const set = await this.#store?.insist((store) =>
      this.#write(store, kind, name, { value, ttl, ifAbsent: false }),
    );
    if (set === undefined && this.enabled) {
      this.tell(kind, 'failed');
    }
    return set !== undefined && set.answer !== false;
  }

  async delete(kind: string, name: string): Promise<void> {
    await this.#attempt(kind, (store) => store.delete(keyOf(kind, name)));
  }

  /** Publishes a message on `nestjs-exhibitor:store`. */
  tell(kind: string, outcome: StoreMessage['outcome']): void {
    if (channels.store.hasSubscribers) {
      const message: StoreMessage = { kind, outcome };
      channels.store.publish(message);
    }
  }

  #open(key: string, sealed: unknown): StoredValue {
    const content = typeof sealed === 'string' ? this.#sealer.open('store', sealed) : undefined;
    // The key is sealed with the value: a value that was copied to another key of the store does not count.
    const isOwn = isRecord(content) && content['key'] === key;
    return { value: isOwn ? content['value'] : undefined };
  }

  async #write(
    store: SharedStore,
    kind: string,
    name: string,
    { value, ttl, ifAbsent }: { value: unknown; ttl: number; ifAbsent: boolean },
  ): Promise<boolean> {
    const key = keyOf(kind, name);
    const sealed = await this.#sealer.seal('store', { key, value }, ttl);
    return store.set(key, sealed, { ttl: Math.ceil(ttl), ...(ifAbsent ? { ifAbsent } : {}) });
  }

  async #attempt<R>(
    kind: string,
    operation: (store: SharedStore) => Promise<R>,
  ): Promise<{ answer: R } | undefined> {
    const answered = await this.#store?.attempt(operation);
    if (answered === undefined && this.enabled) {
      this.tell(kind, 'failed');
    }
    return answered;
  }
}

/** Fewer answers than keys would be read as absent values, and an absent mark as no logout. */
async function getMany(store: SharedStore, keys: readonly string[]): Promise<readonly unknown[]> {
  const values: unknown = await store.getMany?.(keys);
  if (Array.isArray(values) && values.length === keys.length) {
    return values;
  }
  throw new TypeError('getMany must answer one value for each key');
}

function keyOf(kind: string, name: string): string {
  return `${PREFIX}:${kind}:${digestOf(name)}`;
}
