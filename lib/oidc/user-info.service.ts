import { Inject, Injectable } from '@nestjs/common';
import type { JWTPayload } from 'jose';
import type { ExhibitorIdentity } from '../model/exhibitor-identity.interface.js';
import { isText } from '../model/json-values.js';
import { isContactEmail } from '../model/path-parameters.js';
import type { LoginSettings } from '../config/tenant-settings.js';
import { described, formOf } from '../config/problems/claim-text.js';
import { addressOption } from '../config/problems/partner-problems.js';
import type { Refusal } from '../config/problems/problem.interface.js';
import { ProblemLog } from '../config/problems/problem-log.service.js';
import { loginOf, type Tenant } from '../config/tenant.js';
import type { Call } from '../call/call.js';
import { OpenIdProvider } from './openid-provider.service.js';

/** Of a token or of userinfo. */
export type Claims = Record<string, unknown>;

export type VerifiedUser = Pick<ExhibitorIdentity, 'subject' | 'email' | 'claims'>;

/** Reads the user from a verified token, and from the userinfo endpoint (OIDC Core §5.3) where the token has no e-mail address. */
@Injectable()
export class UserInfo {
  constructor(
    @Inject(OpenIdProvider) private readonly provider: OpenIdProvider,
    @Inject(ProblemLog) private readonly log: ProblemLog,
  ) {}

  /**
   * The user of a verified token. Its address is that of `emailClaim`, of the token or of userinfo; what they say of it: {@link wordOf}.
   * The first row that fits counts:
   *
   * | the token                       | userinfo                                            | `requireVerifiedEmail` | result             |
   * | ------------------------------- | --------------------------------------------------- | ---------------------- | ------------------ |
   * | has an address and says no      | is not asked                                        | any                    | `email_unverified` |
   * | has an address and says yes     | is not asked                                        | any                    | the user           |
   * | has an address and says nothing | is not asked                                        | `false`                | the user           |
   * | any other                       | is asked, and is of another user (OIDC Core §5.3.2) | any                    | `subject`          |
   * | has an address and says nothing | says yes                                            | `true`                 | the user           |
   * | has an address and says nothing | says no or nothing, or there is none                | `true`                 | `email_unverified` |
   * | has none                        | has none, or there is none                          | any                    | `email_missing`    |
   * | has none                        | has an address; one of both says no                 | any                    | `email_unverified` |
   * | has none                        | has an address; one of both says yes                | any                    | the user           |
   * | has none                        | has an address; both say nothing                    | `false`                | the user           |
   * | has none                        | has an address; both say nothing                    | `true`                 | `email_unverified` |
   *
   * @throws {LoginFailedError} `email_missing`, `email_unverified`, or `subject` where userinfo is of another user; and as
   * {@link OpenIdProvider}
   */
  async userOf(tenant: Tenant, token: JWTPayload, accessToken: string, call: Call): Promise<VerifiedUser> {
    const rules = loginOf(tenant);
    const subject = String(token.sub);
    const own = contactEmail([token], rules);
    const isAsked = own === undefined || (rules.requireVerifiedEmail && wordOf(token, own) === 'nothing');
    const url = isAsked ? await this.provider.findUrl(tenant, 'userinfo', call) : undefined;
    const headers = { authorization: `Bearer ${accessToken}` };
    const userinfo: Claims =
      url === undefined ? {} : await this.provider.get(tenant, 'userinfo', url, call, headers);
    if (url !== undefined && userinfo['sub'] !== subject) {
      const received = `userinfo of ${formOf(userinfo['sub'])}`;
      const refusal: Refusal = { reason: 'subject', expected: 'userinfo of the sub of the token', received };
      return this.#refuse(tenant, refusal, addressOption(tenant, 'userinfo'));
    }
    const sources = [token, userinfo];
    const email = contactEmail(sources, rules);
    if (email === undefined) {
      // The provider sends none to this client, or this account has none.
      return this.#refuse(tenant, missingEmail(sources, rules), 'login.scope', 'login.emailClaim');
    }
    // After the address: Keycloak sends `email_verified: false` without one.
    const words = sources.map((source) => wordOf(source, email));
    if (words.includes('no') || (rules.requireVerifiedEmail && !words.includes('yes'))) {
      const [ofToken, ofUserinfo] = sources.map((source) => described(source['email_verified']));
      const received = `token ${ofToken}, userinfo ${ofUserinfo}`;
      const hasOtherClaim = rules.emailClaim !== 'email';
      const expected = `email_verified true ${hasOtherClaim ? 'or none, with any emailClaim' : 'beside this email'}`;
      const refusal: Refusal = { reason: 'email_unverified', expected, received };
      const options = [
        ...(rules.requireVerifiedEmail ? ['login.requireVerifiedEmail'] : []),
        ...(hasOtherClaim ? ['login.emailClaim'] : []),
      ];
      return this.#refuse(tenant, refusal, ...options);
    }
    return { subject, email, claims: userClaims(token, userinfo) };
  }

