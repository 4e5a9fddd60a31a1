import { Inject, Injectable } from '@nestjs/common';
import { ExhibitorError, isExhibitorError } from '../errors/exhibitor.error.js';
import { TokenRejectedError } from '../errors/token-rejected.error.js';
import type { Tenant } from '../tenants/tenant.js';
import { Clock } from '../time/clock.js';
import type { Deadline } from '../time/deadline.js';
import type { TransportReply } from '../transport/transport-request.interface.js';
import { Transport } from '../transport/transport.service.js';
import {
  authenticated,
  hiddenForms,
  secretTextOf,
  type ClientRequest,
  type OAuthClient,
} from './client-authentication.js';
import { readSecret } from './client-secret.js';
import { timedToken, type TimedToken } from './held-token.js';
import { scrubRefusal } from './oauth-refusal.js';
import { isPermanent, unexplained } from './refusal.js';
import { SharedTokens } from './shared-tokens.service.js';
import { parseRefusal, parseTokenReply } from './token-reply.js';

const SECRET = { name: 'clientSecret', code: 'token_unavailable' } as const;

/** A token; `isShared` where another process had fetched it. */
export interface FetchedToken {
  timed: TimedToken;
  isShared: boolean;
}

/** Requests tokens with the client credentials grant (RFC 6749 §4.4). */
@Injectable()
export class TokenEndpoint {
  readonly #clock: Clock;
  readonly #transport: Transport;
  readonly #shared: SharedTokens;

  constructor(
    @Inject(Clock) clock: Clock,
    @Inject(Transport) transport: Transport,
    @Inject(SharedTokens) shared: SharedTokens,
  ) {
    this.#clock = clock;
    this.#transport = transport;
    this.#shared = shared;
  }

  /**
   * The token of another process, else a new one.
   *
   * @param unlike text of the token to replace, which the shared store may still hold
   * @throws {ExhibitorError} `token_rejected`, `token_unavailable`, `rate_limited`, `malformed_response`,
   * `deadline_exceeded`
   */
  async fetch(tenant: Tenant, deadline: Deadline, unlike: string | undefined): Promise<FetchedToken> {
    const client = await readClient(tenant, deadline);
    const known = await this.#shared.find(tenant, secretTextOf(client), unlike);
    if (known !== undefined) {
      return { timed: known, isShared: true };
    }
    return { timed: await this.#fetchWithNewest(client, tenant, deadline), isShared: false };
  }

  async #fetchWithNewest(client: OAuthClient, tenant: Tenant, deadline: Deadline): Promise<TimedToken> {
    try {
      return await this.#fetchWith(client, tenant, deadline);
    } catch (error) {
      const mayBeOld = error instanceof TokenRejectedError && error.oauthError === 'invalid_client';
      if (!mayBeOld || !tenant.hasSecretFunction) {
        throw error;
      }
      const newest = await readClient(tenant, deadline);
      // The same secret would be refused again, and some providers lock a client out after several failures.
      if (newest.secret === client.secret) {
        throw error;
      }
      return this.#fetchWith(newest, tenant, deadline);
    }
  }

  async #fetchWith(client: OAuthClient, tenant: Tenant, deadline: Deadline): Promise<TimedToken> {
    const request = authenticated(client, formOf(tenant), this.#clock);
    const reply = await this.#ask(request, tenant, deadline);
    const { status } = reply;
    const read = status < 300 ? parseTokenReply(reply.body, tenant.scope) : parseRefusal(reply.body);
    if (read?.kind === 'granted') {
      // The lifetime starts when the request is sent: the token may be that old when the reply arrives.
      const timed = timedToken(read, reply.sentAt + read.lifetime, this.#clock);
      await this.#shared.keep(tenant, secretTextOf(client), timed, read.lifetime);
      return timed;
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

async function readClient(tenant: Tenant, deadline: Deadline): Promise<OAuthClient> {
  const { clientId: id, clientSecret, clientAuth: auth, tokenUrl } = tenant;
  // The API client knows no issuer: only a login has one.
  const client = { id, auth, tokenUrl, audience: tokenUrl };
  if (typeof auth === 'object' || clientSecret === undefined) {
    return client;
  }
  return { ...client, secret: await readSecret(clientSecret, SECRET, tenant, deadline) };
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
