import type { HttpExchange } from './http-exchange.js';

/** The bearer token of a request (RFC 6750 §2.1); tokens in the query or in a form are not looked at. */
export function bearerTokenOf(exchange: HttpExchange): string | undefined {
  return /^Bearer +([\x21-\x7e]+) *$/i.exec(exchange.header('authorization') ?? '')?.[1];
}
