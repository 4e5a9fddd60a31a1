import { Inject, Injectable } from '@nestjs/common';
import { ExhibitorError } from '../errors/exhibitor.error.js';
import { isExhibitorError } from '../errors/is-exhibitor-error.js';
import { TokenRejectedError } from '../errors/token-rejected.error.js';
import type { ProblemLog } from '../problems/problem-log.service.js';
import type { Tenant } from '../tenants/tenant.js';
import { Clock } from '../time/clock.js';
import type { Deadline } from '../time/deadline.js';
import type { TransportReply } from '../transport/transport-request.interface.js';
import { Transport } from '../transport/transport.service.js';
import { authenticated, hiddenForms, type ClientRequest, type OAuthClient } from './client-authentication.js';
import { readSecret } from './client-secret.js';
import { TimedToken } from './held-token.js';
import { scrubRefusal } from './scrub.js';
import { isPermanent, unexplained } from './refusal.js';
import { parseRefusal, parseTokenReply } from './token-reply.js';

const SECRET = { name: 'clientSecret', code: 'token_unavailable' } as const;

/** Requests tokens with the client credentials grant (RFC 6749 §4.4). */
@Injectable()
export class TokenEndpoint {
  readonly #clock: Clock;
  readonly #transport: Transport;

  constructor(@Inject(Clock) clock: Clock, @Inject(Transport) transport: Transport) {
    this.#clock = clock;
    this.#transport = transport;
  }

  /**
   * A new token for this client.
   *
   * @throws {ExhibitorError} `token_rejected`, `token_unavailable`, `rate_limited`, `malformed_response`,
   * `deadline_exceeded`
   */
  async request(client: OAuthClient, tenant: Tenant, deadline: Deadline): Promise<TimedToken> {
    const request = authenticated(client, formOf(tenant), this.#clock);
    const reply = await this.#ask(request, tenant, deadline);
    const { status } = reply;
    const read = status < 300 ? parseTokenReply(reply.body, tenant.scope) : parseRefusal(reply.body);
    if (read?.kind === 'granted') {
      return new TimedToken({ ...read, requestedAt: reply.sentAt, isShared: false }, this.#clock);
    }
    const details = { tenant: tenant.key, status, attempts: deadline.sent };
    if (read?.kind === 'malformed') {
      throw new ExhibitorError('malformed_response', `the token reply cannot be used: ${read.why}`, details);
    }
    if (read === undefined) {
      throw new TokenRejectedError(unexplained(status), undefined, details);
    }
    const { oauthError, oauthErrorDescription } = scrubRefusal(read, hiddenForms(client, request));
    if (!isPermanent(oauthError)) {
      throw new ExhibitorError('token_unavailable', `the token endpoint answered ${oauthError}`, details);
    }
    throw new TokenRejectedError(oauthError, oauthErrorDescription, details);
  }

  async #ask(authentication: ClientRequest, tenant: Tenant, deadline: Deadline): Promise<TransportReply> {
    const request = {
      operation: 'token',
      method: 'POST',
      url: tenant.tokenUrl,
      template: new URL(tenant.tokenUrl).pathname,
      ...authentication,
    } as const;
    try {
      return await this.#transport.send(tenant, request, deadline);
    } catch (error) {
      throw isExhibitorError(error) ? asTokenFailure(error, deadline.sent) : error;
    }
  }
}

function formOf({ scope }: Tenant): Record<string, string> {
  return { grant_type: 'client_credentials', ...(scope === null ? {} : { scope }) };
}

/**
 * The API client of a tenant with its current secret.
 *
 * @throws {ExhibitorError} `token_unavailable` where the secret function fails, `deadline_exceeded`
 */
export async function readClient(tenant: Tenant, deadline: Deadline, log: ProblemLog): Promise<OAuthClient> {
  const { clientId: id, clientSecret, clientAuth: auth, tokenUrl } = tenant;
  // The API client knows no issuer: only a login has one.
  const client = { id, auth, tokenUrl, audience: tokenUrl };
  if (typeof auth === 'object' || clientSecret === undefined) {
    return client;
  }
  return { ...client, secret: await readSecret(clientSecret, SECRET, tenant, deadline, log) };
}

/** `service_unavailable` of the token endpoint is `token_unavailable`; other codes stay as they are. */
function asTokenFailure(error: ExhibitorError, attempts: number): ExhibitorError {
  if (error.code !== 'service_unavailable') {
    return error;
  }
  const { tenant, status, retryAfterMs } = error;
  const details = { tenant, status, retryAfterMs, attempts };
  return new ExhibitorError('token_unavailable', `no token: ${error.message}`, details);
}
