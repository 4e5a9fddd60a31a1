import type { Dispatcher } from 'undici';

/**
 * Bytes of one reply that are read in one turn of the event loop. Without this, a socket delivers 2 MiB in a row and delays
 * the small replies of every other tenant.
 */
const READ_PER_TURN = 64 * 1024;

/** Bytes that a chunk counts for at least: to read 64 KiB in chunks of one byte takes 100 ms. */
const LEAST_OF_CHUNK = 128;

/** Pauses the reading of a large reply until the next turn of the event loop. */
export class ReadingPace {
  #sizeThisTurn = 0;

  count(bytes: number, controller: Dispatcher.DispatchController): void {
    this.#sizeThisTurn += Math.max(bytes, LEAST_OF_CHUNK);
    if (this.#sizeThisTurn >= READ_PER_TURN) {
      this.#sizeThisTurn = 0;
      controller.pause();
      setImmediate(() => controller.resume());
    }
  }
}
