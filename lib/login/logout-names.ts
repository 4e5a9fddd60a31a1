/**
 * Names under which a logout is recorded and looked for. An own logout has the id of the identity; the end of a user by code is `user`
 * with the key of the tenant; a logout at the provider serves all tenants of a registration:
 *
 * | a logout token with | writes                   | an identity     | is ended by                         |
 * | ------------------- | ------------------------ | --------------- | ----------------------------------- |
 * | `sid`               | `session`                | with a `sid`    | its id, both `user`s, `session`     |
 * | `sub`               | `user`                   | without a `sid` | its id, both `user`s, `sessionless` |
 * | both                | `session`, `sessionless` |                 |                                     |
 *
 * The logout of one session ends none of the user's other sessions, but every login whose session is unknown: `sessionless`.
 */
import { digestOf } from '../model/digest.js';
import type { ExhibitorIdentity } from '../model/exhibitor-identity.interface.js';

/** Longest name that is kept as it is, in characters. */
const LONGEST_NAME = 256;

/** The user of a login, by which a logout finds it. */
export type Login = Pick<
  ExhibitorIdentity,
  'id' | 'tenant' | 'registration' | 'subject' | 'sid' | 'loggedInAt'
>;

/** The logout of a session, or of every login of a user up to a time: at the provider, or by code. */
export interface UserLogout {
  /** Issuer, client and keys of the tenant that verified it, see {@link ExhibitorIdentity.registration}. */
  readonly registration: string;
  /** Key of the only tenant whose logins end; otherwise all of the registration do. */
  readonly tenant?: string;
  readonly subject?: string;
  readonly sid?: string;
  /** In ms since 1970; no later than now. */
  readonly at: number;
}

/** A name under which a login may have ended. Its value is a time in ms since 1970: of the logout, or from which the login has ended; or 1. */
export interface EndedName {
  readonly name: string;
  /** `NaN` is other text in the store. */
  readonly isEndedBy: (at: number) => boolean;
}

/**
 * Names by which the login of a user may have ended, beside the id of its identity. A login without a time is taken for an earlier one
 * than each logout. Once the `keys` of the options were changed, the registration of its tenant now differs from its own.
 *
 * @param currentRegistration that of its tenant now
 */
export function namesOfUser(
  { tenant, registration, subject, sid, loggedInAt = 0 }: Login,
  currentRegistration: string,
): EndedName[] {
  const byTime = (name: string): EndedName => ({ name, isEndedBy: (at) => at >= loggedInAt });
  const registrations = new Set([registration ?? currentRegistration, currentRegistration]);
  return [...registrations].flatMap((one): EndedName[] => [
    byTime(nameOf('user', one, subject)),
    byTime(nameOf('user', one, subject, tenant)),
    sid === undefined
      ? byTime(nameOf('sessionless', one, subject))
      : { name: nameOf('session', one, sid), isEndedBy: () => true },
  ]);
}

/** Names that a logout writes. */
export function namesOfLogout({ registration, tenant, subject, sid }: UserLogout): string[] {
  const ofUser = sid === undefined ? 'user' : 'sessionless';
  return [
    ...(sid === undefined ? [] : [nameOf('session', registration, sid)]),
    ...(subject === undefined ? [] : [nameOf(ofUser, registration, subject, tenant)]),
  ];
}

/** The provider chooses the length of `sub` and `sid`: a long name is replaced by its digest. */
function nameOf(of: 'user' | 'session' | 'sessionless', ...names: readonly (string | undefined)[]): string {
  const json = JSON.stringify([of, ...names.filter((name) => name !== undefined)]);
  return json.length > LONGEST_NAME ? digestOf(json) : json;
}
