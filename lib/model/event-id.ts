import { ExhibitorError } from '../errors/exhibitor.error.js';
import { hasUnsafeSegment } from './path-segments.js';

/** Largest event id in bytes of UTF-8: it is stored in cookies and caches. */
const MAX_BYTES = 128;

/**
 * An event id: 1 to 128 bytes of UTF-8 without control characters and without segments that change a path. Checked wherever an event id enters, before anything is
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
  if (/\p{Cc}/u.test(eventId)) {
    throw invalid('without control characters');
  }
  // encodeURIComponent throws a URIError for lone surrogates.
  if (/\p{Surrogate}/u.test(eventId)) {
    throw invalid('well-formed Unicode');
  }
  if (hasUnsafeSegment(eventId)) {
    throw invalid("without empty, '.' and '..' segments between slashes");
  }
  return eventId;
}

function invalid(expected: string): ExhibitorError {
  return new ExhibitorError('invalid_argument', `eventId must be ${expected}`);
}
