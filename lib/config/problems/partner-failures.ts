/** Time in ms in which the failures after the first one become one line. */
const MINUTE = 60_000;

/** Minutes that are counted at once. Beyond, each failure is logged at once. */
const MOST = 10_000;

interface Minute {
  /** Writes the line at the end. */
  readonly timer: NodeJS.Timeout;
  /** Failures after the first one, by how they failed. */
  readonly counts: Map<string, number>;
}

/** Counts how partners fail, so that an outage takes two lines a minute: the first failure, and all others together. */
export class PartnerFailures {
  readonly #minutes = new Map<string, Minute>();

  /** @param write is given the line of a minute that had more failures than the first */
  constructor(private readonly write: (line: string) => void) {}

  /**
   * Returns whether this failure is the first of a minute; counts it otherwise.
   *
   * @param about `lookup of acme`
   * @param how `status 503`, from a fixed set
   */
  isFirst(about: string, how: string): boolean {
    const known = this.#minutes.get(about);
    if (known !== undefined) {
      known.counts.set(how, (known.counts.get(how) ?? 0) + 1);
      return false;
    }
    if (this.#minutes.size < MOST) {
      const timer = setTimeout(() => this.#end(about), MINUTE).unref();
      this.#minutes.set(about, { timer, counts: new Map() });
    }
    return true;
  }

  /** Writes what is left, and stops the timers. */
  close(): void {
    for (const about of this.#minutes.keys()) {
      this.#end(about);
    }
  }

  #end(about: string): void {
    const { timer, counts } = this.#minutes.get(about) ?? {};
    clearTimeout(timer);
    this.#minutes.delete(about);
    if (counts !== undefined && counts.size > 0) {
      const kinds = [...counts].toSorted(([, one], [, other]) => other - one);
      const total = kinds.reduce((sum, [, count]) => sum + count, 0);
      const list = kinds.map(([how, count]) => `${how} (${count})`).join(', ');
      this.write(`${about}: ${total} failed in the last minute: ${list}`);
    }
  }
}
