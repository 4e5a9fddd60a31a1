/**
 * The two values that a host may take from a request and that stand in the path of a request to the service: event ids and e-mail
 * addresses. They are checked wherever one enters, before anything is sent or remembered. Errors do not show the value: it may be
 * an e-mail address.
 */
import { ExhibitorError } from '../errors/exhibitor.error.js';

/** Largest event id in bytes of UTF-8: it is stored in cookies and caches. */
const MAX_EVENT_ID_BYTES = 128;

/** Largest e-mail address, in bytes of UTF-8 (RFC 5321 §4.5.3.1.3): the path of 256 without its angle brackets. */
const MAX_ADDRESS_BYTES = 254;

/** Errors do not list these characters: some look like `/` and `\`. */
const ALIKE = 'characters that some systems read as one of these';

/**
 * True for a text that could name another resource. It is sent encoded, but something between this process and the service may
 * decode a path, and then it splits at `/` and `\`, ends at `?` and `#`, drops what follows a `;`, and reads `%` once more. Some
 * compare texts in their compatibility form (NFKC), in which a full-width slash is a slash. Conversions to a code page make slashes of
 * U+2044, U+2215 and U+2216, `⁄ ∕ ∖`.
 */
function mayChangePath(text: string): boolean {
  const plain = text.normalize('NFKC');
  return plain === '.' || plain === '..' || /[/\\%?#;]/.test(plain) || /[\u2044\u2215\u2216]/.test(text);
}

/**
 * An event id: 1 to 128 bytes of UTF-8, not `.` or `..`, without control characters and without `/ \ % ? # ; ⁄ ∕ ∖`.
 *
 * @throws {ExhibitorError} `invalid_argument`
 */
export function checkEventId(eventId: unknown): string {
  if (typeof eventId !== 'string' || eventId === '') {
    throw invalid('eventId', 'a non-empty string');
  }
  if (Buffer.byteLength(eventId) > MAX_EVENT_ID_BYTES) {
    throw invalid('eventId', `${MAX_EVENT_ID_BYTES} bytes of UTF-8 or less`);
  }
  if (/\p{Cc}/u.test(eventId)) {
    throw invalid('eventId', 'without control characters');
  }
  // encodeURIComponent throws a URIError for lone surrogates.
  if (/\p{Surrogate}/u.test(eventId)) {
    throw invalid('eventId', 'well-formed Unicode');
  }
  if (mayChangePath(eventId)) {
    throw invalid('eventId', String.raw`other than '.' and '..', without / \ % ? # ; and without ${ALIKE}`);
  }
  return eventId;
}

/**
 * A contact e-mail address, international ones (RFC 6531) included, of at most 254 bytes of UTF-8 and without `/ \ % ? # ; ⁄ ∕ ∖`. It
 * is no full validation: the address is used byte for byte.
 *
 * @throws {ExhibitorError} `invalid_argument`
 */
export function checkContactEmail(address: unknown): string {
  const problem = addressProblem(address);
  if (problem !== undefined) {
    throw invalid('contactEmail', problem);
  }
  return String(address);
}

/** True for an address that {@link checkContactEmail} accepts. */
export function isContactEmail(value: unknown): value is string {
  return addressProblem(value) === undefined;
}

function addressProblem(address: unknown): string | undefined {
  if (typeof address !== 'string') {
    return 'an e-mail address';
  }
  if (Buffer.byteLength(address) > MAX_ADDRESS_BYTES) {
    return `an e-mail address of ${MAX_ADDRESS_BYTES} bytes of UTF-8 or less`;
  }
  if (!hasFormOfAddress(address)) {
    return 'an e-mail address';
  }
  return mayChangePath(address)
    ? String.raw`an e-mail address without / \ % ? # ; and without ${ALIKE}`
    : undefined;
}

function hasFormOfAddress(value: string): boolean {
  const at = value.lastIndexOf('@');
  const local = value.slice(0, at);
  if (at < 1 || at === value.length - 1) {
    return false;
  }
  if (/[\s\p{Cc}\p{Surrogate}]/u.test(value)) {
    return false;
  }
  return !local.includes('@') || /^".+"$/.test(local);
}

function invalid(name: string, expected: string): ExhibitorError {
  return new ExhibitorError('invalid_argument', `${name} must be ${expected}`);
}