  #refuse(tenant: Tenant, refusal: Refusal, ...option: string[]): never {
    const shown = { ...refusal, option, isWarning: option.length === 0 };
    throw this.log.refusal(tenant, 'user', shown, { message: `the token is refused: ${refusal.reason}` });
  }
}

/** Addresses are not shown: of a claim that is there, its form. */
function missingEmail(sources: readonly Claims[], { emailClaim: name }: LoginSettings): Refusal {
  const forms = sources.flatMap((claims) => (Object.hasOwn(claims, name) ? formOf(claims[name]) : []));
  const names = [...new Set(sources.flatMap(Object.keys))].join(', ');
  const received = `${forms.length === 0 ? '' : `${name} as ${forms.join(', ')}, of the `}claims ${names}`;
  const expected = `claim ${name}, which the provider sends to this client, as one address`;
  return { reason: 'email_missing', expected, received };
}

/** The contact e-mail address of the first source that has one, unchanged. One that cannot be looked up counts as none. */
export function contactEmail(
  sources: readonly Claims[],
  { emailClaim }: Pick<LoginSettings, 'emailClaim'>,
): string | undefined {
  return sources.flatMap((claims) => addressOf(claims[emailClaim]) ?? [])[0];
}

/** The address of a claim. Directories with several values write a list: where all are one address, it is that. */
function addressOf(claim: unknown): string | undefined {
  const [address, ...others]: unknown[] = Array.isArray(claim) ? claim : [claim];
  return isContactEmail(address) && others.every((other) => other === address) ? address : undefined;
}

/**
 * What `email_verified` of a token or of userinfo says of an address. A yes is about the `email` beside it (OIDC Core §5.1), and about no
 * other address; a no counts with any `emailClaim`.
 *
 * | `email_verified`          | `email`           | it says |
 * | ------------------------- | ----------------- | ------- |
 * | is absent, `null` or `''` | any or none       | nothing |
 * | is yes, see {@link isYes} | that address      | yes     |
 * | is yes                    | any other or none | nothing |
 * | is anything else          | any or none       | no      |
 */
function wordOf({ email, email_verified: flag }: Claims, address: string): 'yes' | 'no' | 'nothing' {
  if (flag === undefined || flag === null || flag === '') {
    return 'nothing';
  }
  if (!isYes(flag)) {
    return 'no';
  }
  return addressOf(email) === address ? 'yes' : 'nothing';
}

/** `true`, as text too, or a list of nothing else: user stores of .NET write `"True"`, `"False"` and lists. */
function isYes(flag: unknown): boolean {
  const flags: unknown[] = Array.isArray(flag) ? flag : [flag];
  return (
    flags.length > 0 && flags.every((one) => one === true || (isText(one) && one.toLowerCase() === 'true'))
  );
}

/** Claims that describe the token, not the user: of any JWT (RFC 7519 §4.1), and of an ID token (OIDC Core §2). */
const JWT_CLAIMS = ['iss', 'aud', 'exp', 'iat', 'nbf', 'jti'];
const ID_TOKEN_CLAIMS = ['nonce', 'azp', 'at_hash', 'c_hash', 's_hash', 'sid'];

/** Claims about one authentication. Only the ID token is bound to it. */
const AUTHENTICATION_CLAIMS = ['auth_time', 'acr', 'amr'];

/**
 * Claims of the user:
 *
 * | claim                    | is taken from                                                                        |
 * | ------------------------ | ------------------------------------------------------------------------------------ |
 * | about the token itself   | neither                                                                              |
 * | about the authentication | the token                                                                            |
 * | `email_verified`         | the token, else userinfo; not from one with another `email` than that which is taken |
 * | any other, also `email`  | the token, which is signed, else userinfo                                            |
 */
function userClaims(token: Claims, userinfo: Claims): Claims {
  const emailOf = ({ email }: Claims): unknown => addressOf(email) ?? email;
  const takenEmail = emailOf({ ...userinfo, ...token });
  const withOwnFlag = (source: Claims): Claims =>
    emailOf(source) === takenEmail ? source : without(['email_verified'], source);
  const ofPerson = without(AUTHENTICATION_CLAIMS, userinfo);
  return without([...JWT_CLAIMS, ...ID_TOKEN_CLAIMS], { ...withOwnFlag(ofPerson), ...withOwnFlag(token) });
}

function without(names: readonly string[], claims: Claims): Claims {
  return Object.fromEntries(Object.entries(claims).filter(([name]) => !names.includes(name)));
}
