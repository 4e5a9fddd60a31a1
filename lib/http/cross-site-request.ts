import type { HttpContext } from './http-context.js';

/**
 * True for a state-changing request that a page of another origin caused. Browsers send `Sec-Fetch-Site`, older ones
 * `Origin`. A client that sends neither is not a browser and carries no cookies of a user.
 *
 * @param ownUrl an address of this host, its `redirectUri`. Without it, `Origin` is compared with `Host`.
 */
export function isCrossSiteRequest(http: HttpContext, ownUrl: string | undefined): boolean {
  const site = http.header('sec-fetch-site');
  if (site !== undefined) {
    return site !== 'same-origin' && site !== 'none';
  }
  const origin = http.header('origin');
  if (origin === undefined) {
    return false;
  }
  if (ownUrl !== undefined) {
    return origin !== new URL(ownUrl).origin;
  }
  return !URL.canParse(origin) || new URL(origin).host !== http.header('host');
}
