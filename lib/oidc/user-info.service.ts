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
   * The user of a verified token, with the address of the token or of userinfo.
   *
   * @throws {LoginFailedError} `email_missing`, `email_unverified`, or `subject` where userinfo is of another user; and as
   * {@link OpenIdProvider}
   */
  async userOf(tenant: Tenant, token: JWTPayload, accessToken: string, call: Call): Promise<VerifiedUser> {
    const rules = loginOf(tenant);
    const subject = String(token.sub);
    const own = contactEmail([token], rules);
    // Userinfo may have the address, or say that it is verified. It cannot overrule `email_verified: false` of the token.
    const isNeeded = own === undefined || (verdict(token) !== false && isUnconfirmed([token], own, rules));
    const url = isNeeded ? await this.provider.findUrl(tenant, 'userinfo', call) : undefined;
    const headers = { authorization: `Bearer ${accessToken}` };
    const userinfo: Claims =
      url === undefined ? {} : await this.provider.get(tenant, 'userinfo', url, call, headers);
    // OIDC Core §5.3.2.
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
    // After the address: Keycloak sends `email_verified: false` without one. A no refuses with any `emailClaim`.
    if (sources.some((one) => verdict(one) === false) || isUnconfirmed(sources, email, rules)) {
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

/** A yes is about the `email` of the same source (OIDC Core §5.1), and about no other address. */
function isUnconfirmed(sources: readonly Claims[], address: string, rules: LoginSettings): boolean {
  const confirms = (one: Claims): boolean => addressOf(one['email']) === address && verdict(one) === true;
  return rules.requireVerifiedEmail && !sources.some(confirms);
}

/** Whether `email_verified` says yes; `undefined` where it says nothing. User stores of .NET write `"True"`, `"False"` and lists. */
function verdict({ email_verified: flag }: Claims): boolean | undefined {
  if (flag === undefined || flag === null || flag === '') {
    return undefined;
  }
  const flags: unknown[] = Array.isArray(flag) ? flag : [flag];
  const isYes = (one: unknown): boolean => one === true || (isText(one) && one.toLowerCase() === 'true');
  return flags.length > 0 && flags.every(isYes);
}

/** Claims that describe the token, not the user: of any JWT (RFC 7519 §4.1), and of an ID token (OIDC Core §2). */
const JWT_CLAIMS = ['iss', 'aud', 'exp', 'iat', 'nbf', 'jti'];
const ID_TOKEN_CLAIMS = ['nonce', 'azp', 'at_hash', 'c_hash', 's_hash', 'sid'];

/** Claims about one authentication. Only the ID token is bound to it. */
const AUTHENTICATION_CLAIMS = ['auth_time', 'acr', 'amr'];

/**
 * Claims of the user. Those of the token, which is signed, take precedence over userinfo; those about the authentication are
 * taken from the token alone. `email_verified` is only taken from a source whose `email` is taken.
 */
function userClaims(token: Claims, userinfo: Claims): Claims {
  const emailOf = ({ email }: Claims): unknown => addressOf(email) ?? email;
  const email = emailOf({ ...userinfo, ...token });
  const usable = (source: Claims): Claims =>
    emailOf(source) === email ? source : without(['email_verified'], source);
  const ofPerson = without(AUTHENTICATION_CLAIMS, userinfo);
  return without([...JWT_CLAIMS, ...ID_TOKEN_CLAIMS], { ...usable(ofPerson), ...usable(token) });
}

function without(names: readonly string[], claims: Claims): Claims {
  return Object.fromEntries(Object.entries(claims).filter(([name]) => !names.includes(name)));
}
