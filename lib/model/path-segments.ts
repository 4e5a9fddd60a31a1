/**
 * True for a text that may lead to another path: one with an empty, `.` or `..` segment between slashes, as it is or
 * percent-encoded any number of times, also by overlong UTF-8 or in compatibility characters, as those of full width. It is sent
 * encoded, but some proxies decode a path before they normalize it, some read a backslash as a slash, and some leave out what
 * follows a `;` in a segment, or tabs and line breaks, as URL parsers do.
 */
export function hasUnsafeSegment(text: string): boolean {
  // Most event ids. To decode one takes a fortieth of the time of a call.
  if (/^[\w-]+$/.test(text)) {
    return false;
  }
  return decodeFully(text)
    .replaceAll(/[\t\n\r]/g, '')
    .split(/[/\\]/)
    .map((segment) => segment.split(';', 1)[0])
    .some((name) => name === '' || name === '.' || name === '..');
}

/** Largest e-mail address, in bytes of UTF-8 (RFC 5321 §4.5.3.1.3): the path of 256 without its angle brackets. */
export const MAX_ADDRESS_BYTES = 254;

/**
 * True for an e-mail address that may lead to the path of another one: by its segments, since `;`, `?` or `#` ends it
 * after its `@`, as in `victim@example.com;@example.org`, or since it has white space or a control character, where others trim
 * or end a text.
 */
export function mayNameAnother(address: string): boolean {
  const decoded = decodeFully(address);
  const isCut = /[;?#]/.test(decoded.slice(decoded.indexOf('@')));
  return hasUnsafeSegment(address) || isCut || /[\s\p{Cc}]/u.test(decoded);
}

/** An ASCII character in two to four bytes of UTF-8: RFC 3629 §3 forbids it, and some decoders read it. */
const OVERLONG = /(?:[\xc0\xc1]|\xe0[\x80\x81]|\xf0\x80[\x80\x81])[\x80-\xbf]/g;

/**
 * Decodes until no `%` with two hexadecimal digits is left. In one pass: a decoded character may be a digit of the one before
 * it, or the `%` of the next one.
 */
function decodeFully(text: string): string {
  const decoded: string[] = [];
  for (const char of text.normalize('NFKC')) {
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
  return decoded.join('').replace(OVERLONG, (bytes) => {
    const [high = 0, low = 0] = [...bytes].slice(-2).map((byte) => byte.charCodeAt(0));
    return String.fromCharCode(((high & 1) << 6) | (low & 0x3f));
  });
}
