/**
 * Does work of one kind, such as that of a tenant, one after the other. A kind without work takes no memory.
 */
export class Turns<K> {
  /** The end of the last work of each kind. */
  readonly #lastOf = new Map<K, Promise<void>>();

  /** True where no work of this kind is under way. */
  isFree(kind: K): boolean {
    return !this.#lastOf.has(kind);
  }

  /** Does work after all that was given before it. */
  after<T>(kind: K, work: () => Promise<T>): Promise<T> {
    const turn = Promise.resolve(this.#lastOf.get(kind)).then(work);
    const forget = (): void => {
      if (this.#lastOf.get(kind) === end) {
        this.#lastOf.delete(kind);
      }
    };
    const end = turn.then(forget, forget);
    this.#lastOf.set(kind, end);
    return turn;
  }
}
