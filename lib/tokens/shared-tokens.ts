import { setTimeout as pause } from 'node:timers/promises';
import * as v from 'valibot';
import type { Clock } from '../call/clock.js';
import { createCache, type ExpiringCache } from '../call/expiring-cache.js';
import type { SharedValues } from '../store/shared-values.service.js';
import { HEADER_SAFE } from './token-endpoint.service.js';
import { TimedToken } from './token-lifetime.js';
import type { TokenState } from './token-state.js';

const TOKEN = 'token';
const HINT = 'token-hint';

/** How long a hint says that a process is asking for a token, in ms. */
const HINT_TTL = 2_000;

/** Hints that a process remembers as its own. */
const MOST_HINTS = 1_000;

/** Waits of a process that finds a hint, in ms: 1,050 in all. It looks for the token after each, and then asks for one itself. */
const WAITS = [150, 300, 600];

/** A token in the store. Times are in ms since 1970, the only clock that processes share. */
const storedToken = v.object({
  accessToken: v.pipe(v.string(), v.regex(HEADER_SAFE)),
  scope: v.optional(v.string()),
  lifetime: v.number(),
  requestedAt: v.number(),
});

/** The tokens that processes share through the `store` of the host. Each has a name, which only holders of its secret can make. */
export class SharedTokens {
  /** Those of this process: it must not wait for itself. */
  readonly #ownHints: ExpiringCache<true>;

  constructor(
    private readonly values: SharedValues,
    private readonly clock: Clock,
  ) {
    this.#ownHints = createCache(clock, { max: MOST_HINTS });
  }

  /**
   * The token of another process: at once, or after a wait where one is asking for it now.
   *
   * @param mayWait false where this process could not ask itself afterwards
   */
  async find(name: string, state: TokenState, mayWait: boolean): Promise<TimedToken | undefined> {
    const found = await this.#read(name, state);
    this.values.publishOutcome(TOKEN, found === undefined ? 'miss' : 'hit');
    if (found !== undefined || !mayWait) {
      return found;
    }
    // A hint, no lock: nobody removes it, and whatever goes wrong costs a token request more. It names the token that is replaced:
    // a process that replaces another one does not wait.
    const hint = JSON.stringify([name, state.replaced]);
    // `null`: the store does not answer, so nobody is waited for.
    const isOfOther = (await this.values.write(HINT, hint, '1', HINT_TTL, { ifAbsent: true })) === false;
    if (!isOfOther) {
      this.#ownHints.set(hint, true, { ttl: HINT_TTL });
    }
    // Also where this process wrote it for a request that has failed since.
    if (this.#ownHints.has(hint)) {
      return undefined;
    }
    for (const ms of WAITS) {
      await pause(ms, undefined, { ref: false });
      const token = await this.#read(name, state);
      if (token !== undefined) {
        this.values.publishOutcome(TOKEN, 'waited');
        return token;
      }
    }
    return undefined;
  }

  async keep(name: string, token: TimedToken): Promise<void> {
    const left = token.expiresAt - this.clock.now();
    if (left > 0) {
      const { accessToken, scope } = token;
      const lifetime = token.expiresAt - token.requestedAt;
      const requestedAt = token.requestedAt + this.#epoch();
      await this.values.writeSealed(TOKEN, name, { accessToken, scope, lifetime, requestedAt }, left);
    }
  }

  /**
   * The token in the store, where it counts: not if it has expired, nor if it is the one that is to be replaced. And:
   *
   * | the service has     | it counts if                                                   |
   * | ------------------- | -------------------------------------------------------------- |
   * | refused a token     | it was requested after the request that was refused            |
   * | refused none        | it lasts longer than the one that is held                      |
   */
  async #read(
    name: string,
    { token: held, rejected, replaced }: TokenState,
  ): Promise<TimedToken | undefined> {
    const { success, output } = v.safeParse(storedToken, await this.values.readSealed(TOKEN, name));
    if (!success) {
      return undefined;
    }
    const requestedAt = output.requestedAt - this.#epoch();
    const token = new TimedToken({ ...output, requestedAt, isShared: true }, this.clock);
    const isBetter =
      rejected?.by === 'service' ? requestedAt > rejected.at : token.expiresAt > (held?.expiresAt ?? 0);
    const counts = isBetter && token.expiresAt > this.clock.now() && token.accessToken !== replaced;
    return counts ? token : undefined;
  }

  /** {@link Clock.epochMs} when {@link Clock.now} was 0. */
  #epoch(): number {
    return this.clock.epochMs() - this.clock.now();
  }
}
