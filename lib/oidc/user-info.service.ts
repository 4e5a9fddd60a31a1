import { Inject, Injectable } from '@nestjs/common';
import type { JWTPayload } from 'jose';
import { LoginFailedError, type LoginFailureReason } from '../errors/login-failed.error.js';
import { isContactEmail } from '../model/path-parameters.js';
import type { LoginSettings } from '../options/tenant-settings.js';
import { ProblemLog } from '../problems/problem-log.service.js';
import { loginOf, type Tenant } from '../tenants/tenant.js';
import type { Deadline } from '../time/deadline.js';
import { described } from './check-claims.js';
import { OpenIdProvider } from './openid-provider.service.js';

/** Of a token or of userinfo. */
export type Claims = Record<string, unknown>;

export interface VerifiedUser {
  subject: string;
  email: string;
  claims: Claims;
}

/** Reads the user from a verified token, and from the userinfo endpoint (OIDC Core §5.3) where the token has no e-mail address. */
@Injectable()
export class UserInfo {
  constructor(
    @Inject(OpenIdProvider) private readonly provider: OpenIdProvider,
    @Inject(ProblemLog) private readonly log: ProblemLog,
  ) {}

  async userOf(
    tenant: Tenant,
    token: JWTPayload,
    accessToken: string,
    deadline: Deadline,
  ): Promise<VerifiedUser> {
    const rules = loginOf(tenant);
    const subject = String(token.sub);
    const ofToken = contactEmail([token], rules);
    // Userinfo may have the address, or say that it is verified. It cannot overrule `email_verified: false` of the token.
    const isNeeded = 'reason' in ofToken && (ofToken.reason === 'email_missing' || !isDenied(token));
    const userinfo = isNeeded ? await this.#fetch(tenant, accessToken, deadline) : undefined;
    // OIDC Core §5.3.2.
    if (userinfo !== undefined && userinfo['sub'] !== subject) {
      throw new LoginFailedError('subject', 'userinfo names another subject', { tenant: tenant.key });
    }
    const contact = userinfo === undefined ? ofToken : contactEmail([token, userinfo], rules);
    if ('email' in contact) {
      return { subject, email: contact.email, claims: userClaims(token, userinfo) };
    }
    const { reason } = contact;
    if (reason === 'email_missing') {
      // The provider sends none to this client, or this account has none.
      this.log.report(tenant, {
        cause: reason,
        options: ['login.scope', 'login.emailClaim'],
        message:
          'a user is refused (email_missing): neither the token nor userinfo has an address that can be looked up',
        expected: `claim ${rules.emailClaim}, which the provider sends to this client`,
        received: `claims ${described(Object.keys({ ...token, ...userinfo }))}`,
      });
    }
    throw new LoginFailedError(reason, `the token is refused: ${reason}`, { tenant: tenant.key });
  }

  /** `undefined` where the provider has no such endpoint. */
  async #fetch(tenant: Tenant, accessToken: string, deadline: Deadline): Promise<Claims | undefined> {
    const url = await this.provider.findUrl(tenant, 'userinfo', deadline);
    const headers = { authorization: `Bearer ${accessToken}` };
    return url === undefined ? undefined : this.provider.get(tenant, 'userinfo', url, deadline, headers);
  }
}

type EmailRules = Pick<LoginSettings, 'emailClaim' | 'requireVerifiedEmail'>;

/**
 * The contact e-mail address, unchanged, of the first source that has one; or the reason of the refusal. Where there is an address,
 * `email_verified: false` in any source is a refusal. Some providers send it as a string; Keycloak sends it without any address.
 *
 * @param sources claims of the token, then of userinfo
 */
export function contactEmail(
  sources: readonly Claims[],
  rules: EmailRules,
): { email: string } | { reason: LoginFailureReason } {
  const email = sources.map((claims) => emailOf(claims, rules)).find((value) => value !== undefined);
  if (email === undefined) {
    return { reason: 'email_missing' };
  }
  const isUnconfirmed = rules.requireVerifiedEmail && !sources.some((claims) => isVerified(claims, email));
  return sources.some(isDenied) || isUnconfirmed ? { reason: 'email_unverified' } : { email };
}

/** `email_verified: true` is about the `email` of the same source (OIDC Core §5.1), and about no other address. */
function isVerified({ email, email_verified: flag }: Claims, address: string): boolean {
  return email === address && (flag === true || flag === 'true');
}

/** `email_verified: false`, which no other source overrules. */
function isDenied({ email_verified: flag }: Claims): boolean {
  return String(flag) === 'false';
}

/** The address as it is. One that cannot be looked up counts as none. */
function emailOf(claims: Claims, { emailClaim }: EmailRules): string | undefined {
  const value = Object.hasOwn(claims, emailClaim) ? claims[emailClaim] : undefined;
  return isContactEmail(value) ? value : undefined;
}

/** Claims that describe the token, not the user: of any JWT (RFC 7519 §4.1), and of an ID token (OIDC Core §2). */
const JWT_CLAIMS = ['iss', 'aud', 'exp', 'iat', 'nbf', 'jti'];
const ID_TOKEN_CLAIMS = ['nonce', 'azp', 'at_hash', 'c_hash', 's_hash', 'sid'];

/** Claims about one authentication. Only the ID token is bound to it. */
const AUTHENTICATION_CLAIMS = ['auth_time', 'acr', 'amr'];

/**
 * Claims of the user. Those of the token, which is signed, take precedence over userinfo; those about the authentication are
 * taken from it alone. `email_verified` is only taken from a source whose `email` is taken.
 */
function userClaims(token: Claims, userinfo: Claims | undefined): Claims {
  const ofPerson = without(AUTHENTICATION_CLAIMS, userinfo);
  const { email_verified: _ofSomeSource, ...claims }: Claims = { ...ofPerson, ...token };
  const ofEmail = [token, userinfo].find(
    (source) => source?.['email'] === claims['email'] && source?.['email_verified'] !== undefined,
  );
  if (ofEmail !== undefined) {
    claims['email_verified'] = ofEmail['email_verified'];
  }
  return without([...JWT_CLAIMS, ...ID_TOKEN_CLAIMS], claims);
}

function without(names: readonly string[], claims: Claims = {}): Claims {
  return Object.fromEntries(Object.entries(claims).filter(([name]) => !names.includes(name)));
}
