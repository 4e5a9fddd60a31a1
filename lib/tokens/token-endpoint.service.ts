import { Inject, Injectable } from '@nestjs/common';
import { ExhibitorError } from '../errors/exhibitor.error.js';
import { isExhibitorError } from '../errors/is-exhibitor-error.js';
import { TokenRejectedError } from '../errors/token-rejected.error.js';
import type { OAuthFailure } from '../config/problems/partner-problems.js';
import type { Tenant } from '../config/tenant.js';
import { Clock } from '../call/clock.js';
import type { Call } from '../call/call.js';
import type { TransportReply, TransportRequest } from '../http/transport-request.interface.js';
import { Transport } from '../http/transport.service.js';
import { authenticated, hiddenForms, type OAuthClient } from './client-authentication.js';
import { lifetimeOf, TimedToken } from './token-lifetime.js';
import { isTransientError, parseOAuthError, parseTokenReply, unexplained } from './token-reply.js';

/** What a client asks the token endpoint for. */
export interface TokenGrant {
  operation: 'token' | 'code';
  /** Without the parameters of client authentication. */
  form: Readonly<Record<string, string>>;
  /** Values of the form that an error must not show. */
  secrets?: readonly string[];
  /** See {@link TransportRequest}. */
  isOnce?: TransportRequest['isOnce'];
  about?: TransportRequest['about'];
}

/** A reply of the token endpoint: any 2xx, and any 4xx that is not retried. */
export interface EndpointReply extends Pick<TransportReply, 'status' | 'body' | 'sentAt'> {
  /** The OAuth error of the body, which shows no secret. */
  error: OAuthFailure | undefined;
}

/** The client of token endpoints, for all grants (RFC 6749 §3.2). */
@Injectable()
export class TokenEndpoint {
  constructor(
    @Inject(Clock) private readonly clock: Clock,
    @Inject(Transport) private readonly transport: Transport,
  ) {}

  /** Sends a grant with the authentication of the client. Errors as {@link Transport.send}. */
  async send(
    tenant: Tenant,
    client: OAuthClient,
    { operation, form, secrets = [], isOnce, about }: TokenGrant,
    call: Call,
  ): Promise<EndpointReply> {
    const authentication = authenticated(client, form, this.clock);
    const url = client.tokenUrl;
    const template = new URL(url).pathname;
    const request = { operation, method: 'POST', url, template, isOnce, about, ...authentication } as const;
    const { status, body, sentAt } = await this.transport.send(tenant, request, call);
    const error = parseOAuthError(body, () => [...secrets, ...hiddenForms(client, authentication)]);
    return { status, body, sentAt, error };
  }

  /**
   * A new token for the API client, by the client credentials grant (RFC 6749 §4.4).
   *
   * @param about a digest of the secret of the client
   * @throws {ExhibitorError} `token_rejected`, `token_unavailable`, `rate_limited`, `malformed_response`,
   * `deadline_exceeded`
   */
  async request(client: OAuthClient, tenant: Tenant, about: string, call: Call): Promise<TimedToken> {
    const { scope } = tenant.settings;
    const form = { grant_type: 'client_credentials', ...(scope === null ? {} : { scope }) };
    const sent = this.send(tenant, client, { operation: 'token', form, about }, call);
    const { status, body, sentAt, error } = await sent.catch((failure: unknown) => {
      throw asTokenFailure(failure, call.sent);
    });
    const details = { tenant: tenant.key, status, attempts: call.sent };
    if (error !== undefined) {
      throw rejection(error, details);
    }
    if (status >= 300) {
      throw new TokenRejectedError(unexplained(status), undefined, details);
    }
    const read = parseTokenReply(body, scope);
    if (read.kind === 'malformed') {
      throw new ExhibitorError('malformed_response', `the token reply cannot be used: ${read.why}`, details);
    }
    const { accessToken, scope: granted, expiresIn } = read;
    const lifetime = lifetimeOf(expiresIn);
    return new TimedToken(
      { accessToken, scope: granted, lifetime, requestedAt: sentAt, isShared: false },
      this.clock,
    );
  }
}

function rejection(
  { oauthError, oauthErrorDescription }: OAuthFailure,
  details: { tenant: string; status: number; attempts: number },
): ExhibitorError {
  return isTransientError(oauthError)
    ? new ExhibitorError('token_unavailable', `the token endpoint answered ${oauthError}`, details)
    : new TokenRejectedError(oauthError, oauthErrorDescription, details);
}

/**
 * `service_unavailable` of the token endpoint is `token_unavailable`. Other errors stay as they are, and so does that of an axios
 * interceptor of the host: a `cause` is always what a function of the host threw, and the transport calls no other one here.
 */
function asTokenFailure(error: unknown, attempts: number): unknown {
  // Of a function of the host, which may throw `undefined`.
  if (!isExhibitorError(error) || error.code !== 'service_unavailable' || error.isOfHost === true) {
    return error;
  }
  const { tenant, status, retryAfterMs } = error;
  const details = { tenant, status, retryAfterMs, attempts };
  return new ExhibitorError('token_unavailable', `no token: ${error.message}`, details);
}
