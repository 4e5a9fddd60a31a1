import type { SharedStore } from '../../lib/index.js';

/** A store in memory that several hosts share, like a Redis. */
export class MemoryStore implements SharedStore {
  readonly raw = new Map<string, { value: string; until: number }>();
  /** Makes every call reject or hang, or those that write answer that nothing was written. */
  failure: 'none' | 'rejects' | 'hangs' | 'full' = 'none';
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
    const isTaken = ifAbsent === true && taken !== undefined && taken.until > Date.now();
    if (isTaken || this.failure === 'full') {
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

  async #meetFailure(): Promise<void> {
    this.calls += 1;
    if (this.failure === 'rejects') {
      throw new TypeError('redis://admin:s3cret@10.0.0.1 refused');
    }
    if (this.failure === 'hangs') {
      await new Promise(() => undefined);
    }
  }
}
