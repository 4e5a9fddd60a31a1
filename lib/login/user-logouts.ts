import type { Clock } from '../call/clock.js';
import type { ExhibitorSettings } from '../config/exhibitor-settings.js';
import type { SharedValues } from '../store/shared-values.service.js';
import { namesOfLogout, type LogoutName, type UserLogout } from './logout-names.js';
import { ENDED_LOGIN, SharedTimes } from './shared-times.js';

/** Logouts of users and sessions, by their names (`logout-names`). Of two of one name, the later counts. */
export class UserLogouts {
  readonly times: SharedTimes;

  constructor(
    settings: ExhibitorSettings,
    private readonly values: SharedValues,
    clock: Clock,
  ) {
    this.times = new SharedTimes('later', settings, values, clock);
  }

  /** Ends the logins that a logout names. Returns false where there is a store that did not take it. */
  async record(logout: UserLogout): Promise<boolean> {
    const taken = await Promise.all(namesOfLogout(logout).map((name) => this.#recordAs(name, logout.at)));
    return !taken.includes(false);
  }

  async #recordAs(name: string, at: number): Promise<boolean> {
    // Valid here before the store is asked, which may be slow.
    this.times.add(name, at);
    if (!this.values.enabled) {
      return true;
    }
    const stored = await this.values.read(ENDED_LOGIN, name);
    if (stored === null) {
      return false;
    }
    // Another process may have written this logout, or a later one.
    if (Number(stored) >= at) {
      return true;
    }
    const latest = this.times.known.get(name) ?? at;
    return (await this.values.write(ENDED_LOGIN, name, String(latest), this.times.longest)) === true;
  }

  /** True where this process knows a logout of one of these names that ends the login. */
  hasEnded(names: readonly LogoutName[]): boolean {
    return names.some(({ name, isEndedBy }) => isEndedBy(this.times.known.get(name)));
  }
}
