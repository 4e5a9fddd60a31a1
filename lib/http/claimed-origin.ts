import { isIPv4 } from 'node:net';
import type { HttpContext } from './http-context.js';

/** `https://`, a host name (RFC 1035 §2.3.4) and a port. */
const LONGEST_ORIGIN = 267;

/**
 * Origin of this request as the client claims it, where it is not on the host of `own` and one of the two is a loopback host.
 * Only for a line in the log: clients choose these headers. Parsed, it has no characters but those of a URL.
 */
export function claimedOtherOrigin(http: HttpContext, own: URL): string | undefined {
  const { host = '', protocol } = http.request;
  const isHttps = protocol === 'https' || http.header('x-forwarded-proto')?.startsWith('https') === true;
  const claimed = `${isHttps ? 'https' : 'http'}://${host}`;
  if (claimed.length > LONGEST_ORIGIN || !URL.canParse(claimed)) {
    return undefined;
  }
  const { hostname, origin } = new URL(claimed);
  // A proxy that the framework does not trust may have replaced `Host`.
  const isReplaced =
    http.header('x-forwarded-host')?.includes(own.hostname) ??
    (!isLoopback(own.hostname) && http.header('x-forwarded-for') !== undefined);
  const isMistake = hostname !== own.hostname && [hostname, own.hostname].some(isLoopback);
  return isMistake && !isReplaced ? origin : undefined;
}

function isLoopback(hostname: string): boolean {
  return ['localhost', '[::1]'].includes(hostname) || (isIPv4(hostname) && hostname.startsWith('127.'));
}
