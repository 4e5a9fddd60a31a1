import { Inject, Injectable, type OnApplicationShutdown, type OnModuleInit } from '@nestjs/common';
import { CHECKED_OPTIONS, type CheckedOptions } from '../config/check-options.js';
import { LONGEST_COOKIE } from '../config/exhibitor-settings.js';
import { Clock } from '../call/clock.js';
import { createCache, type ExpiringCache } from '../call/expiring-cache.js';
import type { FormerIdentity } from './identity.js';
import { namesOfLogout, namesOfUser, type EndedName, type Login, type UserLogout } from './logout-names.js';
import { SharedValues } from '../store/shared-values.service.js';

const KIND = 'ended-login';

/** Ends that are remembered in one process, and logins that are remembered as not ended. */
const MAX = 100_000;

/** The time of an end that counts already. */
const AT_ONCE = 1;

/** How long an identity counts after a new login of the same person, in ms: requests are under way. */
const GRACE = 60_000;

/**
 * A login that was replaced counts until its end, where that is at most so far ahead, in ms: `GRACE`, and 10 s for a clock that is
 * behind. An end that is farther ahead was recorded before the date of the host was set back: its login has ended.
 */
const FARTHEST = GRACE + 10_000;

/**
 * By how much the date of the host may be set back, in ms. A sealed identity is valid for so much longer then, and so the end of its
 * login must be remembered for so much longer.
 */
export const CLOCK_MARGIN = 7_200_000;

/** Which of two times for one name counts. */
const EARLIER = Math.min;
const LATER = Math.max;

/** Of the registrations in this process that have no store, from start to close: they share what has ended. */
const registered = new Set<EndedLogins>();

/**
 * Logins that ended: the last 100,000 in this process, and with a `store` in all of them. An end is a time in ms since 1970 that is kept
 * under a name. There are two kinds:
 *
 * | what ends              | name                   | time                                             | of two times counts |
 * | ---------------------- | ---------------------- | ------------------------------------------------ | ------------------- |
 * | one login              | the id of its identity | from which it has ended; 1 where that is at once | the earlier one     |
 * | logins before a logout | see `logout-names`     | of the logout                                    | the later one       |
 */
@Injectable()
export class EndedLogins implements OnModuleInit, OnApplicationShutdown {
  /** The time of each end. A login that was replaced by a new one is here a minute before it has ended. */
  readonly #ends: ExpiringCache<number>;
  /** Logins that had not ended when the store was asked, for `logoutCheck.ttl` ms. */
  readonly #notEnded: ExpiringCache<true>;
  readonly #settings: CheckedOptions['settings'];

  constructor(
    @Inject(CHECKED_OPTIONS) { settings }: CheckedOptions,
    @Inject(SharedValues) private readonly values: SharedValues,
    @Inject(Clock) private readonly clock: Clock,
  ) {
    this.#settings = settings;
    this.#ends = createCache(clock, { max: MAX });
    this.#notEnded = createCache(clock, { max: MAX });
  }

  onModuleInit(): void {
    if (this.#settings.store === undefined) {
      registered.add(this);
    }
  }

  onApplicationShutdown(): void {
    registered.delete(this);
  }

  /**
   * Ends the login of this identity. What the store does not take is written soon.
   *
   * @param validUntil when the identity expires for good, in ms since 1970: its end is remembered until then. Another service may give its
   * logins more time. Default: `absoluteTtl` from now
   * @param from time from which the login has ended, a minute from now at most. It never replaces an earlier one
   */
  async end(id: string, validUntil?: number, from = AT_ONCE): Promise<void> {
    const left =
      validUntil === undefined ? this.#settings.cookies.absoluteTtl : validUntil - this.clock.epochMs();
    const ttl = Math.min(left, LONGEST_COOKIE) + CLOCK_MARGIN;
    // The identity of a host may have no id.
    if (ttl > 0 && id !== '') {
      this.#remember(id, from, ttl, EARLIER);
      if (this.#settings.store !== undefined) {
        const earliest = this.#ends.get(id) ?? from;
        // What is in the store was written before and is an earlier end, which only an end at once replaces.
        const rules = earliest === AT_ONCE ? {} : ({ ifAbsent: true } as const);
        await this.values.writeSoon(KIND, id, String(earliest), ttl, rules);
      }
    }
  }

  /** Ends identities at once; those of a `successor`, the person who has logged in anew, a minute later. */
  async endAll(identities: readonly FormerIdentity[], successor?: string): Promise<void> {
    const inAMinute = this.clock.epochMs() + GRACE;
    await Promise.all(
      identities.map(({ id, endsAt, person }) =>
        this.end(id, endsAt, person === successor ? inAMinute : AT_ONCE),
      ),
    );
  }

