import { Inject, Injectable } from '@nestjs/common';
import { Clock } from '../time/clock.js';
import { expiringCache, type ExpiringCache } from '../time/expiring-cache.js';
import { SharedValues } from './shared-values.service.js';

/** Entries of each kind in one process. */
const MAX = 100_000;

/** What is recorded: a login state that was used, an identity that was logged out. */
export type ReplayKind = 'spent-state' | 'denied-identity';

/** Records what must not be used again: in this process the last 100,000 of a kind, across processes with a `store`. */
@Injectable()
export class ReplayCache {
  readonly #caches: Readonly<Record<ReplayKind, ExpiringCache<true>>>;
  readonly #shared: SharedValues;

  constructor(@Inject(SharedValues) shared: SharedValues, @Inject(Clock) clock: Clock) {
    this.#shared = shared;
    this.#caches = {
      'spent-state': expiringCache(clock, { max: MAX }),
      'denied-identity': expiringCache(clock, { max: MAX }),
    };
  }

  /** Records `name` for `ttl` ms. Answers false where it is recorded already, here or in another process. */
  async claim(kind: ReplayKind, name: string, ttl: number): Promise<boolean> {
    const cache = this.#caches[kind];
    if (cache.has(name)) {
      return false;
    }
    const lifetime = Math.max(1, ttl);
    cache.set(name, true, { ttl: lifetime });
    return (await this.#shared.set(kind, name, true, lifetime, { ifAbsent: true })) !== false;
  }

  /** True where `name` is recorded, here or in another process. */
  async has(kind: ReplayKind, name: string): Promise<boolean> {
    if (this.#caches[kind].has(name)) {
      return true;
    }
    return this.#shared.enabled && (await this.#shared.get(kind, name)) === true;
  }
}
