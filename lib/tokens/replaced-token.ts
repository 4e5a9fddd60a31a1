import { digestOf } from '../model/digest.js';
import type { TimedToken } from './token-lifetime.js';

/**
 * The token that the next one replaces. Its reason decides what this process takes from the store, in place of asking the token
 * endpoint. Times are in ms of {@link Clock.now}.
 *
 * | reason          | the replaced token                            | a token of another process is taken        | and a rejection     |
 * | --------------- | --------------------------------------------- | ------------------------------------------ | ------------------- |
 * | `expiring`      | ends soon or has ended, or there was none     | where it is another one                    | always              |
 * | `refused`       | got a 401 in a request that was sent `at`     | requested after `at`, or instead of it     | always              |
 * | `refused-again` | came instead of a refused one, and got a 401  | never                                      | never               |
 * | `invalidated`   | was invalidated `at`, or there was none then  | requested after `at`                       | recorded after `at` |
 *
 * All but an expiring one are bad: they leave the store before the endpoint is asked, so that no other process takes them.
 */
export class ReplacedToken {
  /** @param text the access token, where there was one */
  constructor(
    private readonly reason: 'expiring' | 'refused' | 'refused-again' | 'invalidated',
    readonly text: string | undefined,
    private readonly at = Number.NEGATIVE_INFINITY,
  ) {}

  /** True for a token that is no longer good, whatever its lifetime. */
  get isBad(): boolean {
    return this.reason !== 'expiring';
  }

  /** True where the token endpoint is asked, whatever the store has. */
  get needsEndpoint(): boolean {
    return this.reason === 'refused-again';
  }

  /** Fingerprint of a bad token, which is stored beside the one that was requested in its place. */
  get fingerprint(): string | undefined {
    return this.isBad && this.text !== undefined ? digestOf(this.text) : undefined;
  }

  /**
   * Whether a token of another process is taken.
   *
   * @param insteadOf {@link fingerprint} of the bad token in whose place that process requested it
   */
  isReplacedBy({ accessToken, requestedAt }: TimedToken, insteadOf: string | undefined): boolean {
    if (accessToken === this.text) {
      return false;
    }
    // One that was requested because of the same refused token is newer, whatever the clocks of the processes say.
    const isNewer = this.reason === 'refused' && insteadOf === this.fingerprint;
    return isNewer || requestedAt > this.at;
  }

  /** Whether the host invalidated a rejection that was recorded at `recordedAt`. */
  forgives(recordedAt: number): boolean {
    return this.reason === 'invalidated' && recordedAt <= this.at;
  }
}
