import { createHash } from 'node:crypto';
import { Inject, Injectable, Logger } from '@nestjs/common';
import { foreignText } from '../model/foreign-text.js';
import { isRecord } from '../model/json-values.js';
import type { SharedStore } from '../model/shared-store.interface.js';
import { CHECKED_OPTIONS, type CheckedOptions } from '../options/check-options.js';
import { Clock } from '../time/clock.js';
import { TimeoutError, withTimeout } from '../time/with-timeout.js';
import { Sealer } from './sealer.service.js';

const PREFIX = 'nestjs-exhibitor';

/** Time limit of one operation of the store, in ms. A slower store counts as down. */
const MAX_WAIT = 1_000;

/** After a timeout the store is not asked for this long, in ms, so that not every call waits for it. */
const PAUSE_AFTER_TIMEOUT = 5_000;

/** Shortest time between two warnings, in ms. */
const WARN_EVERY = 10_000;

/**
 * The `store` of the host, with sealed values. Keys are digests, since names may contain an e-mail address. A store that
 * fails or does not answer within a second is a cache miss and a warning, never a failure of the call.
 */
@Injectable()
export class SharedValues {
  readonly #store: SharedStore | undefined;
  readonly #sealer: Sealer;
  readonly #clock: Clock;
  readonly #logger = new Logger('nestjs-exhibitor');
  #warnedAt = Number.NEGATIVE_INFINITY;
  #pausedUntil = Number.NEGATIVE_INFINITY;

  constructor(
    @Inject(CHECKED_OPTIONS) { settings }: CheckedOptions,
    @Inject(Sealer) sealer: Sealer,
    @Inject(Clock) clock: Clock,
  ) {
    this.#store = settings.store;
    this.#sealer = sealer;
    this.#clock = clock;
  }

  /** True where the host configured a store. */
  get enabled(): boolean {
    return this.#store !== undefined;
  }

  /** The value, or `undefined` where there is none, it does not open, or the store is down. */
  async get(kind: string, name: string): Promise<unknown> {
    const key = keyOf(kind, name);
    const sealed = await this.#attempt((store) => store.get(key));
    const content = typeof sealed === 'string' ? await this.#sealer.open('store', sealed) : undefined;
    // The key is sealed with the value: a value that was copied to another key of the store does not count.
    return isRecord(content) && content['key'] === key ? content['value'] : undefined;
  }

  /** Sets a value for `ttl` ms. Answers whether it was set; `undefined` where there is no store or it is down. */
  async set(
    kind: string,
    name: string,
    value: unknown,
    ttl: number,
    { ifAbsent = false }: { ifAbsent?: boolean } = {},
  ): Promise<boolean | undefined> {
    if (this.#store === undefined || this.#isPaused) {
      return undefined;
    }
    const key = keyOf(kind, name);
    const sealed = await this.#sealer.seal('store', { key, value }, ttl);
    return this.#attempt((store) => store.set(key, sealed, { ttl: Math.ceil(ttl), ifAbsent }));
  }

  /** Sets a value for `ttl` ms, also during the pause after a timeout. Answers whether the store took it. */
  async insist(kind: string, name: string, value: unknown, ttl: number): Promise<boolean> {
    const store = this.#store;
    if (store === undefined) {
      return false;
    }
    const key = keyOf(kind, name);
    const sealed = await this.#sealer.seal('store', { key, value }, ttl);
    const isSet = await this.#run(() => store.set(key, sealed, { ttl: Math.ceil(ttl) }));
    if (isSet === undefined || isSet === false) {
      return false;
    }
    this.#pausedUntil = Number.NEGATIVE_INFINITY;
    return true;
  }

  async delete(kind: string, name: string): Promise<void> {
    await this.#attempt((store) => store.delete(keyOf(kind, name)));
  }

  async #attempt<R>(operation: (store: SharedStore) => Promise<R>): Promise<R | undefined> {
    const store = this.#store;
    if (store === undefined || this.#isPaused) {
      return undefined;
    }
    return this.#run(() => operation(store));
  }

  get #isPaused(): boolean {
    return this.#clock.now() < this.#pausedUntil;
  }

  async #run<R>(operation: () => Promise<R>): Promise<R | undefined> {
    try {
      return await withTimeout(MAX_WAIT, operation);
    } catch (error) {
      if (error instanceof TimeoutError) {
        this.#pausedUntil = this.#clock.now() + PAUSE_AFTER_TIMEOUT;
      }
      this.#warn(error);
      return undefined;
    }
  }

  #warn(error: unknown): void {
    const now = this.#clock.now();
    if (now - this.#warnedAt < WARN_EVERY) {
      return;
    }
    this.#warnedAt = now;
    // The message of the error is not logged: it may contain the address and the password of the store.
    const name: unknown = error instanceof Error ? error.name : undefined;
    const reason = typeof name === 'string' ? foreignText(name) : 'unknown error';
    this.#logger.warn(`the shared store does not answer (${reason}); continuing without it`);
  }
}

function keyOf(kind: string, name: string): string {
  return `${PREFIX}:${kind}:${createHash('sha256').update(name).digest('base64url')}`;
}
