/** Values that are remembered. A URL has some 60 bytes. */
const MAX_VALUES = 1_000;

/**
 * One value for equal texts. The tenants of one service have the same URLs, which a source reads anew for each of them: copies
 * would take 300 bytes a tenant. Not for secrets, since the last 1,000 values stay in memory.
 */
export class SharedByText<V> {
  readonly #values = new Map<string, V>();
  readonly #create: (text: string) => V;

  /** @param create the value of a text; it must be immutable */
  constructor(create: (text: string) => V) {
    this.#create = create;
  }

  of(text: string): V {
    const known = this.#values.get(text);
    if (known !== undefined) {
      return known;
    }
    if (this.#values.size >= MAX_VALUES) {
      this.#values.clear();
    }
    const created = this.#create(text);
    this.#values.set(text, created);
    return created;
  }
}

const texts = new SharedByText((text) => text);

/** The first of equal texts. */
export function sharedText(text: string): string {
  return texts.of(text);
}
