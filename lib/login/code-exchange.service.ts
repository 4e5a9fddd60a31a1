import { Inject, Injectable } from '@nestjs/common';
import { isRecord } from '../model/json-values.js';
import { OpenIdProvider } from '../oidc/openid-provider.service.js';
import { requestProvider, templateOf } from '../oidc/provider-request.js';
import { ProblemLog } from '../problems/problem-log.service.js';
import type { Tenant } from '../tenants/tenant.js';
import { Clock } from '../time/clock.js';
import type { Deadline } from '../time/deadline.js';
import { authenticated, hiddenForms, type OAuthClient } from '../tokens/client-authentication.js';
import { readSecret } from '../tokens/client-secret.js';
import { HEADER_SAFE, parseRefusal } from '../tokens/token-reply.js';
import type { TransportReply } from '../transport/transport-request.interface.js';
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

const SECRET = { name: 'login.clientSecret', code: 'service_unavailable' } as const;

/**
 * Redeems an authorization code at the token endpoint (RFC 6749 §4.1.3), with exactly one request. Only after `invalid_client`,
 * and with another secret from the host's function, is the code sent once more.
 */
@Injectable()
export class CodeExchange {
  readonly #transport: Transport;
  readonly #provider: OpenIdProvider;
  readonly #log: ProblemLog;
  readonly #clock: Clock;

  constructor(
    @Inject(Transport) transport: Transport,
    @Inject(OpenIdProvider) provider: OpenIdProvider,
    @Inject(ProblemLog) log: ProblemLog,
    @Inject(Clock) clock: Clock,
  ) {
    this.#transport = transport;
    this.#provider = provider;
    this.#log = log;
    this.#clock = clock;
  }

  /**
   * @throws {LoginFailedError} `provider` where the code is refused or the reply cannot be used
   * @throws {ExhibitorError} `service_unavailable` where the host's `clientSecret` function fails
   */
  async redeem(
    tenant: Tenant,
    pending: PendingLogin,
    code: string,
    deadline: Deadline,
  ): Promise<LoginTokens> {
    const login = browserLoginOf(tenant);
    const tokenUrl = await this.#provider.urlOf(tenant, 'token', deadline);
    const form = {
      grant_type: 'authorization_code',
      code,
      redirect_uri: pending.redirectUri,
      code_verifier: pending.verifier,
    };
    const client = await this.#clientOf(tenant, login, tokenUrl, deadline);
    const first = await this.#send(tenant, client, form, deadline);
    const newest = isInvalidClient(first.reply)
      ? await this.#newerClient(client, tenant, login, deadline)
      : undefined;
    const { reply, hidden } = newest === undefined ? first : await this.#send(tenant, newest, form, deadline);
    const tokens = reply.status === 200 ? parseTokens(reply.body) : undefined;
    if (tokens !== undefined) {
      return tokens;
    }
    throw refuseCode(this.#log, tenant, reply, [code, pending.verifier, ...hidden]);
  }

  /** The reply, and the secrets of its request that an error must not show. */
  async #send(
    tenant: Tenant,
    client: OAuthClient,
    form: Readonly<Record<string, string>>,
    deadline: Deadline,
  ): Promise<{ reply: TransportReply; hidden: string[] }> {
    const { tokenUrl } = client;
    const authentication = authenticated(client, form, this.#clock);
    const request = {
      operation: 'code',
      method: 'POST',
      url: tokenUrl,
      template: templateOf(tokenUrl),
      repeat: 'never',
      ...authentication,
    } as const;
    const reply = await requestProvider(this.#transport, tenant, request, deadline, 'the token endpoint');
    return { reply, hidden: hiddenForms(client, authentication) };
  }

  /** The client of a login, with its secret of now. */
  async #clientOf(
    tenant: Tenant,
    login: BrowserLogin,
    tokenUrl: string,
    deadline: Deadline,
  ): Promise<OAuthClient> {
    const { clientId: id, clientSecret, clientAuth: auth, issuer: audience } = login;
    const client = { id, auth, audience, tokenUrl };
    if (typeof auth === 'object' || clientSecret === undefined) {
      return client;
    }
    return { ...client, secret: await readSecret(clientSecret, SECRET, tenant, deadline, this.#log) };
  }

  /**
   * The client with a newer secret, if the host's function has one. The same secret would be refused again, and some providers
   * lock a client out after several failures.
   */
  async #newerClient(
    client: OAuthClient,
    tenant: Tenant,
    login: BrowserLogin,
    deadline: Deadline,
  ): Promise<OAuthClient | undefined> {
    if (typeof login.clientSecret !== 'function') {
      return undefined;
    }
    const newest = await this.#clientOf(tenant, login, client.tokenUrl, deadline);
    return newest.secret === client.secret ? undefined : newest;
  }
}

/** The provider did not look at the code: the client was refused before (RFC 6749 §5.2). */
function isInvalidClient({ body }: TransportReply): boolean {
  return parseRefusal(body)?.error === 'invalid_client';
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
