import { Inject, Injectable } from '@nestjs/common';
import { LRUCache } from 'lru-cache';
import { SharedValues } from './shared-values.service.js';

/** Marks a process remembers of each kind. `max` would allocate the whole list at startup (18 ms and 5 MB). */
const LIMIT = { maxSize: 100_000, sizeCalculation: () => 1 };

/** What is marked: a login state that was used, an identity that was logged out. */
export type ReplayKind = 'spent-state' | 'denied-identity';

/** Things that must not happen again: in this process for the last 100,000, across processes with a `store`. */
@Injectable()
export class ReplayCache {
  readonly #marks: Record<ReplayKind, LRUCache<string, true>> = {
    'spent-state': new LRUCache(LIMIT),
    'denied-identity': new LRUCache(LIMIT),
  };

  constructor(@Inject(SharedValues) private readonly shared: SharedValues) {}

  /** Marks `name` for `ttl` ms. Answers false if it was marked before, here or in another process. */
  async claim(kind: ReplayKind, name: string, ttl: number): Promise<boolean> {
    const marks = this.#marks[kind];
    if (marks.has(name)) {
      return false;
    }
    marks.set(name, true, { ttl: Math.max(1, ttl) });
    return (await this.shared.set(kind, name, true, Math.max(1, ttl), true)) !== false;
  }

  async has(kind: ReplayKind, name: string): Promise<boolean> {
    if (this.#marks[kind].has(name)) {
      return true;
    }
    return this.shared.enabled && (await this.shared.get(kind, name)) === true;
  }
}
