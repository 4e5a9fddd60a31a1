const EMPTY = Buffer.alloc(0);
/** Least bytes of a block of a body that arrives in parts. */
const SMALLEST_BLOCK = 4 * 1024;

/** A body that arrives in chunks. */
export class BodyBlocks {
  /** Bytes so far. */
  size = 0;
  /** Each block but the last one is full. */
  #blocks: Buffer[] = [];
  /** What is free of the last block. */
  #free: Buffer = EMPTY;

  /**
   * Keeps a part of the body. A chunk that takes less than half of its memory is copied: its Buffer takes about a hundred bytes of
   * heap, and may keep the 64 KiB that were read from the socket. Any other is not: copies make V8 collect garbage more often.
   * Blocks are not enlarged: to copy megabytes in one turn delays the small replies of every other tenant.
   *
   * @param isWhole the chunk is the whole body
   */
  add(chunk: Buffer, isWhole: boolean): void {
    this.size += chunk.length;
    if (isWhole || chunk.length >= chunk.buffer.byteLength / 2) {
      const last = this.#blocks.pop();
      if (last !== undefined) {
        this.#blocks.push(last.subarray(0, last.length - this.#free.length));
      }
      this.#free = EMPTY;
      this.#blocks.push(chunk);
      return;
    }
    let rest = chunk;
    while (rest.length > 0) {
      if (this.#free.length === 0) {
        this.#free = Buffer.allocUnsafeSlow(Math.max(SMALLEST_BLOCK, rest.length));
        this.#blocks.push(this.#free);
      }
      const copied = rest.copy(this.#free);
      this.#free = this.#free.subarray(copied);
      rest = rest.subarray(copied);
    }
  }

  join(): Buffer {
    const [first] = this.#blocks;
    return first?.length === this.size ? first : Buffer.concat(this.#blocks, this.size);
  }

  clear(): void {
    this.#blocks = [];
    this.#free = EMPTY;
  }
}
