/**
 * Names under which a logout is recorded and looked for. An own logout has the id of the identity; one at the provider:
 *
 * | a logout token with | writes                   | an identity     | is ended by                   |
 * | ------------------- | ------------------------ | --------------- | ----------------------------- |
 * | `sid`               | `session`                | with a `sid`    | its id, `user`, `session`     |
 * | `sub`               | `user`                   | without a `sid` | its id, `user`, `sessionless` |
 * | both                | `session`, `sessionless` |                 |                               |
 *
 * The logout of one session ends none of the user's other sessions, but every login whose session is unknown: `sessionless`.
 */
import { Inject, Injectable } from '@nestjs/common';
import { digestOf } from '../model/digest.js';
import type { ExhibitorIdentity } from '../model/exhibitor-identity.interface.js';
import { CHECKED_OPTIONS, type CheckedOptions } from '../options/check-options.js';
import { Clock, LONGEST_TIMER } from '../time/clock.js';
import { createCache, type ExpiringCache } from '../time/expiring-cache.js';
import { SharedValues } from './shared-values.service.js';

const KIND = 'ended-login';

/** Names that are remembered in one process, and logins that are remembered as not ended. */
const MAX = 100_000;

/**
 * How long "not ended" counts for {@link EndedLogins.isRunning} with a store, in ms. Another process may have ended the login
 * meanwhile and written the cookie of a newer one, which the reply to a slow request must not replace.
 */
const RECENT = 1_000;

/**
 * By how much the date of the host may be set back, in ms. A sealed identity is valid for so much longer then, and so the end of its
 * login must be remembered for so much longer.
 */
const CLOCK_MARGIN = 7_200_000;

/** Longest name that is kept as it is, in characters. */
const LONGEST_NAME = 256;

/** The user of a login, by which a logout finds it. */
type Login = Pick<ExhibitorIdentity, 'id' | 'registration' | 'subject' | 'sid' | 'loggedInAt'>;

/** A logout at the provider: of a session, or of every login of a user up to a time. */
export interface ProviderLogout {
  /** Issuer, client and keys of the tenant that verified it, see {@link ExhibitorIdentity.registration}. */
  readonly registration: string;
  readonly subject?: string;
  readonly sid?: string;
  /** In ms since 1970; no later than now. */
  readonly at: number;
}

/** A name under which a login may have ended. */
interface EndedName {
  readonly name: string;
  /** When the login began, in ms since 1970: only a logout no earlier ended it. Where it is absent, any one did. */
  readonly startedAt?: number;
}

/**
 * Logins that ended: by a logout here, under the id of the identity; with `logoutCheck.provider` also by one at the provider. In this
 * process the last 100,000 names; across processes with a `store`, as a key alone with the value `1`, or the time of the provider's
 * logout.
 */
@Injectable()
export class EndedLogins {
  /** Time of the logout by name; 1 for an own one. */
  readonly #ended: ExpiringCache<number>;
  /** Logins that had not ended when the store was asked, for `logoutCheck.ttl` ms. */
  readonly #notEnded: ExpiringCache<true>;
  /** There is a `store`. */
  readonly #isShared: boolean;
  readonly #check: CheckedOptions['settings']['logoutCheck'];
  /** Longest time that a login lives, in ms. */
  readonly #longest: number;

  constructor(
    @Inject(CHECKED_OPTIONS) { settings }: CheckedOptions,
    @Inject(SharedValues) private readonly values: SharedValues,
    @Inject(Clock) private readonly clock: Clock,
  ) {
    this.#isShared = settings.store !== undefined;
    this.#check = settings.logoutCheck;
    this.#longest = settings.cookies.absoluteTtl;
    this.#ended = createCache(clock, { max: MAX });
    this.#notEnded = createCache(clock, { max: MAX });
  }

  /**
   * Ends the login of this identity. What the store does not take is written soon.
   *
   * @param endsAt end of the login, in ms since 1970: another service may give its logins more time. Default: `absoluteTtl` from now
   */
  async end(id: string, endsAt?: number): Promise<void> {
    const left = endsAt === undefined ? this.#longest : endsAt - this.clock.epochMs();
    const ttl = Math.min(left, LONGEST_TIMER) + CLOCK_MARGIN;
    // The identity of a host may have no id.
    if (ttl > 0 && id !== '') {
      this.#ended.set(id, 1, { ttl });
      if (this.#isShared) {
        await this.values.writeSoon(KIND, id, ttl);
      }
    }
  }

