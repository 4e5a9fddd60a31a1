import { Inject, Injectable } from '@nestjs/common';
import { LoginFailedError } from '../errors/login-failed.error.js';
import type { Tenant } from '../tenants/tenant.js';
import type { Deadline } from '../time/deadline.js';
import { Transport } from '../transport/transport.service.js';
import { providerFailure } from './provider-failure.js';

/** Claims of a person. */
export type Claims = Record<string, unknown>;

/** Reads the userinfo endpoint with the access token of the login (OIDC Core §5.3). */
@Injectable()
export class UserInfo {
  constructor(@Inject(Transport) private readonly transport: Transport) {}

  /** The claims about `subject`. Another `sub` would be another person's reply (OIDC Core §5.3.4). */
  async read(tenant: Tenant, accessToken: string, subject: string, deadline: Deadline): Promise<Claims> {
    const claims = await this.#fetch(tenant, accessToken, deadline);
    if (claims['sub'] === subject) {
      return claims;
    }
    throw new LoginFailedError('subject', 'userinfo is about somebody else', { tenant: tenant.key });
  }

  async #fetch(tenant: Tenant, accessToken: string, deadline: Deadline): Promise<Claims> {
    try {
      const reply = await this.transport.send(
        tenant,
        {
          operation: 'userinfo',
          method: 'GET',
          url: `${tenant.authUrl}/connect/userinfo`,
          template: '/connect/userinfo',
          headers: { Accept: 'application/json', Authorization: `Bearer ${accessToken}` },
        },
        deadline,
      );
      if (reply.status === 200 && isClaims(reply.body)) {
        return reply.body;
      }
    } catch (error) {
      throw providerFailure(error, 'userinfo');
    }
    throw providerFailure(undefined, 'userinfo');
  }
}

function isClaims(value: unknown): value is Claims {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}
