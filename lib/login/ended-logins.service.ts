import { Inject, Injectable, type OnApplicationShutdown, type OnModuleInit } from '@nestjs/common';
import { CHECKED_OPTIONS, type CheckedOptions } from '../config/check-options.js';
import { LONGEST_COOKIE } from '../config/exhibitor-settings.js';
import { Clock } from '../call/clock.js';
import { createCache, type ExpiringCache } from '../call/expiring-cache.js';
import type { FormerIdentity } from './identity.js';
import { namesOfLogout, namesOfUser, type EndedName, type Login, type UserLogout } from './logout-names.js';
import { SharedValues } from '../store/shared-values.service.js';

const KIND = 'ended-login';

/** Names that are remembered in one process, and logins that are remembered as not ended. */
const MAX = 100_000;

/** How long an identity counts after a new login of the same person, in ms: requests are under way. */
const GRACE = 60_000;

/**
 * By how much the date of the host may be set back, in ms. A sealed identity is valid for so much longer then, and so the end of its
 * login must be remembered for so much longer.
 */
export const CLOCK_MARGIN = 7_200_000;

/**
 * How far ahead an end may be for the login to count until then, in ms: `GRACE`, and 10 s by a clock that is behind. An end that is farther
 * ahead was recorded before the date was set back, which revives no login.
 */
const FARTHEST = GRACE + 10_000;

/** Of the registrations in this process that have no store, from start to close: they share what has ended. */
const registered = new Set<EndedLogins>();

/**
 * Logins that ended: under the id of the identity; with `logoutCheck.provider` also under names of the user and the session. In this
 * process the last 100,000; across processes with a `store`, as a key alone with a value of {@link EndedName}.
 */
@Injectable()
export class EndedLogins implements OnModuleInit, OnApplicationShutdown {
  readonly #ended: ExpiringCache<number>;
  /** Logins that had not ended when the store was asked, for `logoutCheck.ttl` ms. */
  readonly #notEnded: ExpiringCache<true>;
  readonly #settings: CheckedOptions['settings'];

