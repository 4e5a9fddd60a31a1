/**
 * True for a text that may lead to another path: one with an empty, `.` or `..` segment between slashes, as it is or
 * percent-encoded any number of times. It is sent encoded, but some proxies decode a path before they normalize it, some read
 * a backslash as a slash, and some leave out what follows a `;` in a segment, or tabs and line breaks, as URL parsers do.
 */
export function hasUnsafeSegment(text: string): boolean {
  return decodeFully(text)
    .replaceAll(/[\t\n\r]/g, '')
    .split(/[/\\]/)
    .map((segment) => segment.split(';', 1)[0])
    .some((name) => name === '' || name === '.' || name === '..');
}

/** Largest e-mail address, in bytes of UTF-8 (RFC 5321 §4.5.3.1.3): the path of 256 without its angle brackets. */
export const MAX_ADDRESS_BYTES = 254;

/**
 * True for an e-mail address that may lead to the path of another one: by its segments, or since `;`, `?`, `#` or a control
 * character ends it after its `@`, as in `victim@example.com;@example.org`.
 */
export function mayNameAnother(address: string): boolean {
  const decoded = decodeFully(address);
  return hasUnsafeSegment(address) || /[;?#\p{Cc}]/u.test(decoded.slice(decoded.indexOf('@')));
}

/**
 * Decodes until no `%` with two hexadecimal digits is left. In one pass: a decoded character may be a digit of the one before
 * it, or the `%` of the next one.
 */
function decodeFully(text: string): string {
  const decoded: string[] = [];
  for (const char of text) {
    decoded.push(char);
    while (decoded.at(-3) === '%') {
      const digits = `${decoded.at(-2)}${decoded.at(-1)}`;
      if (!/^[\da-f]{2}$/i.test(digits)) {
        break;
      }
      decoded.length -= 2;
      decoded[decoded.length - 1] = String.fromCharCode(Number.parseInt(digits, 16));
    }
  }
  return decoded.join('');
}
