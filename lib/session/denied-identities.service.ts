import { Inject, Injectable } from '@nestjs/common';
import { digestOf } from '../model/digest.js';
import type { ExhibitorIdentity } from '../model/exhibitor-identity.interface.js';
import type { ProviderLogout } from '../oidc/logout-token.js';
import { CHECKED_OPTIONS, type CheckedOptions } from '../options/check-options.js';
import type { Tenant } from '../tenants/tenant.js';
import { Clock } from '../time/clock.js';
import { CLOCK_MARGIN, EndedLogins, type EndedName } from '../store/ended-logins.service.js';

/** Members of an identity by which a logout finds it. */
type Login = Pick<ExhibitorIdentity, 'id' | 'tenant' | 'registration' | 'subject' | 'sid' | 'loggedInAt'>;

export type FormerIdentity = Pick<ExhibitorIdentity, 'id' | 'tenant' | 'expiresAt'>;

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

  constructor(
    @Inject(CHECKED_OPTIONS) { settings }: CheckedOptions,
    @Inject(EndedLogins) private readonly ended: EndedLogins,
    @Inject(Clock) private readonly clock: Clock,
  ) {
    this.absoluteTtl = settings.cookies.absoluteTtl;
  }

  /**
   * True for an identity that a logout ended, here or in another process.
   *
   * @param tenant that of the identity, where it is known. Identities of earlier versions name no registration: for them it is
   * the tenant's.
   */
  has(identity: Login, tenant: Tenant | undefined): boolean | Promise<boolean> {
    return this.ended.has(namesOf(identity, tenant));
  }

  /** Denies identities until they have expired, by any date that the host may be set back to. */
  async deny(identities: readonly FormerIdentity[]): Promise<void> {
    const deny = async ({ id, expiresAt }: FormerIdentity): Promise<void> => {
      if (id !== '') {
        // An identity of a host may have no end.
        const left = Math.min(expiresAt - this.clock.epochMs(), this.absoluteTtl);
        await this.ended.end(id, left + CLOCK_MARGIN);
      }
    };
    await Promise.all(identities.map(deny));
  }

  /**
   * Denies the logins that a logout at the provider ended. With a `sid` that is this session, and, where the user is named,
   * the identities without a `sid`: they may belong to it. Without, all logins of the user. Answers false where there is a `store`
   * that did not take it.
   */
  async denyLogout({ registrations, subject, sid, at }: ProviderLogout): Promise<boolean> {
    const names = registrations.flatMap((one) => [
      ...(sid === undefined ? [] : [logoutName('session', one, sid)]),
      ...(subject === undefined
        ? []
        : [logoutName(sid === undefined ? 'user' : 'sessionless', one, subject)]),
    ]);
    // No identity that began before the logout lives longer.
    const ttl = this.absoluteTtl + CLOCK_MARGIN;
    const taken = await Promise.all(names.map((name) => this.ended.endBefore(name, at, ttl)));
    return !taken.includes(false);
  }
}

/**
 * Names of the records that deny this identity. Identities of hosts may have no id; one without a time of login is taken for an
 * earlier one.
 */
function namesOf({ id, registration, subject, sid, loggedInAt = 0 }: Login, tenant?: Tenant): EndedName[] {
  const names: EndedName[] = id === '' ? [] : [{ name: id }];
  for (const one of new Set([registration, ...(tenant?.registrations ?? [])])) {
    if (one !== undefined) {
      const session =
        sid === undefined ? logoutName('sessionless', one, subject) : logoutName('session', one, sid);
      const user = logoutName('user', one, subject);
      names.push({ name: user, startedAt: loggedInAt }, { name: session, startedAt: loggedInAt });
    }
  }
  return names;
}

/** The provider chooses the length of `sub` and `sid`: a long name is replaced by its digest. */
function logoutName(of: 'user' | 'session' | 'sessionless', registration: string, name: string): string {
  const json = JSON.stringify([of, registration, name]);
  return json.length > LONGEST_NAME ? digestOf(json) : json;
}
