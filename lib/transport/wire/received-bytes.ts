/** Smallest and largest block in bytes. */
const SMALLEST_BLOCK = 4 * 1024;
const LARGEST_BLOCK = 64 * 1024;

const EMPTY = Buffer.alloc(0);

/**
 * The bytes of a body, copied into blocks as they arrive. Chunks are not kept: the Buffer of a chunk of one byte costs about
 * a hundred bytes of heap, and may keep the 64 KiB that were read from the socket with it.
 */
export class ReceivedBytes {
  #blocks: Buffer[] = [];
  #last = EMPTY;
  #used = 0;
  #size = 0;

  /** A body that arrives at once, as most pages do. It is not copied, since it is read in the same turn. */
  addWhole(body: Buffer): void {
    this.#blocks.push(body);
    this.#size = body.length;
  }

  add(chunk: Uint8Array): void {
    for (let from = 0; from < chunk.length;) {
      if (this.#used === this.#last.length) {
        this.#addBlock();
      }
      const part = chunk.subarray(from, from + this.#last.length - this.#used);
      this.#last.set(part, this.#used);
      this.#used += part.length;
      this.#size += part.length;
      from += part.length;
    }
  }

  /** All bytes. Empties this object. */
  take(): Buffer {
    const [first] = this.#blocks;
    const isOneBlock = first !== undefined && this.#blocks.length === 1;
    const all = isOneBlock ? first.subarray(0, this.#size) : Buffer.concat(this.#blocks, this.#size);
    this.clear();
    return all;
  }

  clear(): void {
    this.#blocks = [];
    this.#last = EMPTY;
    this.#used = 0;
    this.#size = 0;
  }

  /** Blocks grow with the body, so that at most half of the memory is unused. */
  #addBlock(): void {
    this.#last = Buffer.allocUnsafeSlow(Math.min(LARGEST_BLOCK, Math.max(SMALLEST_BLOCK, this.#size)));
    this.#used = 0;
    this.#blocks.push(this.#last);
  }
}
