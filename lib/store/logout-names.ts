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
import { digestOf } from '../model/digest.js';
import type { ExhibitorIdentity } from '../model/exhibitor-identity.interface.js';

/** Longest name that is kept as it is, in characters. */
const LONGEST_NAME = 256;

/** The user of a login, by which a logout finds it. */
export type Login = Pick<ExhibitorIdentity, 'id' | 'registration' | 'subject' | 'sid' | 'loggedInAt'>;

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
export interface EndedName {
  readonly name: string;
  /** When the login began, in ms since 1970: only a logout no earlier ended it. Where it is absent, any one did. */
  readonly startedAt?: number;
}

export function namesOfLogout({ registration, subject, sid }: ProviderLogout): string[] {
  const ofUser = sid === undefined ? 'user' : 'sessionless';
  return [
    ...(sid === undefined ? [] : [nameOf('session', registration, sid)]),
    ...(subject === undefined ? [] : [nameOf(ofUser, registration, subject)]),
  ];
}

/**
 * Names by which a login may have ended. One without a time of login is taken for an earlier one.
 *
 * @param currentRegistration that of its tenant now; `undefined` where logouts at the provider are not looked for. It differs from
 * that of the identity once the `keys` of the options were changed
 */
export function namesOfLogin(
  { id, registration, subject, sid, loggedInAt = 0 }: Login,
  currentRegistration: string | undefined,
): EndedName[] {
  const own: EndedName = { name: id };
  if (currentRegistration === undefined) {
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

/** The provider chooses the length of `sub` and `sid`: a long name is replaced by its digest. */
function nameOf(of: 'user' | 'session' | 'sessionless', registration: string, name: string): string {
  const json = JSON.stringify([of, registration, name]);
  return json.length > LONGEST_NAME ? digestOf(json) : json;
}
