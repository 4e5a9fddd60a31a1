/** Does the work of each queue, such as that of a tenant, one after the other. An empty queue takes no memory. */
export class SerialQueues<K> {
  /** The end of the last work of each queue. */
  readonly #lastOf = new Map<K, Promise<void>>();

  isFree(queue: K): boolean {
    return !this.#lastOf.has(queue);
  }

  /** Does work after all that was given before it. */
  after<T>(queue: K, work: () => Promise<T>): Promise<T> {
    const result = Promise.resolve(this.#lastOf.get(queue)).then(work);
    const forget = (): void => {
      if (this.#lastOf.get(queue) === end) {
        this.#lastOf.delete(queue);
      }
    };
    const end = result.then(forget, forget);
    this.#lastOf.set(queue, end);
    return result;
  }
}
