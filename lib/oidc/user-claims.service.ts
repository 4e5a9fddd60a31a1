import { Inject, Injectable } from '@nestjs/common';
import type { JWTPayload } from 'jose';
import { LoginFailedError } from '../errors/login-failed.error.js';
import type { Tenant } from '../tenants/tenant.js';
import type { Deadline } from '../time/deadline.js';
import { contactEmail, hasContactEmail, userClaims } from './contact-email.js';
import { UserInfo, type Claims } from './user-info.service.js';

/** What a verified token and userinfo say about the user. */
export interface VerifiedUser {
  subject: string;
  email: string;
  claims: Claims;
}

/** Reads the user from a verified token, and from userinfo where the token has no e-mail address. */
@Injectable()
export class UserClaims {
  readonly #userInfo: UserInfo;

  constructor(@Inject(UserInfo) userInfo: UserInfo) {
    this.#userInfo = userInfo;
  }

  /**
   * @param token claims of an ID token or access token that was verified
   * @param accessToken for the userinfo endpoint
   * @throws {LoginFailedError} `email_missing`, `email_unverified`, and as {@link UserInfo.read}
   */
  async read(
    tenant: Tenant,
    token: JWTPayload,
    accessToken: string,
    deadline: Deadline,
  ): Promise<VerifiedUser> {
    const rules = { emailClaim: 'email', requireVerifiedEmail: false, ...tenant.login };
    const subject = String(token.sub);
    const userinfo = hasContactEmail(token, rules)
      ? undefined
      : await this.#userInfo.read(tenant, accessToken, subject, deadline);
    const contact = contactEmail(userinfo === undefined ? [token] : [token, userinfo], rules);
    if ('refusal' in contact) {
      throw new LoginFailedError(contact.refusal, `the token is refused: ${contact.refusal}`, {
        tenant: tenant.key,
      });
    }
    return { subject, email: contact.email, claims: userClaims(token, userinfo) };
  }
}
