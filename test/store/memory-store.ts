import type { SharedStore } from '../../lib/index.js';

/** A store in memory that several hosts share, like a Redis. */
export class MemoryStore implements SharedStore {
  readonly raw = new Map<string, { value: string; until: number }>();
  /** Makes every call throw, reject or hang. */
  failure: 'none' | 'throws' | 'rejects' | 'hangs' = 'none';
  calls = 0;

  async get(key: string): Promise<string | undefined> {
    await this.#meetFailure();
    const entry = this.raw.get(key);
    return entry !== undefined && entry.until > Date.now() ? entry.value : undefined;
  }

  async set(
    key: string,
    value: string,
    { ttl, ifAbsent }: { ttl: number; ifAbsent?: boolean },
  ): Promise<boolean> {
    await this.#meetFailure();
    const taken = this.raw.get(key);
    if (ifAbsent === true && taken !== undefined && taken.until > Date.now()) {
      return false;
    }
    this.raw.set(key, { value, until: Date.now() + ttl });
    return true;
  }

  async delete(key: string): Promise<void> {
    await this.#meetFailure();
    this.raw.delete(key);
  }

  /** Lets time pass for what is stored. */
  skip(ms: number): void {
    for (const entry of this.raw.values()) {
      entry.until -= ms;
    }
  }

  /** Everything that is readable in the store. */
  get dump(): string {
    return JSON.stringify([...this.raw]);
  }

  #meetFailure(): Promise<void> {
    this.calls += 1;
    switch (this.failure) {
      case 'throws':
        throw new Error('redis://admin:s3cret@10.0.0.1 refused');
      case 'rejects':
        return Promise.reject(new TypeError('the store is down'));
      case 'hangs':
        return new Promise(() => undefined);
      case 'none':
        return Promise.resolve();
    }
  }
}
