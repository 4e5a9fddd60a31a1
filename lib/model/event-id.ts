import { ExhibitorError } from '../errors/exhibitor.error.js';

/** Largest event id in bytes of UTF-8: it is stored in cookies and caches. */
const MAX_BYTES = 128;

/**
 * An event id: 1 to 128 bytes of UTF-8 without control characters. Checked wherever an event id enters, before anything is
 * sent or remembered.
 *
 * @throws {ExhibitorError} `invalid_argument`, without the value
 */
export function checkEventId(eventId: unknown): string {
  if (typeof eventId !== 'string' || eventId === '') {
    throw invalid('a non-empty string');
  }
  if (Buffer.byteLength(eventId) > MAX_BYTES) {
    throw invalid(`${MAX_BYTES} bytes of UTF-8 or less`);
  }
  // encodeURIComponent does not change these two, and they would change the path.
  if (eventId === '.' || eventId === '..') {
    throw invalid("other than '.' and '..'");
  }
  if (/\p{Cc}/u.test(eventId)) {
    throw invalid('without control characters');
  }
  // encodeURIComponent throws a URIError for lone surrogates.
  if (/\p{Surrogate}/u.test(eventId)) {
    throw invalid('well-formed Unicode');
  }
  if (hasDotSegment(eventId)) {
    throw invalid("without '.' and '..' between slashes");
  }
  return eventId;
}

/**
 * True for an id with a segment `.` or `..`, as it is or percent-encoded any number of times. We send such an id encoded, but
 * some proxies decode a path before they normalize it, and `..%2F` would then lead to another path.
 */
function hasDotSegment(id: string): boolean {
  const decoded = id.replaceAll(/%(?:25)*2e/gi, '.').replaceAll(/%(?:25)*(?:2f|5c)/gi, '/');
  return decoded.split(/[/\\]/).some((segment) => segment === '.' || segment === '..');
}

function invalid(expected: string): ExhibitorError {
  return new ExhibitorError('invalid_argument', `eventId must be ${expected}`);
}
