import { Inject, Injectable } from '@nestjs/common';
import { publish, type StoreMessage } from '../diagnostics/channels.js';
import { digestOf } from '../model/digest.js';
import { isRecord } from '../model/json-values.js';
import type { SharedStore } from '../model/shared-store.interface.js';
import { CHECKED_OPTIONS, type CheckedOptions } from '../options/check-options.js';
import { Clock } from '../time/clock.js';
import { GuardedStore, type StoreAnswer } from './guarded-store.js';
import { Sealer } from './sealer.service.js';

const PREFIX = 'nestjs-exhibitor';

/** An answer of the store; `value` is `undefined` where there is none, it does not open or has lapsed. */
export interface StoredValue {
  readonly value: unknown;
  /** The store has a value that no process of this host has sealed for its key. */
  readonly isRubbish: boolean;
}

/**
 * The `store` of the host, with sealed values. Keys are digests, since names may contain an e-mail address. A store that
 * fails or does not answer within a second is a cache miss and a warning, never a failure of the call.
 */
@Injectable()
export class SharedValues {
  private readonly store: GuardedStore | undefined;

  constructor(
    @Inject(CHECKED_OPTIONS) { settings }: CheckedOptions,
    @Inject(Sealer) private readonly sealer: Sealer,
    @Inject(Clock) private readonly clock: Clock,
  ) {
    this.store = settings.store === undefined ? undefined : new GuardedStore(settings.store, clock);
  }

  /** True where the host configured a store. */
  get enabled(): boolean {
    return this.store !== undefined;
  }

  /** The value, `undefined` where there is none or it does not open; no answer where there is no store or it is down. */
  async read(kind: string, name: string): Promise<StoredValue | undefined> {
    const key = keyOf(kind, name);
    const sealed = await this.attempt(kind, (store) => store.get(key));
    return sealed && this.open(key, sealed.answer);
  }

  /**
   * Sets a value for `ttl` ms. Answers whether it was set; `undefined` where there is no store or it is down.
   *
   * @param options `evenAtRest`: also while the store is not asked because it was silent
   */
  async set(
    kind: string,
    name: string,
    value: unknown,
    ttl: number,
    options: { ifAbsent?: boolean; evenAtRest?: boolean } = {},
  ): Promise<boolean | undefined> {
    const key = keyOf(kind, name);
    const write = async (store: SharedStore): Promise<boolean> => {
      const sealed = await this.sealer.seal('store', { key, value }, ttl);
      const ifAbsent = options.ifAbsent === true ? { ifAbsent: true } : {};
      return store.set(key, sealed, { ttl: Math.ceil(ttl), ...ifAbsent });
    };
    return (await this.attempt(kind, write, options))?.answer;
  }

  /**
   * Sets a key alone for `ttl` ms where it is absent: its value is `1`, which says nothing and needs no seal. Answers whether it was
   * set; `undefined` where there is no store or it is down.
   */
  async mark(kind: string, name: string, ttl: number): Promise<boolean | undefined> {
    const options = { ttl: Math.ceil(ttl), ifAbsent: true };
    return (await this.attempt(kind, (store) => store.set(keyOf(kind, name), '1', options)))?.answer;
  }

  async delete(kind: string, name: string): Promise<void> {
    await this.attempt(kind, (store) => store.delete(keyOf(kind, name)));
  }

  publishOutcome(kind: string, outcome: StoreMessage['outcome']): void {
    publish('store', () => ({ kind, outcome }));
  }

  private async open(key: string, sealed: unknown): Promise<StoredValue> {
    const unsealed = typeof sealed === 'string' ? await this.sealer.unseal('store', sealed) : undefined;
    const content = unsealed?.value;
    // The key is sealed with the value: a value that was copied to another key of the store does not count.
    if (unsealed === undefined || !isRecord(content) || content['key'] !== key) {
      return { value: undefined, isRubbish: typeof sealed === 'string' };
    }
    const hasLapsed = unsealed.until <= this.clock.epochMs();
    return { value: hasLapsed ? undefined : content['value'], isRubbish: false };
  }

  private async attempt<R>(
    kind: string,
    operation: (store: SharedStore) => Promise<R>,
    options?: { evenAtRest?: boolean },
  ): Promise<StoreAnswer<R> | undefined> {
    const answered = await this.store?.attempt(operation, options);
    if (answered === undefined && this.enabled) {
      this.publishOutcome(kind, 'failed');
    }
    return answered;
  }
}

function keyOf(kind: string, name: string): string {
  return `${PREFIX}:${kind}:${digestOf(name)}`;
}
