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
import { hideSecrets } from '../model/untrusted-text.js';
import { isRecord } from '../model/json-values.js';
import { authenticated, hiddenForms, type OAuthClient } from './client-authentication.js';
import { lifetimeOf, TimedToken } from './token-lifetime.js';

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

/** `service_unavailable` of the token endpoint is `token_unavailable`. Other errors stay as they are, and so do those of code of the host. */
function asTokenFailure(error: unknown, attempts: number): unknown {
  // Not by its cause: the host may throw `undefined`.
  if (!isExhibitorError(error) || error.code !== 'service_unavailable' || error.isOfHost === true) {
    return error;
  }
  const { tenant, status, retryAfterMs } = error;
  const details = { tenant, status, retryAfterMs, attempts };
  return new ExhibitorError('token_unavailable', `no token: ${error.message}`, details);
}

/** A reply of the token endpoint that is no OAuth error. */
export type TokenReply =
  | { kind: 'granted'; accessToken: string; scope: string | undefined; expiresIn: unknown }
  | { kind: 'malformed'; why: string };

/** Characters of an OAuth error code that are shown. */
const LONGEST_ERROR_CODE = 100;

/** Visible ASCII. Other characters could end the header in which the token is sent, or start another one. */
export const HEADER_SAFE = /^[\x21-\x7e]+$/;

export function parseTokenReply(body: unknown, requestedScope: string | null): TokenReply {
  if (!isRecord(body)) {
    return malformed('it is not an object');
  }
  const { access_token: accessToken, token_type: type, scope, expires_in: expiresIn } = body;
  if (typeof accessToken !== 'string' || accessToken === '') {
    return malformed('it has no access_token');
  }
  if (!HEADER_SAFE.test(accessToken)) {
    return malformed('its access_token does not fit a header');
  }
  // RFC 6749 §7.1: a token of a type the client does not know must not be used.
  if (typeof type !== 'string' || type.toLowerCase() !== 'bearer') {
    return malformed('its token_type is not Bearer');
  }
  const granted = typeof scope === 'string' ? scope : (requestedScope ?? undefined);
  return { kind: 'granted', accessToken, scope: granted, expiresIn };
}

/**
 * The OAuth error of a reply (RFC 6749 §5.2), with any status; `undefined` where it has none.
 *
 * @param secretsOf values of the request that must not be shown
 */
export function parseOAuthError(body: unknown, secretsOf: () => readonly string[]): OAuthFailure | undefined {
  if (!isRecord(body)) {
    return undefined;
  }
  const { error, error_description: description } = body;
  if (typeof error !== 'string' || error === '') {
    return undefined;
  }
  return presentableError(error, typeof description === 'string' ? description : undefined, secretsOf());
}

/** An OAuth error without the secrets of its request. */
export function presentableError(
  error: string,
  description: string | undefined,
  secrets: readonly string[],
): OAuthFailure {
  return {
    oauthError: hideSecrets(error, secrets, LONGEST_ERROR_CODE),
    oauthErrorDescription: description === undefined ? undefined : hideSecrets(description, secrets),
  };
}

function malformed(why: string): TokenReply {
  return { kind: 'malformed', why };
}

/** Errors that pass without a change of the request. RFC 6749 §4.1.2.1 has them; token endpoints use them as well. */
const TRANSIENT: ReadonlySet<string> = new Set(['temporarily_unavailable', 'server_error', 'slow_down']);

/** True for an OAuth error that may pass without a change of the request. */
export function isTransientError(oauthError: string): boolean {
  return TRANSIENT.has(oauthError);
}

/** Code for a 4xx without an OAuth error, perhaps of a proxy: `http_403`. */
export function unexplained(status: number): string {
  return `http_${status}`;
}

/** True where the same request will be refused again, for all we know: the provider explained why. */
export function isPermanent(error: unknown): boolean {
  return error instanceof TokenRejectedError && error.oauthError !== unexplained(error.status ?? 0);
}
