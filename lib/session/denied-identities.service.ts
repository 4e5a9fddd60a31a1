import { hash } from 'node:crypto';
import { Inject, Injectable } from '@nestjs/common';
import type { ExhibitorIdentity } from '../model/exhibitor-identity.interface.js';
import type { ProviderLogout } from '../oidc/logout-token.js';
import { CHECKED_OPTIONS, type CheckedOptions } from '../options/check-options.js';
import { CLOCK_MARGIN, ReplayCache, type MarkName, type MarkValue } from '../store/replay-cache.service.js';

/** Members of an identity by which a logout finds it. */
type Login = Pick<ExhibitorIdentity, 'id' | 'issuer' | 'subject' | 'sid' | 'loggedInAt'>;

/**
 * Identities that a logout ended. A logout at this host ends one identity, by its id. A logout at the provider ends the logins
 * of a session or of a user that began no later than it, so that a login after it is not refused.
 */
@Injectable()
export class DeniedIdentities {
  readonly #replays: ReplayCache;
  readonly #identityTtl: number;

  constructor(
    @Inject(CHECKED_OPTIONS) { settings }: CheckedOptions,
    @Inject(ReplayCache) replays: ReplayCache,
  ) {
    this.#identityTtl = settings.cookies.identityTtl;
    this.#replays = replays;
  }

  /** True for an identity that a logout ended, here or in another process. */
  has(identity: Login): boolean | Promise<boolean> {
    const marks = marksOf(identity);
    const isOver = (value: MarkValue | undefined): boolean => endsLogin(value, identity);
    if (marks.some((mark) => isOver(this.#replays.recordedHere(mark)))) {
      return true;
    }
    return this.#replays.isShared && this.#hasShared(marks, isOver);
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

  async #hasShared(
    marks: readonly MarkName[],
    isOver: (value: MarkValue | undefined) => boolean,
  ): Promise<boolean> {
    const values = await Promise.all(marks.map((mark) => this.#replays.recorded(mark)));
    return values.some(isOver);
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
  return { kind: 'logged-out', name: hash('sha256', JSON.stringify([of, issuer, name]), 'base64url') };
}

/** A number is the time of a logout. An identity of a host without a time of login is taken for an earlier one. */
function endsLogin(value: MarkValue | undefined, { loggedInAt = 0 }: Login): boolean {
  return value === true || (typeof value === 'number' && loggedInAt <= value);
}
