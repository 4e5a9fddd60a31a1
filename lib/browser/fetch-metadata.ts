/** What a browser says of the origin and the aim of a request: `Sec-Fetch-*` (W3C Fetch Metadata), in older ones `Origin`; `Sec-Purpose`. */
import { parseUrl } from '../model/urls.js';
import type { HttpContext } from './http-context.js';

/**
 * True for a state-changing request that a page of an origin caused which is not trusted. Browsers send `Sec-Fetch-Site`, older ones
 * only `Origin`. A client that sends neither is not a browser and carries no cookies of a user. Origins are compared as a whole:
 * a neighbour under the same registrable domain may belong to somebody else.
 *
 * @param ownUrl an address of this host, its `redirectUri`. Without it, `Origin` is compared with the host of the request.
 * @param trusted further origins
 */
export function isCrossSiteRequest(
  http: HttpContext,
  ownUrl: string | undefined,
  trusted: readonly string[],
): boolean {
  const site = http.header('sec-fetch-site');
  const sent = http.header('origin');
  if (site === 'same-origin' || site === 'none' || (site === undefined && sent === undefined)) {
    return false;
  }
  const page = urlOf(sent);
  if (page === undefined) {
    return true;
  }
  if (trusted.includes(page.origin)) {
    return false;
  }
  const own = urlOf(ownUrl);
  if (own !== undefined) {
    return page.origin !== own.origin;
  }
  // The scheme of the host is not known behind a proxy: its port is read by that of the page.
  return site !== undefined || urlOf(`${page.protocol}//${http.authority}`)?.host !== page.host;
}

/** An http address as browsers read it: letter case, the default port and the spelling of an IPv6 address do not count. */
function urlOf(address = ''): URL | undefined {
  return /^https?:/i.test(address) ? parseUrl(address) : undefined;
}

/** True where a person sees the reply, also in a frame: of any method. Browsers without Fetch Metadata are known by asking for HTML. */
export function isDocumentRequest(http: HttpContext): boolean {
  if (http.header('sec-fetch-dest') !== undefined) {
    return mayShowPage(http);
  }
  const asksForHtml = http.header('accept')?.toLowerCase().includes('text/html') === true;
  return asksForHtml && http.header('x-requested-with') === undefined;
}

/** True for a document request that may be led to another page. In a frame, the pages of a provider mostly do not show. */
export function isNavigation(http: HttpContext, sameSite: 'lax' | 'none'): boolean {
  const mayBeLed = sameSite === 'none' || http.header('sec-fetch-dest') !== 'iframe';
  return http.request.method === 'GET' && mayBeLed && isDocumentRequest(http);
}

/** False for a request of an image, a script and the like. */
export function mayShowPage(http: HttpContext): boolean {
  const destination = http.header('sec-fetch-dest');
  return destination === undefined || destination === 'document' || destination === 'iframe';
}

/**
 * True for a page in a frame, unless a page of its own origin is around it. A neighbour host under the same registrable domain is
 * same-site: its frame would replace the visitor's login, and browsers send our cookies there.
 */
export function isInForeignFrame(http: HttpContext): boolean {
  return http.header('sec-fetch-dest') === 'iframe' && http.header('sec-fetch-site') !== 'same-origin';
}

/** Headers by which browsers tell that they load a page ahead; older ones have names of their own, and Safari the word `preview`. */
const PURPOSES = ['sec-purpose', 'purpose', 'x-purpose', 'x-moz'];

/** True for HEAD, and for a page that a browser loads ahead: neither shows that the user is there. */
export function isWithoutUser(http: HttpContext): boolean {
  return (
    http.request.method === 'HEAD' ||
    PURPOSES.some((name) =>
      /(?<![\w-])(?:prefetch|prerender|preview)(?![\w-])/i.test(http.header(name) ?? ''),
    )
  );
}
