import { Inject, Injectable, type OnApplicationShutdown, type OnModuleInit } from '@nestjs/common';
import { CHECKED_OPTIONS, type CheckedOptions } from '../config/check-options.js';
import { LONGEST_COOKIE } from '../config/exhibitor-settings.js';
import { Clock } from '../call/clock.js';
import { createCache, type ExpiringCache } from '../call/expiring-cache.js';
import type { FormerIdentity } from './identity.js';
import { namesOfLogout, namesThatEnd, type Login, type LogoutName, type UserLogout } from './logout-names.js';
import { RememberedEnds } from './remembered-ends.js';
import { SharedValues } from '../store/shared-values.service.js';

const KIND = 'ended-login';

/** Logins that had not ended when the store was asked. */
const MOST_NOT_ENDED = 100_000;

/** The time of an end at once. */
const AT_ONCE = 1;

/** How long a login still counts once a new login of the same person has replaced it, in ms: its requests are under way. */
const GRACE = 60_000;

/** How far ahead the time of an end may be, in ms: the clock of this process may be behind that of another one. */
const FARTHEST_AHEAD = GRACE + 10_000;

/**
 * By how much the date of the host may be set back, in ms. A sealed identity is valid for so much longer then, and so the end of its
 * login must be remembered for so much longer.
 */
export const CLOCK_MARGIN = 7_200_000;

/**
 * Logins that ended: each by its end, or by a logout of its user or session. This process remembers them, and a `store` has them for all:
 *
 * | what                | by                           | name there             | text there                        | is written there            |
 * | ------------------- | ---------------------------- | ---------------------- | --------------------------------- | --------------------------- |
 * | an end at once      | `end`, `endAll`              | the id of the identity | `1`, which is earlier than all    | over any other              |
 * | an end in a minute  | `endAll`, with a `successor` | the id of the identity | the time from which it has ended  | where there is no other     |
 * | a logout            | `recordLogout`               | see `logout-names`     | its time                          | where there is no later one |
 */
@Injectable()
export class EndedLogins implements OnModuleInit, OnApplicationShutdown {
  readonly #remembered: RememberedEnds;
  /** Logins that had not ended when the store was asked, for `logoutCheck.ttl` ms. */
  readonly #notEnded: ExpiringCache<true>;
  readonly #logoutCheck: CheckedOptions['settings']['logoutCheck'];
  /** How long an end or a logout is remembered where nothing says when the identity expires, in ms. */
  readonly #longest: number;

  constructor(
    @Inject(CHECKED_OPTIONS) { settings }: CheckedOptions,
    @Inject(SharedValues) private readonly values: SharedValues,
    @Inject(Clock) private readonly clock: Clock,
  ) {
    this.#logoutCheck = settings.logoutCheck;
    this.#longest = settings.cookies.absoluteTtl + CLOCK_MARGIN;
    this.#remembered = new RememberedEnds(clock, settings.secrets);
    this.#notEnded = createCache(clock, { max: MOST_NOT_ENDED });
  }

  onModuleInit(): void {
    if (!this.values.enabled) {
      this.#remembered.share();
    }
  }

  onApplicationShutdown(): void {
    this.#remembered.stopSharing();
  }

  /** Ends the login of an identity at once. It is remembered for `absoluteTtl`: nothing says here when the identity expires. */
  async end(id: string): Promise<void> {
    await this.#endAtOnce(id, this.#longest);
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
    this.#remembered.addEnd(id, AT_ONCE, ttl);
    if (this.values.enabled) {
      await this.values.writeSoon(KIND, id, String(AT_ONCE), ttl);
    }
  }

