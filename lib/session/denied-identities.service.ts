import { Inject, Injectable } from '@nestjs/common';
import { digestOf } from '../model/digest.js';
import type { ExhibitorIdentity } from '../model/exhibitor-identity.interface.js';
import type { ProviderLogout } from '../oidc/logout-token.js';
import { CHECKED_OPTIONS, type CheckedOptions } from '../options/check-options.js';
import type { Tenant } from '../tenants/tenant.js';
import { Clock } from '../time/clock.js';
import { FairCache } from '../time/fair-cache.js';
import {
  CLOCK_MARGIN,
  ReplayCache,
  type ReplayName,
  type ReplayValue,
} from '../store/replay-cache.service.js';

/** Members of an identity by which a logout finds it. */
type Login = Pick<ExhibitorIdentity, 'id' | 'tenant' | 'registration' | 'subject' | 'sid' | 'loggedInAt'>;

export type FormerIdentity = Pick<ExhibitorIdentity, 'id' | 'tenant' | 'expiresAt'>;

/** Logins that are remembered as not denied. */
const MAX_ACCEPTED = 20_000;

/** Longest name of a logout that is kept as it is, in characters. */
const LONGEST_NAME = 256;

/**
 * Identities that a logout ended. A logout at this host ends one identity, by its id. A logout at the provider ends the logins
 * of a session or of a user that began no later than it, so that a login after it is not refused. It is looked for under the
 * registration that verified the login, and under those that the tenant has now.
 *
 * | a logout token with | writes                   | an identity     | is denied by                  |
 * | ------------------- | ------------------------ | --------------- | ----------------------------- |
 * | `sid`               | `session`                | with a `sid`    | its id, `user`, `session`     |
 * | `sub`               | `user`                   | without a `sid` | its id, `user`, `sessionless` |
 * | both                | `session`, `sessionless` |                 |                               |
 */
@Injectable()
export class DeniedIdentities {
  private readonly absoluteTtl: number;
  private readonly rememberFor: number;
  /** Logins that the store does not deny, for `logoutCheck.ttl` ms since it was asked. */
  private readonly accepted: FairCache<true>;

  constructor(
    @Inject(CHECKED_OPTIONS) { settings }: CheckedOptions,
    @Inject(ReplayCache) private readonly replays: ReplayCache,
    @Inject(Clock) private readonly clock: Clock,
  ) {
    this.absoluteTtl = settings.cookies.absoluteTtl;
    this.rememberFor = settings.logoutCheck.ttl;
    this.accepted = new FairCache(clock, MAX_ACCEPTED);
  }

  /**
   * True for an identity that a logout ended, here or in another process.
   *
   * @param tenant that of the identity, where it is known. Identities of earlier versions name no registration: for them it is
   * the tenant's.
   */
  has(identity: Login, tenant: Tenant | undefined): boolean | Promise<boolean> {
    const { isShared } = this.replays;
    if (!isShared && !this.replays.hasAny('logged-out')) {
      return this.replays.recordedHere({ kind: 'denied-identity', name: identity.id }) === true;
    }
    const names = namesOf(identity, tenant);
    if (names.some((name) => endsLogin(this.replays.recordedHere(name), identity))) {
      return true;
    }
    const login = [identity.loggedInAt, ...names.map(({ name }) => name)].join(' ');
    return isShared && this.accepted.get(login) === undefined && this.isDeniedInStore(login, names, identity);
  }

  /** Denies identities until they have expired, by any date that the host may be set back to. */
  async deny(identities: readonly FormerIdentity[]): Promise<void> {
    const deny = async ({ id, tenant, expiresAt }: FormerIdentity): Promise<void> => {
      // An identity of a host may have no end.
      const ttl = Math.min(expiresAt - this.clock.epochMs(), this.absoluteTtl) + CLOCK_MARGIN;
      if (id !== '' && ttl > 0) {
        await this.replays.record({ kind: 'denied-identity', name: id }, tenant, ttl);
      }
    };
    await Promise.all(identities.map(deny));
  }

  /**
   * Denies the logins that a logout at the provider ended. With a `sid` that is this session, and, where the user is named,
   * the identities without a `sid`: they may belong to it. Without, all logins of the user.
   *
   * @param tenant key of the tenant whose provider it is
   */
  async denyLogout(tenant: string, { registrations, subject, sid, at }: ProviderLogout): Promise<void> {
    const names = registrations.flatMap((one) => [
      ...(sid === undefined ? [] : [logoutName('session', one, sid)]),
      ...(subject === undefined
        ? []
        : [logoutName(sid === undefined ? 'user' : 'sessionless', one, subject)]),
    ]);
    // No identity that began before the logout lives longer.
    const ttl = this.absoluteTtl + CLOCK_MARGIN;
    await Promise.all(names.map(({ name }) => this.replays.recordLogout(name, tenant, at, ttl)));
  }

  /** @param login names the login among the accepted ones */
  private async isDeniedInStore(login: string, names: ReplayName[], identity: Login): Promise<boolean> {
    const askedAt = this.clock.now();
    const answers = await Promise.all(names.map((name) => this.replays.find(name)));
    const isDenied = answers.some(({ value }) => endsLogin(value, identity));
    const ttl = askedAt + this.rememberFor - this.clock.now();
    if (!isDenied && ttl > 0 && answers.every(({ isCertain }) => isCertain)) {
      this.accepted.set(login, true, { tenant: identity.tenant, ttl });
    }
    return isDenied;
  }
}

/** Names of the records that deny this identity. Identities of hosts may have no id. */
function namesOf({ id, registration, subject, sid }: Login, tenant?: Tenant): ReplayName[] {
  const names: ReplayName[] = id === '' ? [] : [{ kind: 'denied-identity', name: id }];
  for (const one of new Set([registration, ...(tenant?.registrations ?? [])])) {
    if (one !== undefined) {
      names.push(
        logoutName('user', one, subject),
        sid === undefined ? logoutName('sessionless', one, subject) : logoutName('session', one, sid),
      );
    }
  }
  return names;
}

/** The provider chooses the length of `sub` and `sid`: a long name is replaced by its digest. */
function logoutName(of: 'user' | 'session' | 'sessionless', registration: string, name: string): ReplayName {
  const json = JSON.stringify([of, registration, name]);
  return { kind: 'logged-out', name: json.length > LONGEST_NAME ? digestOf(json) : json };
}

/** A number is the time of a logout. An identity of a host without a time of login is taken for an earlier one. */
function endsLogin(value: ReplayValue | undefined, { loggedInAt = 0 }: Login): boolean {
  return value === true || (typeof value === 'number' && loggedInAt <= value);
}
