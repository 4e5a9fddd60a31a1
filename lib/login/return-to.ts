import { parseUrl } from '../model/urls.js';

/** One that makes the `state` too long is left out, however: see `started-login`. */
const MAX_RETURN_TO_BYTES = 512;
const CONTROL_OR_BACKSLASH = /[\p{Cc}\\]/u;
const ANY_ORIGIN = 'http://origin.invalid';

/**
 * The value where it is a path of this origin, as it is and as a browser resolves it, of at most 512 bytes; else `undefined`: the
 * login goes on without it. Browsers read `//` and `/\` as the start of another host.
 */
export function safeReturnTo(value: unknown): string | undefined {
  if (typeof value !== 'string' || Buffer.byteLength(value) > MAX_RETURN_TO_BYTES) {
    return undefined;
  }
  if (!value.startsWith('/') || value.startsWith('//') || CONTROL_OR_BACKSLASH.test(value)) {
    return undefined;
  }
  return normalizeReturnTo(value) === undefined ? undefined : value;
}

/**
 * The path that a browser would request: percent-encoded, since headers are ASCII, and without `.` and `..`. `undefined` where
 * that is no path of this origin: `/..//evil` becomes `//evil`.
 */
export function normalizeReturnTo(returnTo: string): string | undefined {
  const url = parseUrl(returnTo, ANY_ORIGIN);
  if (url === undefined) {
    return undefined;
  }
  const { origin, pathname, search, hash } = url;
  return origin === ANY_ORIGIN && !pathname.startsWith('//') ? `${pathname}${search}${hash}` : undefined;
}
