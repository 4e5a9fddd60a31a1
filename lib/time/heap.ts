/**
 * A binary heap whose items may change their order: the first one is known at once, and each change costs the logarithm of
 * their number. An item keeps its own `place` in the heap, so that it is found without a search.
 */
export class Heap<T extends { place: number }> {
  readonly #items: T[] = [];

  constructor(private readonly isBefore: (a: T, b: T) => boolean) {}

  get first(): T | undefined {
    return this.#items[0];
  }

  add(item: T): void {
    this.#put(item, this.#items.length);
    this.update(item);
  }

  remove(item: T): void {
    const last = this.#items.pop();
    if (last !== undefined && last !== item) {
      this.#put(last, item.place);
      this.update(last);
    }
  }

  /** Must be called whenever the order of an item changed. */
  update(item: T): void {
    let parent = this.#parentOf(item);
    while (parent !== undefined && this.isBefore(item, parent)) {
      this.#swap(item, parent);
      parent = this.#parentOf(item);
    }
    let child = this.#firstChildOf(item);
    while (child !== undefined && this.isBefore(child, item)) {
      this.#swap(item, child);
      child = this.#firstChildOf(item);
    }
  }

  #parentOf({ place }: T): T | undefined {
    return place === 0 ? undefined : this.#items[(place - 1) >> 1];
  }

  #firstChildOf({ place }: T): T | undefined {
    const left = this.#items[2 * place + 1];
    const right = this.#items[2 * place + 2];
    return left !== undefined && right !== undefined && this.isBefore(right, left) ? right : left;
  }

  #swap(a: T, b: T): void {
    const { place } = a;
    this.#put(a, b.place);
    this.#put(b, place);
  }

  #put(item: T, place: number): void {
    this.#items[place] = item;
    item.place = place;
  }
}
