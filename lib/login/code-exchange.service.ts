import { Inject, Injectable } from '@nestjs/common';
import { isRecord } from '../model/json-values.js';
import { ProviderEndpoints, templateOf } from '../oidc/provider-endpoints.service.js';
import { requestProvider } from '../oidc/provider-request.js';
import { OperatorLog } from '../tenants/operator-log.service.js';
import type { Tenant } from '../tenants/tenant.js';
import type { Deadline } from '../time/deadline.js';
import { HEADER_SAFE } from '../tokens/token-reply.js';
import { Transport } from '../transport/transport.service.js';
import { browserLoginOf, type BrowserLogin } from './browser-login.js';
import { refuseCode } from './code-refusal.js';
import type { PendingLogin } from './pending-login.js';

/** Tokens of a login. */
export interface LoginTokens {
  idToken: string;
  /** For userinfo. It is never sent to the REST API. */
  accessToken: string;
}

/** Redeems an authorization code at the token endpoint (RFC 6749 §4.1.3), with exactly one request. */
@Injectable()
export class CodeExchange {
  readonly #transport: Transport;
  readonly #endpoints: ProviderEndpoints;
  readonly #log: OperatorLog;

  constructor(
    @Inject(Transport) transport: Transport,
    @Inject(ProviderEndpoints) endpoints: ProviderEndpoints,
    @Inject(OperatorLog) log: OperatorLog,
  ) {
    this.#transport = transport;
    this.#endpoints = endpoints;
    this.#log = log;
  }

  /** @throws {LoginFailedError} `provider` where the code is refused or the reply cannot be used */
  async redeem(
    tenant: Tenant,
    pending: PendingLogin,
    code: string,
    deadline: Deadline,
  ): Promise<LoginTokens> {
    const login = browserLoginOf(tenant);
    const url = await this.#endpoints.urlOf(tenant, 'token', deadline);
    const form = new URLSearchParams({
      grant_type: 'authorization_code',
      code,
      redirect_uri: pending.redirectUri,
      code_verifier: pending.verifier,
      ...bodyCredentials(login),
    });
    const request = {
      operation: 'code',
      method: 'POST',
      url,
      template: templateOf(url),
      headers: headerCredentials(login),
      body: form.toString(),
      repeat: 'never',
    } as const;
    const reply = await requestProvider(this.#transport, tenant, request, deadline, 'the token endpoint');
    const tokens = reply.status === 200 ? parseTokens(reply.body) : undefined;
    if (tokens !== undefined) {
      return tokens;
    }
    const hidden = [code, pending.verifier, login.clientSecret ?? '', form.toString()];
    throw refuseCode(this.#log, tenant, reply, [...hidden, ...Object.values(request.headers)]);
  }
}

/** A public client sends its id and no secret, not even an empty one. */
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
  if (!isRecord(body)) {
    return undefined;
  }
  const { id_token: idToken, access_token: accessToken, token_type: type } = body;
  if (typeof idToken !== 'string' || typeof accessToken !== 'string' || typeof type !== 'string') {
    return undefined;
  }
  return HEADER_SAFE.test(accessToken) && type.toLowerCase() === 'bearer'
    ? { idToken, accessToken }
    : undefined;
}
