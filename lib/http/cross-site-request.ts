import type { HttpContext } from './http-context.js';

/**
 * Whether a request that changes something may come from where it comes. Browsers say so in `Sec-Fetch-Site`, older
 * ones in `Origin`; what is no browser sends neither and carries no cookies of others.
 */
export function isSameOrigin(http: HttpContext, ownOrigin: string | undefined): boolean {
  const site = http.header('sec-fetch-site');
  if (site !== undefined) {
    return site === 'same-origin' || site === 'none';
  }
  const origin = http.header('origin');
  if (origin === undefined) {
    return true;
  }
  if (ownOrigin !== undefined) {
    return origin === ownOrigin;
  }
  // Where nobody is logged in there is no callback to tell the own origin by.
  return URL.canParse(origin) && new URL(origin).host === http.header('host');
}
