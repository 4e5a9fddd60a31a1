import { Inject, Injectable } from '@nestjs/common';
import type { JWTPayload } from 'jose';
import { LoginFailedError, type LoginFailureReason } from '../errors/login-failed.error.js';
import type { ExhibitorIdentity } from '../model/exhibitor-identity.interface.js';
import { isContactEmail } from '../model/path-parameters.js';
import type { LoginSettings } from '../options/tenant-settings.js';
import { ProblemLog } from '../problems/problem-log.service.js';
import { loginOf, type Tenant } from '../tenants/tenant.js';
import type { Deadline } from '../time/deadline.js';
import { described } from './check-claims.js';
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
  async userOf(
    tenant: Tenant,
    token: JWTPayload,
    accessToken: string,
    deadline: Deadline,
  ): Promise<VerifiedUser> {
    const rules = loginOf(tenant);
    const subject = String(token.sub);
    const inToken = contactEmail([token], rules);
    // Userinfo may have the address, or say that it is verified. It cannot overrule `email_verified: false` of the token.
    const isNeeded = inToken === undefined || (!isDenied(token) && isUnconfirmed([token], inToken, rules));
    const url = isNeeded ? await this.provider.findUrl(tenant, 'userinfo', deadline) : undefined;
    const headers = { authorization: `Bearer ${accessToken}` };
    const userinfo: Claims =
      url === undefined ? {} : await this.provider.get(tenant, 'userinfo', url, deadline, headers);
    const refusal = (reason: LoginFailureReason): LoginFailedError =>
      new LoginFailedError(reason, `the token is refused: ${reason}`, { tenant: tenant.key });
    // OIDC Core §5.3.2.
    if (url !== undefined && userinfo['sub'] !== subject) {
      throw new LoginFailedError('subject', 'userinfo names another subject', { tenant: tenant.key });
    }
    const sources = [token, userinfo];
    const email = contactEmail(sources, rules);
    if (email === undefined) {
      // The provider sends none to this client, or this account has none.
      this.log.report(tenant, {
        cause: 'email_missing',
        options: ['login.scope', 'login.emailClaim'],
        message:
          'a user is refused (email_missing): neither the token nor userinfo has an address that can be looked up',
        expected: `claim ${rules.emailClaim}, which the provider sends to this client`,
        received: `claims ${described(Object.keys({ ...token, ...userinfo }))}`,
      });
      throw refusal('email_missing');
    }
    // After the address: Keycloak sends `email_verified: false` without one.
    if (sources.some(isDenied) || isUnconfirmed(sources, email, rules)) {
      throw refusal('email_unverified');
    }
    return { subject, email, claims: userClaims(token, userinfo) };
  }
}

/** The contact e-mail address of the first source that has one, unchanged. One that cannot be looked up counts as none. */
export function contactEmail(
  sources: readonly Claims[],
  { emailClaim }: Pick<LoginSettings, 'emailClaim'>,
): string | undefined {
  return sources.map((claims) => claims[emailClaim]).find(isContactEmail);
}

/** `email_verified: true` is about the `email` of the same source (OIDC Core §5.1), and about no other address. */
function isUnconfirmed(sources: readonly Claims[], address: string, rules: LoginSettings): boolean {
  const isVerified = ({ email, email_verified: flag }: Claims): boolean =>
    email === address && (flag === true || flag === 'true');
  return rules.requireVerifiedEmail && !sources.some(isVerified);
}

/** `email_verified: false`, which no other source overrules. Some providers send it as a string. */
function isDenied({ email_verified: flag }: Claims): boolean {
  return String(flag) === 'false';
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
  const { email }: Claims = { ...userinfo, ...token };
  const usable = (source: Claims): Claims =>
    source['email'] === email ? source : without(['email_verified'], source);
  const ofPerson = without(AUTHENTICATION_CLAIMS, userinfo);
  return without([...JWT_CLAIMS, ...ID_TOKEN_CLAIMS], { ...usable(ofPerson), ...usable(token) });
}

function without(names: readonly string[], claims: Claims): Claims {
  return Object.fromEntries(Object.entries(claims).filter(([name]) => !names.includes(name)));
}