  /**
   * Ends the logins that a logout at the provider names. Answers false where there is a store that did not take it. What is
   * recorded already is not replaced by an earlier one.
   */
  async endAtProvider(logout: ProviderLogout): Promise<boolean> {
    const taken = await Promise.all(namesOfLogout(logout).map((name) => this.#endBefore(name, logout.at)));
    return !taken.includes(false);
  }

  /**
   * True for a login that ended, here or in another process. Answers no promise where it is known.
   *
   * @param currentRegistration that of its tenant now; that of the login itself, where its tenant is not asked for
   */
  has(login: Login, currentRegistration: string): boolean | Promise<boolean> {
    const names = this.#namesOf(login, currentRegistration);
    if (this.#isKnown(names)) {
      return true;
    }
    if (!this.#isShared) {
      return false;
    }
    const loginKey = names.map(({ name, startedAt }) => `${name} ${startedAt}`).join(' ');
    return !this.#notEnded.has(loginKey) && this.#isEndedInStore(loginKey, names);
  }

  /**
   * True for a login of which this process knows that it has not ended. Another one may have ended it since it was asked for.
   *
   * @param askedAt {@link Clock.now} when {@link has} answered false
   */
  isRunning(login: Login, currentRegistration: string, askedAt: number): boolean {
    const isRecent = !this.#isShared || this.clock.now() - askedAt <= RECENT;
    return isRecent && !this.#isKnown(this.#namesOf(login, currentRegistration));
  }

  #isKnown(names: readonly EndedName[]): boolean {
    return names.some((one) => endsLogin(this.#ended.get(one.name), one));
  }

  /**
   * Names by which a login may have ended. One without a time of login is taken for an earlier one. Once the `keys` of the options were
   * changed, the registration of its tenant now differs from its own.
   */
  #namesOf(
    { id, registration, subject, sid, loggedInAt = 0 }: Login,
    currentRegistration: string,
  ): EndedName[] {
    const own: EndedName = { name: id };
    if (!this.#check.provider) {
      return [own];
    }
    const registrations = new Set([registration ?? currentRegistration, currentRegistration]);
    const ofProvider = [...registrations].flatMap((one): EndedName[] => [
      { name: nameOf('user', one, subject), startedAt: loggedInAt },
      sid === undefined
        ? { name: nameOf('sessionless', one, subject), startedAt: loggedInAt }
        : { name: nameOf('session', one, sid) },
    ]);
    return [own, ...ofProvider];
  }

  /** Ends the logins of this name that began at `at` or before. */
  async #endBefore(name: string, at: number): Promise<boolean> {
    // No login that began before the logout lives longer.
    const ttl = this.#longest + CLOCK_MARGIN;
    // Valid here before the store is asked, which may be slow.
    const latest = Math.max(at, this.#ended.get(name) ?? at);
    this.#ended.set(name, latest, { ttl });
    if (!this.#isShared) {
      return true;
    }
    const stored = await this.values.read(KIND, name);
    if (stored === null) {
      return false;
    }
    // Another process may have written this logout, or a later one.
    const isWritten = Number(stored) >= at;
    return isWritten || (await this.values.write(KIND, name, String(latest), ttl)) === true;
  }

  /** @param loginKey of the login among those that have not ended */
  async #isEndedInStore(loginKey: string, names: readonly EndedName[]): Promise<boolean> {
    const askedAt = this.clock.now();
    const answers = await Promise.all(names.map(async (one) => ({ one, stored: await this.#read(one) })));
    const isEnded = answers.some(({ one, stored }) => endsLogin(stored ?? undefined, one));
    const ttl = askedAt + this.#check.ttl - this.clock.now();
    if (!isEnded && ttl > 0 && answers.every(({ stored }) => stored !== null)) {
      this.#notEnded.set(loginKey, true, { ttl });
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

/** @param at value of the name, in memory or in the store */
function endsLogin(at: number | undefined, { startedAt }: EndedName): boolean {
  return at !== undefined && (startedAt === undefined || at >= startedAt);
}

function namesOfLogout({ registration, subject, sid }: ProviderLogout): string[] {
  const ofUser = sid === undefined ? 'user' : 'sessionless';
  return [
    ...(sid === undefined ? [] : [nameOf('session', registration, sid)]),
    ...(subject === undefined ? [] : [nameOf(ofUser, registration, subject)]),
  ];
}

/** The provider chooses the length of `sub` and `sid`: a long name is replaced by its digest. */
function nameOf(of: 'user' | 'session' | 'sessionless', registration: string, name: string): string {
  const json = JSON.stringify([of, registration, name]);
  return json.length > LONGEST_NAME ? digestOf(json) : json;
}