  async #endSoon(id: string, from: number, ttl: number): Promise<void> {
    if (this.#hasEndedHere(id)) {
      return;
    }
    this.#remembered.addEnd(id, from, ttl);
    if (this.values.enabled) {
      // Of two such ends the earlier one, since `writeSoon` keeps one waiting text for each id.
      const earlier = this.#remembered.ends.get(id) ?? from;
      await this.values.writeSoon(KIND, id, String(earlier), ttl, { ifAbsent: true });
    }
  }

  /** Ends the logins that a logout names. Returns false where there is a store that did not take it. */
  async recordLogout(logout: UserLogout): Promise<boolean> {
    const taken = await Promise.all(namesOfLogout(logout).map((name) => this.#record(name, logout.at)));
    return !taken.includes(false);
  }

  async #record(name: string, at: number): Promise<boolean> {
    // Valid here before the store is asked, which may be slow.
    this.#remembered.addLogout(name, at, this.#longest);
    if (!this.values.enabled) {
      return true;
    }
    const stored = await this.values.read(KIND, name);
    if (stored === null) {
      return false;
    }
    // Another process may have written this logout, or a later one.
    if (Number(stored) >= at) {
      return true;
    }
    const latest = this.#remembered.logouts.get(name) ?? at;
    return (await this.values.write(KIND, name, String(latest), this.#longest)) === true;
  }

  /**
   * True for a login that ended, here or in another process. Returns no promise where that is known.
   *
   * @param currentRegistration that of its tenant now; at a logout, which asks for no tenant, that of the login
   */
  has(login: Login, currentRegistration: string): boolean | Promise<boolean> {
    const { id, loggedInAt } = login;
    const logoutNames = this.#logoutCheck.provider ? namesThatEnd(login, currentRegistration) : [];
    if (this.#hasEndedHere(id, logoutNames)) {
      return true;
    }
    if (!this.values.enabled) {
      return false;
    }
    const loginKey = [loggedInAt, id, ...logoutNames.map(({ name }) => name)].join(' ');
    return !this.#notEnded.has(loginKey) && this.#hasEndedInStore(id, logoutNames, loginKey);
  }

  #hasEndedHere(id: string, logoutNames: readonly LogoutName[] = []): boolean {
    const { ends, logouts } = this.#remembered;
    const endedFrom = ends.get(id);
    return (
      (endedFrom !== undefined && this.#holdsNow(endedFrom)) ||
      logoutNames.some(({ name, isEndedBy }) => isEndedBy(logouts.get(name)))
    );
  }

  /** @param loginKey name of the login in `notEnded` */
  async #hasEndedInStore(id: string, logoutNames: readonly LogoutName[], loginKey: string): Promise<boolean> {
    const askedAt = this.clock.now();
    const answers = await Promise.all([
      this.#learn(id, (from) => this.#remembered.addEnd(id, from, this.#longest)),
      ...logoutNames.map(({ name }) =>
        this.#learn(name, (at) => this.#remembered.addLogout(name, at, this.#longest)),
      ),
    ]);
    if (this.#hasEndedHere(id, logoutNames)) {
      return true;
    }
    const ttl = askedAt + this.#logoutCheck.ttl - this.clock.now();
    if (ttl > 0 && !answers.includes(false)) {
      this.#notEnded.set(loginKey, true, { ttl });
    }
    return false;
  }

  /**
   * Remembers the time that the store has under a name, so that it counts while the store is down, too. Text that is no time is earlier than
   * all times: such an end holds, and such a logout ends its session, but no login by time. Returns false where the store did not answer.
   */
  async #learn(name: string, remember: (time: number) => void): Promise<boolean> {
    const text = await this.values.read(KIND, name);
    if (text === null) {
      return false;
    }
    this.values.publishOutcome(KIND, text === undefined ? 'miss' : 'hit');
    if (text !== undefined) {
      const time = Number(text);
      remember(Number.isNaN(time) ? Number.NEGATIVE_INFINITY : time);
    }
    return true;
  }

  /** True where this process knows an end of this login, which may still be to come. */
  knowsEndOf(id: string): boolean {
    return this.#remembered.ends.has(id);
  }

  #holdsNow(endedFrom: number): boolean {
    const ahead = endedFrom - this.clock.epochMs();
    // One that is too far ahead was written before the date of the host was set back.
    return ahead <= 0 || ahead > FARTHEST_AHEAD;
  }
}
