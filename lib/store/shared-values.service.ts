import { createHash } from 'node:crypto';
import { Inject, Injectable, Logger } from '@nestjs/common';
import { CHECKED_OPTIONS, type CheckedOptions } from '../options/check-options.js';
import type { SharedStore } from '../model/shared-store.interface.js';
import { withTimeout, TimeoutError } from '../time/with-timeout.js';
import { Clock } from '../time/clock.js';
import { Sealer } from './sealer.service.js';

const PREFIX = 'nestjs-exhibitor';

/** A store that takes longer, in ms, counts as down: what it holds is a help, never worth a caller's deadline. */
const MAX_WAIT = 1_000;

/** A store that was silent is not asked for so many ms: not every call must wait for it. */
const PAUSE_AFTER_SILENCE = 5_000;

/** One warning in so many ms: every request of a busy host would write its own. */
const WARN_EVERY = 10_000;

/**
 * The host's {@link SharedStore}, sealed. Keys are digests: they may be made of an e-mail address. A store that is
 * down, or silent for a second, is a miss and a warning, never the failure of a call.
 */
@Injectable()
export class SharedValues {
  readonly #store: SharedStore | undefined;
  readonly #logger = new Logger('nestjs-exhibitor');
  #warnedAt = Number.NEGATIVE_INFINITY;
  #pausedUntil = Number.NEGATIVE_INFINITY;

  constructor(
    @Inject(CHECKED_OPTIONS) { settings }: CheckedOptions,
    @Inject(Sealer) private readonly sealer: Sealer,
    @Inject(Clock) private readonly clock: Clock,
  ) {
    this.#store = settings.store;
  }

  /** True where the host gave a store. */
  get enabled(): boolean {
    return this.#store !== undefined;
  }

  async get(kind: string, name: string): Promise<unknown> {
    const key = keyOf(kind, name);
    const sealed = await this.#attempt((store) => store.get(key));
    const content = typeof sealed === 'string' ? await this.sealer.open('store', sealed) : undefined;
    // Who can write to the store must not pass one tenant's value for another's.
    return isContent(content) && content.key === key ? content.value : undefined;
  }

  /** Sets for `ttl` ms; answers whether it was set, `undefined` where the store is absent or down. */
  async set(
    kind: string,
    name: string,
    value: unknown,
    ttl: number,
    ifAbsent = false,
  ): Promise<boolean | undefined> {
    if (this.#store === undefined) {
      return undefined;
    }
    const key = keyOf(kind, name);
    const sealed = await this.sealer.seal('store', { key, value }, ttl);
    return this.#attempt((store) => store.set(key, sealed, { ttl: Math.ceil(ttl), ifAbsent }));
  }

  async delete(kind: string, name: string): Promise<void> {
    await this.#attempt((store) => store.delete(keyOf(kind, name)));
  }

  async #attempt<R>(work: (store: SharedStore) => Promise<R>): Promise<R | undefined> {
    const store = this.#store;
    if (store === undefined || this.clock.now() < this.#pausedUntil) {
      return undefined;
    }
    try {
      return await withTimeout(MAX_WAIT, () => work(store));
    } catch (error) {
      if (error instanceof TimeoutError) {
        this.#pausedUntil = this.clock.now() + PAUSE_AFTER_SILENCE;
      }
      this.#warn(error);
      return undefined;
    }
  }

  #warn(error: unknown): void {
    const now = this.clock.now();
    if (now - this.#warnedAt < WARN_EVERY) {
      return;
    }
    this.#warnedAt = now;
    // Its message may show the address of the store, and that its password.
    const why = error instanceof Error ? error.name : 'unknown error';
    this.#logger.warn(`the shared store does not answer (${why}); going on without it`);
  }
}

function keyOf(kind: string, name: string): string {
  return `${PREFIX}:${kind}:${createHash('sha256').update(name).digest('base64url')}`;
}

function isContent(value: unknown): value is { key: unknown; value: unknown } {
  return typeof value === 'object' && value !== null && 'key' in value && 'value' in value;
}
