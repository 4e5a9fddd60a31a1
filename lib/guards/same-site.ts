import type { HttpExchange } from '../login/http-exchange.js';

/**
 * Whether a request that changes something may come from where it comes. Browsers say so in `Sec-Fetch-Site`, older
 * ones in `Origin`; what is no browser sends neither and carries no cookies of others.
 */
export function isSameOrigin(exchange: HttpExchange, ownOrigin: string | undefined): boolean {
  const site = exchange.header('sec-fetch-site');
  if (site !== undefined) return site === 'same-origin' || site === 'none';
  const origin = exchange.header('origin');
  if (origin === undefined) return true;
  const host = exchange.header('host');
  const allowed =
    ownOrigin ??
    (host === undefined
      ? undefined
      : `${new URL(origin === 'null' ? 'http://x' : origin).protocol}//${host}`);
  return origin === allowed;
}
