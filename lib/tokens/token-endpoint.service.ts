import { Inject, Injectable } from '@nestjs/common';
import { ExhibitorError, isExhibitorError } from '../errors/exhibitor.error.js';
import { TokenRejectedError } from '../errors/token-rejected.error.js';
import type { Tenant } from '../tenants/tenant.js';
import { Clock } from '../time/clock.js';
import type { Deadline } from '../time/deadline.js';
import type { TransportReply } from '../transport/transport-request.interface.js';
import { Transport } from '../transport/transport.service.js';
import { timedToken, type TimedToken } from './held-token.js';
import { scrubRefusal } from './oauth-refusal.js';
import { isPermanent, unexplained } from './refusal.js';
import { SharedTokens } from './shared-tokens.service.js';
import { parseRefusal, parseTokenReply } from './token-reply.js';

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
    const secret = await readSecret(tenant, deadline);
    const known = await this.#shared.find(tenant, secret, unlike);
    if (known !== undefined) {
      return { timed: known, isShared: true };
    }
    return { timed: await this.#fetchWithNewest(secret, tenant, deadline), isShared: false };
  }

  async #fetchWithNewest(secret: string, tenant: Tenant, deadline: Deadline): Promise<TimedToken> {
    try {
      return await this.#fetchWith(secret, tenant, deadline);
    } catch (error) {
      const mayBeOld = error instanceof TokenRejectedError && error.oauthError === 'invalid_client';
      if (!mayBeOld || !tenant.hasSecretFunction) {
        throw error;
      }
      const newest = await readSecret(tenant, deadline);
      // The same secret would be refused again, and some providers lock a client out after several failures.
      if (newest === secret) {
        throw error;
      }
      return this.#fetchWith(newest, tenant, deadline);
    }
  }

  async #fetchWith(secret: string, tenant: Tenant, deadline: Deadline): Promise<TimedToken> {
    const reply = await this.#ask(secret, tenant, deadline);
    const { status } = reply;
    const read = status < 300 ? parseTokenReply(reply.body, tenant.scope) : parseRefusal(reply.body);
    if (read?.kind === 'granted') {
      // The lifetime starts when the request is sent: the token may be that old when the reply arrives.
      const timed = timedToken(read, reply.sentAt + read.lifetime, this.#clock);
      await this.#shared.keep(tenant, secret, timed, read.lifetime);
      return timed;
    }
    const details = { tenant: tenant.key, status, attempts: deadline.sent };
    if (read?.kind === 'malformed') {
      throw new ExhibitorError('malformed_response', `the token reply cannot be used: ${read.why}`, details);
    }
    if (read === undefined) {
      throw new TokenRejectedError(unexplained(status), undefined, details);
    }
    const hidden = [secret, requestBody(tenant, secret), `${tenant.clientId}:${secret}`];
    const { oauthError, oauthErrorDescription } = scrubRefusal(read, hidden);
    if (!isPermanent(oauthError)) {
      throw new ExhibitorError('token_unavailable', `the token endpoint answered ${oauthError}`, details);
    }
    throw new TokenRejectedError(oauthError, oauthErrorDescription, details);
  }

  async #ask(secret: string, tenant: Tenant, deadline: Deadline): Promise<TransportReply> {
    const request = {
      operation: 'token',
      method: 'POST',
      url: tenant.tokenUrl,
      template: new URL(tenant.tokenUrl).pathname,
      body: requestBody(tenant, secret),
    } as const;
    try {
      return await this.#transport.send(tenant, request, deadline);
    } catch (error) {
      throw isExhibitorError(error) ? asTokenFailure(error, deadline.sent) : error;
    }
  }
}

function requestBody(tenant: Tenant, secret: string): string {
  const form = new URLSearchParams({
    client_id: tenant.clientId,
    client_secret: secret,
    grant_type: 'client_credentials',
  });
  if (tenant.scope !== null) {
    form.set('scope', tenant.scope);
  }
  return form.toString();
}

async function readSecret(tenant: Tenant, deadline: Deadline): Promise<string> {
  let secret: unknown;
  try {
    secret = await deadline.race(Promise.resolve(tenant.readClientSecret()));
  } catch (error) {
    if (deadline.isOver) {
      throw deadline.failure({ tenant: tenant.key, attempts: 0 });
    }
    throw unavailable(tenant, 'the clientSecret function failed', error);
  }
  if (typeof secret === 'string' && secret !== '') {
    return secret;
  }
  throw unavailable(tenant, 'the clientSecret function returned no secret');
}

function unavailable(tenant: Tenant, message: string, cause?: unknown): ExhibitorError {
  return new ExhibitorError('token_unavailable', message, { tenant: tenant.key, attempts: 0, cause });
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
