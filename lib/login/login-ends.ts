import type { Clock } from '../call/clock.js';
import { LONGEST_COOKIE, type ExhibitorSettings } from '../config/exhibitor-settings.js';
import type { SharedValues } from '../store/shared-values.service.js';
import type { FormerIdentity } from './identity.js';
import { CLOCK_MARGIN, ENDED_LOGIN, SharedTimes } from './shared-times.js';

/** The time of an end at once: earlier than all others. */
const AT_ONCE = 1;

/** How long a login still counts once a new login of the same person has replaced it, in ms: its requests are under way. */
const GRACE = 60_000;

/** How far ahead the time of an end may be, in ms: the clock of this process may be behind that of another one. */
const FARTHEST_AHEAD = GRACE + 10_000;

/**
 * Ends of logins, by the ids of their identities. Of two ends of one login, the earlier counts:
 *
 * | an end      | is made by                                            | its time                            | is written to the store |
 * | ----------- | ----------------------------------------------------- | ----------------------------------- | ----------------------- |
 * | at once     | `end`, and `endAll` for all others than a `successor` | 1                                   | over any other          |
 * | in a minute | `endAll`, for the identities of a `successor`         | that from which the login has ended | where there is none     |
 */
export class LoginEnds {
  readonly times: SharedTimes;

  constructor(
    settings: ExhibitorSettings,
    private readonly values: SharedValues,
    private readonly clock: Clock,
  ) {
    this.times = new SharedTimes('earlier', settings, values, clock);
  }

  /** Ends the login of an identity at once. It is remembered for `absoluteTtl`: nothing says here when the identity expires. */
  async end(id: string): Promise<void> {
    await this.#endAtOnce(id, this.times.longest);
  }

  /**
   * Ends identities at once; those of a `successor`, the person who has logged in anew, a minute later. Each end is remembered until its
   * identity expires for good: another service may give its logins more time than this one.
   */
  async endAll(identities: readonly FormerIdentity[], successor?: string): Promise<void> {
    const now = this.clock.epochMs();
    const ending = identities.map(async ({ id, endsAt, person }) => {
      const ttl = Math.min(endsAt - now, LONGEST_COOKIE) + CLOCK_MARGIN;
      // The identity of a host may have no id.
      if (ttl > 0 && id !== '') {
        await (person === successor ? this.#endSoon(id, now + GRACE, ttl) : this.#endAtOnce(id, ttl));
      }
    });
    await Promise.all(ending);
  }

  /** What the store does not take is written soon. */
  async #endAtOnce(id: string, ttl: number): Promise<void> {
    this.times.add(id, AT_ONCE, ttl);
    if (this.values.enabled) {
      await this.values.writeSoon(ENDED_LOGIN, id, String(AT_ONCE), ttl);
    }
  }

  async #endSoon(id: string, from: number, ttl: number): Promise<void> {
    if (this.isOver(id)) {
      return;
    }
    // An earlier one may still be waiting: `writeSoon` keeps one text for each id.
    const counting = this.times.add(id, from, ttl);
    if (this.values.enabled) {
      await this.values.writeSoon(ENDED_LOGIN, id, String(counting), ttl, { ifAbsent: true });
    }
  }

  /**
   * True where this process knows that the login has ended:
   *
   * | the time of its end | has it ended                                                 |
   * | ------------------- | ------------------------------------------------------------ |
   * | is unknown          | no                                                           |
   * | is now or past      | yes                                                          |
   * | is up to 70 s ahead | no                                                           |
   * | is further ahead    | yes: it was written before the date of the host was set back |
   */
  isOver(id: string): boolean {
    const from = this.times.known.get(id);
    if (from === undefined) {
      return false;
    }
    const ahead = from - this.clock.epochMs();
    return ahead <= 0 || ahead > FARTHEST_AHEAD;
  }

  /** True where this process knows an end of the login, which may still be to come. */
  isKnown(id: string): boolean {
    return this.times.known.has(id);
  }
}
