import { Inject, Injectable, type OnApplicationShutdown, type OnModuleInit } from '@nestjs/common';
import { CHECKED_OPTIONS, type CheckedOptions } from '../config/check-options.js';
import { LONGEST_COOKIE } from '../config/exhibitor-settings.js';
import { Clock } from '../call/clock.js';
import { createCache, type ExpiringCache } from '../call/expiring-cache.js';
import type { FormerIdentity } from './identity.js';
import { namesOfLogout, namesThatEnd, type Login, type LogoutName, type UserLogout } from './logout-names.js';
import { SharedValues } from '../store/shared-values.service.js';

const KIND = 'ended-login';

/** Entries of each cache. Ends and logouts have no common limit: many logouts at a provider must not displace ends. */
const MAX = 100_000;

/** An end at once: a time that is earlier than every other end. */
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

/** The registrations in this process that have no store, from start to close. See `#sharing`. */
const withoutStore = new Set<EndedLogins>();

/**
 * Logins that ended. A process remembers what ends them in two caches; a `store` has the same for all processes.
 *
 * | cache     | entry                           | name                   | time, in ms since 1970              | which of two counts |
 * | --------- | ------------------------------- | ---------------------- | ----------------------------------- | ------------------- |
 * | `ends`    | the end of one login            | the id of its identity | from which it has ended; at once: 1 | the earlier one     |
 * | `logouts` | a logout of a user or a session | see `logout-names`     | of the logout                       | the later one       |
 */
@Injectable()
export class EndedLogins implements OnModuleInit, OnApplicationShutdown {
  readonly #ends: ExpiringCache<number>;
  readonly #logouts: ExpiringCache<number>;
  /** Logins that had not ended when the store was asked, for `logoutCheck.ttl` ms. */
  readonly #notEnded: ExpiringCache<true>;
  readonly #settings: CheckedOptions['settings'];
  /** How long an end or a logout is remembered where nothing says when the identity expires, in ms. */
  readonly #longest: number;

  constructor(
    @Inject(CHECKED_OPTIONS) { settings }: CheckedOptions,
    @Inject(SharedValues) private readonly values: SharedValues,
    @Inject(Clock) private readonly clock: Clock,
  ) {
    this.#settings = settings;
    this.#longest = settings.cookies.absoluteTtl + CLOCK_MARGIN;
    this.#ends = createCache(clock, { max: MAX });
    this.#logouts = createCache(clock, { max: MAX });
    this.#notEnded = createCache(clock, { max: MAX });
  }

  onModuleInit(): void {
    if (this.#settings.store === undefined) {
      withoutStore.add(this);
    }
  }

  onApplicationShutdown(): void {
    withoutStore.delete(this);
  }

  /** Ends the login of an identity at once. It is remembered for `absoluteTtl`: nothing says here when the identity expires. */
  async end(id: string): Promise<void> {
    await this.#end(id, AT_ONCE, this.#longest);
  }

  /**
   * Ends identities at once; those of a `successor`, the person who has logged in anew, a minute later. Each end is remembered until its
   * identity expires for good: another service may give its logins more time than this one.
   */
  async endAll(identities: readonly FormerIdentity[], successor?: string): Promise<void> {
    const now = this.clock.epochMs();
    await Promise.all(
      identities.map(({ id, endsAt, person }) => {
        const from = person === successor ? now + GRACE : AT_ONCE;
        return this.#end(id, from, Math.min(endsAt - now, LONGEST_COOKIE) + CLOCK_MARGIN);
      }),
    );
  }

