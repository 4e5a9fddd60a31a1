import { isRecord } from '../model/json-values.js';
import { lifetimeOf } from './token-lifetime.js';

/** A parsed reply of the token endpoint. */
export type TokenReply =
  | { kind: 'granted'; accessToken: string; scope: string | undefined; lifetime: number }
  | { kind: 'refused'; error: string; description: string | undefined }
  | { kind: 'malformed'; why: string };

/** Visible ASCII. Other characters could end the header in which the token is sent, or start another one. */
export const HEADER_SAFE = /^[\x21-\x7e]+$/;

/** Parses a token reply (RFC 6749 §5.1). An error body is recognized with any status. */
export function parseTokenReply(body: unknown, requestedScope: string | null): TokenReply {
  if (!isRecord(body)) {
    return malformed('it is not an object');
  }
  const refusal = parseRefusal(body);
  if (refusal !== undefined) {
    return refusal;
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
  return { kind: 'granted', accessToken, scope: granted, lifetime: lifetimeOf(expiresIn) };
}

/** Parses an error body (RFC 6749 §5.2). */
export function parseRefusal(body: unknown): Extract<TokenReply, { kind: 'refused' }> | undefined {
  if (!isRecord(body)) {
    return undefined;
  }
  const { error, error_description: description } = body;
  if (typeof error !== 'string' || error === '') {
    return undefined;
  }
  return { kind: 'refused', error, description: typeof description === 'string' ? description : undefined };
}

function malformed(why: string): TokenReply {
  return { kind: 'malformed', why };
}
