const MAX_RETURN_TO_BYTES = 512;
const CONTROL_OR_BACKSLASH = /[\p{Cc}\\]/u;
const ANY_ORIGIN = 'http://origin.invalid';

/**
 * The value, if it is a path of at most 512 bytes that browsers read as one of this origin; they read `//` and `/\` as the start of
 * another host. Anything else is dropped and does not fail the login.
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
  if (!URL.canParse(returnTo, ANY_ORIGIN)) {
    return undefined;
  }
  const { origin, pathname, search, hash } = new URL(returnTo, ANY_ORIGIN);
  return origin === ANY_ORIGIN && !pathname.startsWith('//') ? `${pathname}${search}${hash}` : undefined;
}
