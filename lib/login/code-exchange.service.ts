import { Inject, Injectable } from '@nestjs/common';
import { LoginFailedError } from '../errors/login-failed.error.js';
import { isRecord } from '../model/json-values.js';
import { OpenIdProvider, usableReply } from '../oidc/openid-provider.service.js';
import { ProblemLog } from '../config/problems/problem-log.service.js';
import { addressOption, describeFailure, refusedClient } from '../config/problems/partner-problems.js';
import { browserLoginOf, type Tenant } from '../config/tenant.js';
import type { Call } from '../call/call.js';
import { newerClient, refusesSecret, withSecret, type OAuthClient } from '../tokens/client-authentication.js';
import {
  TokenEndpoint,
  parseTokenReply,
  type EndpointReply,
  type TokenGrant,
} from '../tokens/token-endpoint.service.js';

export interface LoginTokens {
  idToken: string;
  /** For userinfo. It is never sent to the REST API. */
  accessToken: string;
}

const SECRET = { name: 'login.clientSecret', code: 'service_unavailable' } as const;

/**
 * Redeems an authorization code at the token endpoint (RFC 6749 §4.1.3), with exactly one request. Only where the client is
 * refused (`invalid_client`, `unauthorized_client`), and with another secret from the host's function, is the code sent once more.
 */
@Injectable()
export class CodeExchange {
  constructor(
    @Inject(TokenEndpoint) private readonly endpoint: TokenEndpoint,
    @Inject(OpenIdProvider) private readonly provider: OpenIdProvider,
    @Inject(ProblemLog) private readonly log: ProblemLog,
  ) {}

  /**
   * @throws {LoginFailedError} `provider` where the code is refused or the reply cannot be used
   * @throws {ExhibitorError} `service_unavailable` where the host's `clientSecret` function fails
   */
  async redeem(
    tenant: Tenant,
    { code, verifier }: { code: string; verifier: string },
    call: Call,
  ): Promise<LoginTokens> {
    const {
      clientId: id,
      clientSecret,
      clientAuth: auth,
      issuer: audience,
      redirectUri,
    } = browserLoginOf(tenant);
    const tokenUrl = await this.provider.urlOf(tenant, 'token', call);
    const grant: TokenGrant = {
      operation: 'code',
      form: {
        grant_type: 'authorization_code',
        code,
        redirect_uri: redirectUri,
        code_verifier: verifier,
      },
      secrets: [code, verifier],
      isOnce: true,
    };
    const read = (): Promise<OAuthClient> =>
      withSecret({ id, auth, audience, tokenUrl }, clientSecret, SECRET, tenant, call, this.log);
    const send = (client: OAuthClient): Promise<EndpointReply> =>
      usableReply(this.endpoint.send(tenant, client, grant, call), 'the token endpoint');
    const client = await read();
    const first = await send(client);
    // A provider refuses a client before it looks at the code, which is still unused (RFC 6749 §5.2).
    const isRefused = refusesSecret(first.error?.oauthError);
    const newest = isRefused ? await newerClient(client, clientSecret, read) : undefined;
    const reply = newest === undefined ? first : await send(newest);
    return parseTokens(reply) ?? this.#refuse(tenant, reply);
  }

  /** Tells the operator why a reply has no tokens. */
  #refuse(tenant: Tenant, { status, error }: EndpointReply): never {
    if (error === undefined) {
      this.log.report(tenant, {
        cause: 'login client: reply',
        options: [addressOption(tenant, 'code')],
        message: 'the token endpoint answered the login client without tokens and without an OAuth error',
        received: `status ${status}`,
      });
    } else if (error.oauthError === 'invalid_grant') {
      // Unverified: a browser delivered the code.
      const message = `the token endpoint refused a code: ${describeFailure(error)}`;
      this.log.report(tenant, { cause: 'code', options: [], message, isUnverified: true });
    } else {
      this.log.report(tenant, refusedClient(tenant, 'login.', { ...error, status }));
    }
    const details = { tenant: tenant.key, status, ...error };
    throw new LoginFailedError('provider', 'the token endpoint did not accept the code', details);
  }
}

function parseTokens({ status, body }: EndpointReply): LoginTokens | undefined {
  const idToken = isRecord(body) ? body['id_token'] : undefined;
  const reply = parseTokenReply(body, null);
  return status === 200 && typeof idToken === 'string' && reply.kind === 'granted'
    ? { idToken, accessToken: reply.accessToken }
    : undefined;
}
