import { lifetimeOf } from './token-lifetime.js';

/** What a 2xx of the token endpoint says. */
export type TokenReply =
  | { kind: 'granted'; accessToken: string; scope: string | undefined; lifetime: number }
  | { kind: 'refused'; error: string; description: string | undefined }
  | { kind: 'malformed'; why: string };

/** Visible ASCII: anything else could end the header it is sent in, or start another. */
export const HEADER_SAFE = /^[\x21-\x7e]+$/;

/** Reads a token reply, RFC 6749 §5.1; an error body is understood whatever status it came with. */
export function parseTokenReply(body: unknown, requestedScope: string | null): TokenReply {
  if (typeof body !== 'object' || body === null) {
    return malformed('it is not an object');
  }
  const refusal = parseRefusal(body);
  if (refusal !== undefined) {
    return refusal;
  }
  const { access_token: accessToken, token_type: type, scope, expires_in: expiresIn } = body as Fields;
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

/** An error body, RFC 6749 §5.2. */
export function parseRefusal(body: unknown): Extract<TokenReply, { kind: 'refused' }> | undefined {
  if (typeof body !== 'object' || body === null) {
    return undefined;
  }
  const { error, error_description: description } = body as Fields;
  if (typeof error !== 'string' || error === '') {
    return undefined;
  }
  return { kind: 'refused', error, description: typeof description === 'string' ? description : undefined };
}

type Fields = Record<string, unknown>;

function malformed(why: string): TokenReply {
  return { kind: 'malformed', why };
}