  /** What the store does not take is written soon. */
  async #end(id: string, from: number, ttl: number): Promise<void> {
    // The identity of a host may have no id.
    if (ttl <= 0 || id === '') {
      return;
    }
    this.#rememberEnd(id, from, ttl);
    if (this.#settings.store !== undefined) {
      // An end at once that came before may still wait to be written: it must not give way to this one.
      const earliest = this.#ends.get(id) ?? from;
      const isAtOnce = earliest === AT_ONCE;
      // An end at once is written over any other. One in a minute is not: what the store has is earlier.
      await this.values.writeSoon(KIND, id, String(earliest), ttl, isAtOnce ? {} : { ifAbsent: true });
    }
  }

  /** Records a logout, which ends the logins that it names. Returns false where there is a store that did not take it. */
  async endBefore(logout: UserLogout): Promise<boolean> {
    const taken = await Promise.all(namesOfLogout(logout).map((name) => this.#record(name, logout.at)));
    return !taken.includes(false);
  }

  async #record(name: string, at: number): Promise<boolean> {
    // Valid here before the store is asked, which may be slow.
    this.#rememberLogout(name, at);
    if (this.#settings.store === undefined) {
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
    const latest = this.#logouts.get(name) ?? at;
    return (await this.values.write(KIND, name, String(latest), this.#longest)) === true;
  }

  /**
   * True for a login that ended, here or in another process. Returns no promise where that is known.
   *
   * @param currentRegistration that of its tenant now; at a logout, which asks for no tenant, that of the login
   */
  has(login: Login, currentRegistration: string): boolean | Promise<boolean> {
    const { id, loggedInAt } = login;
    const logoutNames = this.#settings.logoutCheck.provider ? namesThatEnd(login, currentRegistration) : [];
    const end = this.#ends.get(id);
    const isKnown =
      (end !== undefined && this.#isPast(end)) ||
      logoutNames.some(({ name, isEndedBy }) => isEndedBy(this.#logouts.get(name)));
    if (isKnown || this.#settings.store === undefined) {
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
    if (logoutNames.some(({ isEndedBy }, index) => isEndedBy(logouts[index] ?? undefined))) {
      return true;
    }
    if (typeof end === 'number') {
      if (this.#isPast(end)) {
        return true;
      }
      // A new login in another process has replaced this one. For `knowsEndOf`.
      this.#rememberEnd(id, end, this.#longest);
    }
    const ttl = askedAt + this.#settings.logoutCheck.ttl - this.clock.now();
    const hasAnswered = ![end, ...logouts].includes(null);
    if (hasAnswered && ttl > 0) {
      this.#notEnded.set(loginKey, true, { ttl });
    }
    return false;
  }

  /**
   * The time that the store has under a name; `undefined` where there is none, `null` where the store does not answer. Text that is no time
   * counts as the earliest: such an end is over, and of such logouts only that of a session ends logins.
   */
  async #read(name: string): Promise<number | undefined | null> {
    const text = await this.values.read(KIND, name);
    if (text !== null) {
      this.values.publishOutcome(KIND, text === undefined ? 'miss' : 'hit');
    }
    if (typeof text !== 'string') {
      return text;
    }
    const time = Number(text);
    return Number.isNaN(time) ? Number.NEGATIVE_INFINITY : time;
  }

  /** True where this process knows an end of this login: past, or to come, which {@link has} does not count. */
  knowsEndOf(id: string): boolean {
    return this.#ends.has(id);
  }

  #isPast(end: number): boolean {
    const ahead = end - this.clock.epochMs();
    // An end is a minute ahead at most. One that is farther ahead was written before the date of the host was set back.
    return ahead <= 0 || ahead > GRACE + CLOCK_DIFFERENCE;
  }

  #rememberEnd(id: string, from: number, ttl: number): void {
    for (const one of this.#sharing()) {
      keepAtLeast(one.#ends, id, Math.min(from, one.#ends.get(id) ?? from), ttl);
    }
  }

  #rememberLogout(name: string, at: number): void {
    for (const one of this.#sharing()) {
      keepAtLeast(one.#logouts, name, Math.max(at, one.#logouts.get(name) ?? at), this.#longest);
    }
  }

  /** This registration, and without a store the others in this process that have a secret in common with it: they open its cookies. */
  #sharing(): EndedLogins[] {
    const { store, secrets } = this.#settings;
    if (store !== undefined) {
      return [this];
    }
    const others = [...withoutStore].filter(
      (one) => one !== this && one.#settings.secrets.some((secret) => secrets.includes(secret)),
    );
    return [this, ...others];
  }
}

/** Keeps a time for `ttl` ms, or for as long as the one before was to be kept, where that is longer. */
function keepAtLeast(cache: ExpiringCache<number>, name: string, time: number, ttl: number): void {
  cache.set(name, time, { ttl: Math.max(ttl, cache.getRemainingTTL(name)) });
}
