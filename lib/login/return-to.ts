const MAX_BYTES = 512;

const UNSAFE = /[\p{Cc}\\]/u;

/**
 * A `returnTo` that is safe to redirect to: a path of this origin, at most 512 bytes. Anything else is dropped, not
 * refused: a login must not fail for a stale link.
 */
export function safeReturnTo(value: unknown): string | undefined {
  if (typeof value !== 'string' || Buffer.byteLength(value) > MAX_BYTES) {
    return undefined;
  }
  if (!value.startsWith('/') || value.startsWith('//') || UNSAFE.test(value)) {
    return undefined;
  }
  const url = URL.canParse(value, 'http://origin.invalid')
    ? new URL(value, 'http://origin.invalid')
    : undefined;
  return url?.origin === 'http://origin.invalid' ? value : undefined;
}
