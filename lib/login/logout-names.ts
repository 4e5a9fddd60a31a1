/**
 * Names of users and sessions, under which logouts are recorded and looked for. All tenants of a registration share those of its provider:
 *
 * | name                  | is written by                             | ends                                        |
 * | --------------------- | ----------------------------------------- | ------------------------------------------- |
 * | `session`, `sid`      | a logout token with `sid`                 | this session, whenever it began             |
 * | `user`, `sub`         | a logout token with `sub` alone           | logins of the user until then               |
 * | `sessionless`, `sub`  | a logout token with `sub` and `sid`       | those until then whose session is not known |
 * | `user`, `sub`, tenant | code of the host: `ExhibitorLogins.end()` | those until then at this tenant             |
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

/** A name under which a logout is looked for that may have ended a login. */
export interface LogoutName {
  readonly name: string;
  /** @param logoutAt time of the logout that was found, in ms since 1970; `undefined` where none was */
  readonly isEndedBy: (logoutAt: number | undefined) => boolean;
}

/**
 * Names under which a logout may have ended this login. A login without a time counts as earlier than every logout.
 *
 * @param currentRegistration that of its tenant now. It is not that of the login once the `keys` of the options were changed
 */
export function namesThatEnd(
  { tenant, registration, subject, sid, loggedInAt = 0 }: Login,
  currentRegistration: string,
): LogoutName[] {
  const byTime = (name: string): LogoutName => ({
    name,
    isEndedBy: (logoutAt) => logoutAt !== undefined && logoutAt >= loggedInAt,
  });
  const registrations = new Set([registration ?? currentRegistration, currentRegistration]);
  return [...registrations].flatMap((one): LogoutName[] => [
    byTime(nameOf('user', one, subject)),
    byTime(nameOf('user', one, subject, tenant)),
    sid === undefined
      ? byTime(nameOf('sessionless', one, subject))
      : { name: nameOf('session', one, sid), isEndedBy: (logoutAt) => logoutAt !== undefined },
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
