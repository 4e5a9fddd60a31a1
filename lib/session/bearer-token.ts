import type { HttpContext } from '../http/http-context.js';

/** The bearer token of a request (RFC 6750 §2.1); tokens in the query or in a form are not looked at. */
export function bearerTokenOf(http: HttpContext): string | undefined {
  return /^Bearer +([\x21-\x7e]+) *$/i.exec(http.header('authorization') ?? '')?.[1];
}
