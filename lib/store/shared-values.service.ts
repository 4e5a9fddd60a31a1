import { createHash } from 'node:crypto';
import { Inject, Injectable, Logger } from '@nestjs/common';
import { CHECKED_OPTIONS, type CheckedOptions } from '../options/check-options.js';
import type { SharedStore } from '../options/shared-store.interface.js';
import { Sealer } from './sealer.service.js';

const PREFIX = 'nestjs-exhibitor';

/**
 * The host's {@link SharedStore}, sealed. Keys are digests: they may be made of an e-mail address. A store that is
 * down is a miss and a warning, never the failure of a call.
 */
@Injectable()
export class SharedValues {
  readonly #store: SharedStore | undefined;
  readonly #logger = new Logger('nestjs-exhibitor');

  constructor(
    @Inject(CHECKED_OPTIONS) { settings }: CheckedOptions,
    @Inject(Sealer) private readonly sealer: Sealer,
  ) {
    this.#store = settings.store;
  }

  /** True where the host gave a store. */
  get enabled(): boolean {
    return this.#store !== undefined;
  }

  async get(kind: string, name: string): Promise<unknown> {
    const sealed = await this.#attempt((store) => store.get(keyOf(kind, name)));
    return typeof sealed === 'string' ? this.sealer.open('store', sealed) : undefined;
  }

  /** Sets for `ttl` ms; answers whether it was set, `undefined` where the store is absent or down. */
  async set(
    kind: string,
    name: string,
    value: unknown,
    ttl: number,
    ifAbsent = false,
  ): Promise<boolean | undefined> {
    if (this.#store === undefined) return undefined;
    const sealed = await this.sealer.seal('store', value, ttl);
    return this.#attempt((store) => store.set(keyOf(kind, name), sealed, { ttl: Math.ceil(ttl), ifAbsent }));
  }

  async delete(kind: string, name: string): Promise<void> {
    await this.#attempt((store) => store.delete(keyOf(kind, name)));
  }

  async #attempt<R>(work: (store: SharedStore) => Promise<R>): Promise<R | undefined> {
    if (this.#store === undefined) return undefined;
    try {
      return await work(this.#store);
    } catch (error) {
      const why = error instanceof Error ? error.name : 'unknown error';
      this.#logger.warn(`the shared store does not answer (${why}); going on without it`);
      return undefined;
    }
  }
}

function keyOf(kind: string, name: string): string {
  return `${PREFIX}:${kind}:${createHash('sha256').update(name).digest('base64url')}`;
}