  /** Records a logout, which ends the logins that it names. Returns false where there is a store that did not take it. */
  async endBefore(logout: UserLogout): Promise<boolean> {
    const taken = await Promise.all(namesOfLogout(logout).map((name) => this.#recordLogout(name, logout.at)));
    return !taken.includes(false);
  }

  /**
   * True for a login that ended, here or in another process. Returns no promise where that is known.
   *
   * @param currentRegistration that of its tenant now; that of the login itself, where its tenant is not asked for
   */
  has(login: Login, currentRegistration: string): boolean | Promise<boolean> {
    const own: EndedName = { name: login.id, isEndedBy: (from) => !this.#isToCome(from) };
    const ofUser = this.#settings.logoutCheck.provider ? namesOfUser(login, currentRegistration) : [];
    const names = [own, ...ofUser];
    const isKnown = names.some(({ name, isEndedBy }) => {
      const time = this.#ends.get(name);
      return time !== undefined && isEndedBy(time);
    });
    if (isKnown || this.#settings.store === undefined) {
      return isKnown;
    }
    const loginKey = [login.loggedInAt, ...names.map(({ name }) => name)].join(' ');
    return !this.#notEnded.has(loginKey) && this.#isEndedInStore(login.id, loginKey, names);
  }

  /** True of an end in the next time. `NaN`, other text in the store, is an end at once. */
  #isToCome(from: number): boolean {
    const now = this.clock.epochMs();
    return from > now && from <= now + FARTHEST;
  }

  /**
   * True where this process knows that a new login of the same person has replaced this login. To be asked only for a login that still
   * counts: any end that is known is then one to come.
   */
  endsSoon(id: string): boolean {
    return this.#ends.has(id);
  }

  /** @param loginKey names the login among those that have not ended */
  async #isEndedInStore(id: string, loginKey: string, names: readonly EndedName[]): Promise<boolean> {
    const askedAt = this.clock.now();
    const answers = await Promise.all(names.map(async (one) => ({ time: await this.#read(one), ...one })));
    if (answers.some(({ time, isEndedBy }) => typeof time === 'number' && isEndedBy(time))) {
      return true;
    }
    const replacedFrom = answers.find(({ name }) => name === id)?.time;
    if (typeof replacedFrom === 'number') {
      // By a new login, in another process: for `endsSoon`.
      this.#remember(id, replacedFrom, CLOCK_MARGIN, EARLIER);
    }
    const ttl = askedAt + this.#settings.logoutCheck.ttl - this.clock.now();
    if (ttl > 0 && answers.every(({ time }) => time !== null)) {
      this.#notEnded.set(loginKey, true, { ttl });
    }
    return false;
  }

  /** The time that the store has under a name, `NaN` for other text; `undefined` without any; `null` where it does not answer. */
  async #read({ name }: EndedName): Promise<number | undefined | null> {
    const stored = await this.values.read(KIND, name);
    if (stored !== null) {
      this.values.publishOutcome(KIND, stored === undefined ? 'miss' : 'hit');
    }
    return typeof stored === 'string' ? Number(stored) : stored;
  }

  /** Returns false where there is a store that did not take the logout. */
  async #recordLogout(name: string, at: number): Promise<boolean> {
    // No login that began before the logout lives longer.
    const ttl = this.#settings.cookies.absoluteTtl + CLOCK_MARGIN;
    // Valid here before the store is asked, which may be slow.
    this.#remember(name, at, ttl, LATER);
    if (this.#settings.store === undefined) {
      return true;
    }
    const stored = await this.values.read(KIND, name);
    // Another process may have written this logout, or a later one.
    if (stored === null || Number(stored) >= at) {
      return stored !== null;
    }
    const latest = String(this.#ends.get(name) ?? at);
    return (await this.values.write(KIND, name, latest, ttl)) === true;
  }

  /**
   * Remembers an end for the longer of its `ttl` and the time left of the one that is known. Without a store also in the other
   * registrations of this process that open the same cookies.
   */
  #remember(name: string, time: number, ttl: number, whichCounts: typeof EARLIER): void {
    const { store, secrets } = this.#settings;
    for (const one of new Set([this, ...(store === undefined ? registered : [])])) {
      if (one === this || one.#settings.secrets.some((secret) => secrets.includes(secret))) {
        const longest = Math.max(ttl, one.#ends.getRemainingTTL(name));
        one.#ends.set(name, whichCounts(time, one.#ends.get(name) ?? time), { ttl: longest });
      }
    }
  }
}