  constructor(
    @Inject(CHECKED_OPTIONS) { settings }: CheckedOptions,
    @Inject(SharedValues) private readonly values: SharedValues,
    @Inject(Clock) private readonly clock: Clock,
  ) {
    this.#settings = settings;
    this.#ended = createCache(clock, { max: MAX });
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
   * @param endsAt end of the login, in ms since 1970: another service may give its logins more time. Default: `absoluteTtl` from now
   * @param from time from which it has ended, a minute from now at most; 1 is at once. It never replaces an earlier one
   */
  async end(id: string, endsAt?: number, from = 1): Promise<void> {
    const left = endsAt === undefined ? this.#settings.cookies.absoluteTtl : endsAt - this.clock.epochMs();
    const ttl = Math.min(left, LONGEST_COOKIE) + CLOCK_MARGIN;
    // The identity of a host may have no id.
    if (ttl > 0 && id !== '') {
      this.#remember(id, from, ttl, Math.min);
      if (this.#settings.store !== undefined) {
        await this.values.writeSoon(KIND, id, this.#ended.get(id) ?? from, ttl);
      }
    }
  }

  /** Ends identities at once; those of a `successor`, the person who has logged in anew, a minute later. */
  async endAll(identities: readonly FormerIdentity[], successor?: string): Promise<void> {
    const later = this.clock.epochMs() + GRACE;
    const fromOf = ({ person }: FormerIdentity): number => (person === successor ? later : 1);
    await Promise.all(identities.map((one) => this.end(one.id, one.endsAt, fromOf(one))));
  }

  /** Ends the logins that a logout names, unless a later one is recorded. Returns false where there is a store that did not take it. */
  async endBefore(logout: UserLogout): Promise<boolean> {
    const taken = await Promise.all(namesOfLogout(logout).map((name) => this.#record(name, logout.at)));
    return !taken.includes(false);
  }

  /**
   * True for a login that ended, here or in another process. Returns no promise where that is known.
   *
   * @param currentRegistration that of its tenant now; that of the login itself, where its tenant is not asked for
   */
  has(login: Login, currentRegistration: string): boolean | Promise<boolean> {
    const names = this.#namesOf(login, currentRegistration);
    const isKnown = this.#isKnown(names);
    if (isKnown || this.#settings.store === undefined) {
      return isKnown;
    }
    const loginKey = [login.loggedInAt, ...names.map(({ name }) => name)].join(' ');
    return !this.#notEnded.has(loginKey) && this.#isEndedInStore(loginKey, names);
  }

  /** True for a login that has not ended, but which this process knows as replaced by a new one of the same person. */
  endsSoon(id: string): boolean {
    return this.#ended.has(id);
  }

  #isKnown(names: readonly EndedName[]): boolean {
    return names.some(({ name, isEndedBy }) => {
      const at = this.#ended.get(name);
      return at !== undefined && isEndedBy(at);
    });
  }

  #namesOf(login: Login, currentRegistration: string): EndedName[] {
    const now = this.clock.epochMs();
    const own: EndedName = { name: login.id, isEndedBy: (at) => !(at > now && at <= now + FARTHEST) };
    return this.#settings.logoutCheck.provider ? [own, ...namesOfUser(login, currentRegistration)] : [own];
  }

  /**
   * Without a store also in the other registrations of this process that open the same cookies. Of two values for a name `choose` takes one,
   * which is kept for the longer of their times.
   */
  #remember(name: string, at: number, ttl: number, choose: typeof Math.max): void {
    const { store, secrets } = this.#settings;
    for (const one of new Set([this, ...(store === undefined ? registered : [])])) {
      if (one === this || one.#settings.secrets.some((secret) => secrets.includes(secret))) {
        const longest = Math.max(ttl, one.#ended.getRemainingTTL(name));
        one.#ended.set(name, choose(at, one.#ended.get(name) ?? at), { ttl: longest });
      }
    }
  }

  /** Ends the logins of this name that began at this time or before, in ms since 1970. Returns as {@link endBefore}. */
  async #record(name: string, at: number): Promise<boolean> {
    // No login that began before the logout lives longer.
    const ttl = this.#settings.cookies.absoluteTtl + CLOCK_MARGIN;
    // Valid here before the store is asked, which may be slow.
    this.#remember(name, at, ttl, Math.max);
    if (this.#settings.store === undefined) {
      return true;
    }
    const stored = await this.values.read(KIND, name);
    // Another process may have written this logout, or a later one.
    if (stored === null || Number(stored) >= at) {
      return stored !== null;
    }
    const latest = String(this.#ended.get(name) ?? at);
    return (await this.values.write(KIND, name, latest, ttl)) === true;
  }

  /** @param loginKey what the login is called among those that have not ended */
  async #isEndedInStore(loginKey: string, names: readonly EndedName[]): Promise<boolean> {
    const askedAt = this.clock.now();
    const answers = await Promise.all(names.map(async (one) => ({ one, stored: await this.#read(one) })));
    const isEnded = answers.some(({ one, stored }) => typeof stored === 'number' && one.isEndedBy(stored));
    const ttl = askedAt + this.#settings.logoutCheck.ttl - this.clock.now();
    if (!isEnded && ttl > 0 && answers.every(({ stored }) => stored !== null)) {
      this.#notEnded.set(loginKey, true, { ttl });
    }
    const [own] = answers;
    // A new login has replaced it, in another process: for `endsSoon`.
    if (!isEnded && typeof own?.stored === 'number') {
      this.#remember(own.one.name, own.stored, CLOCK_MARGIN, Math.min);
    }
    return isEnded;
  }

  /** The time of a logout in the store, if there is one; `null` where the store does not answer. */
  async #read({ name }: EndedName): Promise<number | undefined | null> {
    const stored = await this.values.read(KIND, name);
    if (stored !== null) {
      this.values.publishOutcome(KIND, stored === undefined ? 'miss' : 'hit');
    }
    return typeof stored === 'string' ? Number(stored) : stored;
  }
}
