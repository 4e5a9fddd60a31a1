import { AFTER_FAILED_TOKEN, LONGEST_RESTS, type Rests, type Subject } from '../call/partner.js';
import type { StateKey } from '../config/tenant.js';
import type { Failure } from '../errors/failure.js';
import { clientPause } from '../http/limits/pauses.js';
import type { TimedToken } from './token-lifetime.js';

/**
 * Why the next token must be another one: the service refused this one, in reply to a request that was sent `at` ({@link Clock.now}), or
 * the host dropped it. A token of another process counts only if it was requested later; once the host dropped it, none counts.
 */
export type Rejected =
  { readonly by: 'service'; readonly token: string; readonly at: number } | { readonly by: 'host' };

let lastId = 0;

/** A token that is younger, in ms, is not renewed because of a 401. */
const TOO_YOUNG = 10_000;

/** @param age of a token, in ms */
export function isYoung(age: number): boolean {
  return age < TOO_YOUNG;
}

/**
 * The token of a tenant, and what is known of it: by its rests, which requests there may be.
 *
 * | rest           | is begun after                                   | for                              | and stops                                       |
 * | -------------- | ------------------------------------------------ | -------------------------------- | ----------------------------------------------- |
 * | `earlyRenewal` | a renewal that failed, whatever the cause        | 5 s                              | renewals while the token that is held lasts     |
 * |                | a token request that was refused for good        | 30 s                             | likewise                                        |
 * |                | one whose reply asked for a pause                | what is left of the pause        | likewise                                        |
 * | `tokenRequest` | a token request that failed without such a pause | 1 s, or 30 s if refused for good | requests with this secret: they fail likewise   |
 * | `replacement`  | the start of a renewal because of a 401 or 403   | 10 s                             | others because of these, of later states too    |
 *
 * Where the host drops the token, a new state takes the place of this one. A renewal under way, and the first two rests, are of the
 * former state.
 */
export class TokenState {
  /** Names it in the rests. */
  readonly #id = (lastId += 1);
  /** The token that is held: callers get it while it lasts. */
  token: TimedToken | undefined;

  constructor(
    private readonly rests: Rests,
    private readonly stateKey: Pick<StateKey, 'id'>,
    public rejected?: Rejected,
  ) {}

  /** The next one has come. */
  hold(token: TimedToken): void {
    this.token = token;
    this.rejected = undefined;
  }

  /** The service refused this access token, in reply to a request that was sent `at`. */
  refused(token: string, at: number): void {
    this.rejected = { by: 'service', token, at };
  }

  /** The access token that the next one replaces; empty where there is none. */
  get replaced(): string {
    return this.rejected?.by === 'service' ? this.rejected.token : (this.token?.accessToken ?? '');
  }

  /** False for a while after a failure: the held token serves. */
  get mayRenewEarly(): boolean {
    return this.rests.left(this.#earlyRenewals) === 0;
  }

  /**
   * Takes the one renewal in 10 s that a tenant may have because the service refused the held token: a user may name an event that it
   * always refuses. False where it was taken.
   */
  claimReplacement(): boolean {
    const replacements: Subject = ['replacement', this.stateKey.id];
    const isFree = this.rests.left(replacements) === 0;
    if (isFree) {
      this.rests.begin(replacements);
    }
    return isFree;
  }

  /**
   * As {@link claimReplacement}, after a 401. False also for a young token.
   *
   * @param age of the token in ms
   */
  claimAfter401(age: number): boolean {
    return !isYoung(age) && this.claimReplacement();
  }

  /**
   * Why no token is requested with this secret now; `undefined` where it may be.
   *
   * @param secret its digest
   */
  recentFailure(secret: string): Failure | undefined {
    return this.rests.find(this.#requests(secret))?.failure;
  }

  /**
   * A token request failed after its attempts: for a while, the next ones with this secret fail likewise. Where the endpoint has asked
   * for a pause, they may wait for its end instead.
   *
   * @param isPermanent the endpoint will refuse it again
   */
  requestFailed(origin: string, secret: string, failure: Failure, isPermanent: boolean): void {
    const asked = this.rests.left(clientPause(this.stateKey.id, origin, secret));
    if (asked > 0) {
      this.rests.begin(this.#earlyRenewals, asked);
      return;
    }
    const ms = isPermanent ? LONGEST_RESTS.tokenRequest : AFTER_FAILED_TOKEN.tokenRequest;
    this.rests.begin(this.#requests(secret), ms, failure);
    if (isPermanent) {
      this.rests.begin(this.#earlyRenewals, ms);
    }
  }

  /** A renewal failed, whatever the cause. A longer rest stays. */
  renewalFailed(): void {
    this.rests.begin(this.#earlyRenewals, AFTER_FAILED_TOKEN.earlyRenewal);
  }

  get #earlyRenewals(): Subject {
    return ['earlyRenewal', this.#id];
  }

  #requests(secret: string): Subject {
    return ['tokenRequest', this.#id, secret];
  }
}
