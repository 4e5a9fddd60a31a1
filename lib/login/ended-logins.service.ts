import { Inject, Injectable, type OnApplicationShutdown, type OnModuleInit } from '@nestjs/common';
import { CHECKED_OPTIONS, type CheckedOptions } from '../config/check-options.js';
import { Clock } from '../call/clock.js';
import { createCache, type ExpiringCache } from '../call/expiring-cache.js';
import { LoginEnds } from './login-ends.js';
import { namesThatEnd, type Login, type LogoutName } from './logout-names.js';
import { SharedValues } from '../store/shared-values.service.js';
import { UserLogouts } from './user-logouts.js';

/** Logins that had not ended when the store was asked. */
const MOST_NOT_ENDED = 100_000;

/** Whether a login has ended: by an end of its own, or by a logout of its user or session. */
@Injectable()
export class EndedLogins implements OnModuleInit, OnApplicationShutdown {
  readonly ends: LoginEnds;
  readonly logouts: UserLogouts;
  /** Logins that had not ended when the store was asked, for `logoutCheck.ttl` ms. */
  readonly #notEnded: ExpiringCache<true>;
  readonly #logoutCheck: CheckedOptions['settings']['logoutCheck'];

  constructor(
    @Inject(CHECKED_OPTIONS) { settings }: CheckedOptions,
    @Inject(SharedValues) private readonly values: SharedValues,
    @Inject(Clock) private readonly clock: Clock,
  ) {
    this.ends = new LoginEnds(settings, values, clock);
    this.logouts = new UserLogouts(settings, values, clock);
    this.#notEnded = createCache(clock, { max: MOST_NOT_ENDED });
    this.#logoutCheck = settings.logoutCheck;
  }

  onModuleInit(): void {
    if (!this.values.enabled) {
      this.ends.times.share();
      this.logouts.times.share();
    }
  }

  onApplicationShutdown(): void {
    this.ends.times.stopSharing();
    this.logouts.times.stopSharing();
  }

  /**
   * True for a login that ended, here or in another process. Returns no promise where that is known.
   *
   * @param currentRegistration that of its tenant now; at a logout, which asks for no tenant, that of the login
   */
  has(login: Login, currentRegistration: string): boolean | Promise<boolean> {
    const { id, loggedInAt } = login;
    const logoutNames = this.#logoutCheck.provider ? namesThatEnd(login, currentRegistration) : [];
    if (this.ends.isOver(id) || (logoutNames.length > 0 && this.logouts.hasEnded(logoutNames))) {
      return true;
    }
    if (!this.values.enabled) {
      return false;
    }
    const loginKey = [loggedInAt, id, ...logoutNames.map(({ name }) => name)].join(' ');
    return !this.#notEnded.has(loginKey) && this.#isInStore(id, logoutNames, loginKey);
  }

  /** @param loginKey name of the login in `notEnded` */
  async #isInStore(id: string, logoutNames: readonly LogoutName[], loginKey: string): Promise<boolean> {
    const askedAt = this.clock.now();
    const answers = await Promise.all([
      this.ends.times.learn(id),
      ...logoutNames.map(({ name }) => this.logouts.times.learn(name)),
    ]);
    if (this.ends.isOver(id) || this.logouts.hasEnded(logoutNames)) {
      return true;
    }
    const ttl = askedAt + this.#logoutCheck.ttl - this.clock.now();
    if (ttl > 0 && !answers.includes(false)) {
      this.#notEnded.set(loginKey, true, { ttl });
    }
    return false;
  }
}
