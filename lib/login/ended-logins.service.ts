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

/** The time of an end at once: it is earlier than every other end. */
const AT_ONCE = 1;

/** How long a login still counts once a new login of the same person has replaced it, in ms: its requests are under way. */
const GRACE = 60_000;

/** By how much the clock of a process may be behind that of another one, in ms. */
const CLOCK_DIFFERENCE = 10_000;

/**
 * By how much the date of the host may be set back, in ms. A sealed identity is valid for so much longer then, and so the end of its
 * login must be remembered for so much longer.
 */
export const CLOCK_MARGIN = 7_200_000;

/** Logins that ended: each by its end, or by a logout of its user or session. A `store` has both for all processes. */
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
    const isEnded = this.#remembered.ends.get(id) === AT_ONCE;
    this.#remembered.addEnd(id, from, ttl);
    // An end at once may still wait to be written: this one must not take its place. What the store has is earlier, too.
    if (this.values.enabled && !isEnded) {
      await this.values.writeSoon(KIND, id, String(from), ttl, { ifAbsent: true });
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
    const { ends, logouts } = this.#remembered;
    const end = ends.get(id);
    const isKnown =
      (end !== undefined && this.#counts(end)) ||
      logoutNames.some(({ name, isEndedBy }) => isEndedBy(logouts.get(name)));
    if (isKnown || !this.values.enabled) {
      return isKnown;
    }
    const loginKey = [loggedInAt, id, ...logoutNames.map(({ name }) => name)].join(' ');
    return !this.#notEnded.has(loginKey) && this.#isEndedInStore(id, logoutNames, loginKey);
  }

  /** @param loginKey name of the login in `notEnded` */
  async #isEndedInStore(id: string, logoutNames: readonly LogoutName[], loginKey: string): Promise<boolean> {
    const askedAt = this.clock.now();
    const [end, ...logouts] = await Promise.all([
      this.#read(id),
      ...logoutNames.map(({ name }) => this.#read(name)),
    ]);
    if (end.time !== undefined && this.#counts(end.time)) {
      return true;
    }
    if (logoutNames.some(({ isEndedBy }, index) => isEndedBy(logouts[index]?.time))) {
      return true;
    }
    if (end.time !== undefined) {
      // A new login in another process has replaced this one.
      this.#remembered.addEnd(id, end.time, this.#longest);
    }
    const ttl = askedAt + this.#logoutCheck.ttl - this.clock.now();
    const isAnswered = [end, ...logouts].every(({ hasAnswered }) => hasAnswered);
    if (isAnswered && ttl > 0) {
      this.#notEnded.set(loginKey, true, { ttl });
    }
    return false;
  }

  /** What the store has under a name. Text that is no time counts as one before all others. */
  async #read(name: string): Promise<{ hasAnswered: boolean; time: number | undefined }> {
    const text = await this.values.read(KIND, name);
    if (text === null) {
      return { hasAnswered: false, time: undefined };
    }
    this.values.publishOutcome(KIND, text === undefined ? 'miss' : 'hit');
    if (text === undefined) {
      return { hasAnswered: true, time: undefined };
    }
    const time = Number(text);
    return { hasAnswered: true, time: Number.isNaN(time) ? Number.NEGATIVE_INFINITY : time };
  }

  /** True where this process knows an end of this login, which may still be to come. */
  knowsEndOf(id: string): boolean {
    return this.#remembered.ends.has(id);
  }

  /** True from the time of an end on. */
  #counts(end: number): boolean {
    const ahead = end - this.clock.epochMs();
    // A minute at most. An end that is farther ahead was written before the date of the host was set back.
    return ahead <= 0 || ahead > GRACE + CLOCK_DIFFERENCE;
  }
}
