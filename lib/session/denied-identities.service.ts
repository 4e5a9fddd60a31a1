import { Inject, Injectable } from '@nestjs/common';
import { digestOfAll } from '../model/digest.js';
import type { ExhibitorIdentity } from '../model/exhibitor-identity.interface.js';
import type { ProviderLogout } from '../oidc/logout-token.js';
import { CHECKED_OPTIONS, type CheckedOptions } from '../options/check-options.js';
import { Clock } from '../time/clock.js';
import { expiringCache, type ExpiringCache } from '../time/expiring-cache.js';
import type { MaybePromise } from '../time/steps.js';
import { CLOCK_MARGIN, ReplayCache, type MarkName, type MarkValue } from '../store/replay-cache.service.js';

/** Members of an identity by which a logout finds it. */
type Login = Pick<ExhibitorIdentity, 'id' | 'issuer' | 'subject' | 'sid' | 'loggedInAt'>;

/** Logins that are remembered as not denied. */
const MAX_ACCEPTED = 20_000;

/** How to find out whether a login was ended. */
interface Check {
  readonly marks: readonly MarkName[];
  /** Names the login in the memory of this process. */
  readonly key: string;
}

/**
 * Identities that a logout ended. A logout at this host ends one identity, by its id. A logout at the provider ends the logins
 * of a session or of a user that began no later than it, so that a login after it is not refused.
 */
@Injectable()
export class DeniedIdentities {
  readonly #replays: ReplayCache;
  readonly #clock: Clock;
  readonly #identityTtl: number;
  readonly #rememberFor: number;
  /** Logins that the store does not deny, for `logoutCheck.ttl` ms since it was asked. */
  readonly #accepted: ExpiringCache<true>;
  /** Of identities that requests share: those of cookies. */
  readonly #checks = new WeakMap<Login, Check>();

  constructor(
    @Inject(CHECKED_OPTIONS) { settings }: CheckedOptions,
    @Inject(ReplayCache) replays: ReplayCache,
    @Inject(Clock) clock: Clock,
  ) {
    this.#identityTtl = settings.cookies.identityTtl;
    this.#rememberFor = settings.logoutCheck.ttl;
    this.#accepted = expiringCache(clock, { max: MAX_ACCEPTED });
    this.#replays = replays;
    this.#clock = clock;
  }

  /** True for an identity that a logout ended, here or in another process. */
  has(identity: Login): MaybePromise<boolean> {
    const { isShared } = this.#replays;
    if (!isShared && !this.#replays.hasAny('logged-out')) {
      return this.#replays.recordedHere({ kind: 'denied-identity', name: identity.id }) === true;
    }
    const check = this.#checkOf(identity);
    if (check.marks.some((mark) => endsLogin(this.#replays.recordedHere(mark), identity))) {
      return true;
    }
    return isShared && !this.#accepted.has(check.key) && this.#hasShared(check, identity);
  }

  /**
   * Denies the logins that a logout at the provider ended. With a `sid` that is this session, and, where the user is named,
   * the identities without a `sid`: they may belong to it. Without, all logins of the user.
   */
  async deny({ issuer, subject, sid, at }: ProviderLogout): Promise<void> {
    const marks = [
      ...(sid === undefined ? [] : [markOf('session', issuer, sid)]),
      ...(subject === undefined ? [] : [markOf(sid === undefined ? 'user' : 'sessionless', issuer, subject)]),
    ];
    // No identity that began before the logout lives longer.
    const ttl = this.#identityTtl + CLOCK_MARGIN;
    await Promise.all(marks.map(({ name }) => this.#replays.recordLogout(name, at, ttl)));
  }

  async #hasShared({ marks, key }: Check, identity: Login): Promise<boolean> {
    const askedAt = this.#clock.now();
    const records = await Promise.all(marks.map((mark) => this.#replays.ask(mark)));
    const isDenied = records.some(({ value }) => endsLogin(value, identity));
    const ttl = askedAt + this.#rememberFor - this.#clock.now();
    if (!isDenied && ttl > 0 && records.every(({ isCertain }) => isCertain)) {
      this.#accepted.set(key, true, { ttl });
    }
    return isDenied;
  }

  #checkOf(identity: Login): Check {
    const known = this.#checks.get(identity);
    if (known !== undefined) {
      return known;
    }
    const marks = marksOf(identity);
    const check = { marks, key: [identity.loggedInAt, ...marks.map(({ name }) => name)].join(' ') };
    if (Object.isFrozen(identity)) {
      this.#checks.set(identity, check);
    }
    return check;
  }
}

/** Records that deny this identity. Identities of hosts may have no id. */
function marksOf({ id, issuer, subject, sid }: Login): MarkName[] {
  return [
    ...(id === '' ? [] : [{ kind: 'denied-identity', name: id } as const]),
    markOf('user', issuer, subject),
    sid === undefined ? markOf('sessionless', issuer, subject) : markOf('session', issuer, sid),
  ];
}

/** A digest, since the provider chooses the length of `sub` and `sid`. */
function markOf(of: 'user' | 'session' | 'sessionless', issuer: string, name: string): MarkName {
  return { kind: 'logged-out', name: digestOfAll([of, issuer, name]) };
}

/** A number is the time of a logout. An identity of a host without a time of login is taken for an earlier one. */
function endsLogin(value: MarkValue | undefined, { loggedInAt = 0 }: Login): boolean {
  return value === true || (typeof value === 'number' && loggedInAt <= value);
}
