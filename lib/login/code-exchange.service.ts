import { Inject, Injectable } from '@nestjs/common';
import { LoginFailedError } from '../errors/login-failed.error.js';
import type { Tenant } from '../tenants/tenant.js';
import type { Deadline } from '../time/deadline.js';
import type { TransportReply } from '../transport/transport-request.interface.js';
import { Transport } from '../transport/transport.service.js';
import { browserLoginOf, type BrowserLogin } from './browser-login.js';
import type { PendingLogin } from './pending-login.js';
import { providerFailure } from '../oidc/provider-failure.js';

/** Tokens of a login. */
export interface LoginTokens {
  idToken: string;
  /** For userinfo; never sent to the REST API. */
  accessToken: string;
}

/** Redeems an authorization code at the token endpoint (RFC 6749 §4.1.3), once. */
@Injectable()
export class CodeExchange {
  constructor(@Inject(Transport) private readonly transport: Transport) {}

  async redeem(
    tenant: Tenant,
    pending: PendingLogin,
    code: string,
    deadline: Deadline,
  ): Promise<LoginTokens> {
    const login = browserLoginOf(tenant);
    const form = new URLSearchParams({
      grant_type: 'authorization_code',
      code,
      redirect_uri: pending.redirectUri,
      code_verifier: pending.verifier,
      ...bodyCredentials(login),
    });
    const reply = await this.#send(tenant, form, headerCredentials(login), deadline);
    const tokens = reply.status === 200 ? parseTokens(reply.body) : undefined;
    if (tokens !== undefined) {
      return tokens;
    }
    throw new LoginFailedError('provider', 'the token endpoint did not accept the code', {
      tenant: tenant.key,
      status: reply.status,
    });
  }

  async #send(
    tenant: Tenant,
    form: URLSearchParams,
    credentials: Record<string, string>,
    deadline: Deadline,
  ): Promise<TransportReply> {
    try {
      return await this.transport.send(
        tenant,
        {
          operation: 'code',
          method: 'POST',
          url: `${tenant.authUrl}/connect/token`,
          template: '/connect/token',
          headers: { Accept: 'application/json', ...credentials },
          body: form.toString(),
          repeat: 'never',
        },
        deadline,
      );
    } catch (error) {
      throw providerFailure(error, 'the token endpoint');
    }
  }
}

/** A public client names itself and sends no secret, not even an empty one. */
function bodyCredentials(login: BrowserLogin): Record<string, string> {
  if (login.clientSecret === undefined) {
    return { client_id: login.clientId };
  }
  if (login.clientAuth === 'basic') {
    return {};
  }
  return { client_id: login.clientId, client_secret: login.clientSecret };
}

/** Id and secret are form-encoded before they are joined (RFC 6749 §2.3.1). */
function headerCredentials(login: BrowserLogin): Record<string, string> {
  if (login.clientSecret === undefined || login.clientAuth !== 'basic') {
    return {};
  }
  const pair = [login.clientId, login.clientSecret].map(formEncode).join(':');
  return { Authorization: `Basic ${Buffer.from(pair).toString('base64')}` };
}

function formEncode(value: string): string {
  return new URLSearchParams([['', value]]).toString().slice(1);
}

function parseTokens(body: unknown): LoginTokens | undefined {
  if (typeof body !== 'object' || body === null || Array.isArray(body)) {
    return undefined;
  }
  const field = (name: string): unknown => (Object.hasOwn(body, name) ? Reflect.get(body, name) : undefined);
  const [idToken, accessToken, tokenType] = [field('id_token'), field('access_token'), field('token_type')];
  if (typeof idToken !== 'string' || typeof accessToken !== 'string' || typeof tokenType !== 'string') {
    return undefined;
  }
  // What cannot stand in a header would be sent altered (RFC 6750 §2.1).
  if (!/^[\x21-\x7e]+$/.test(accessToken) || tokenType.toLowerCase() !== 'bearer') {
    return undefined;
  }
  return { idToken, accessToken };
}
