/** Checks of call arguments, before anything is sent. Errors show no value: it may be an e-mail address. */
import { ExhibitorError } from '../errors/exhibitor.error.js';
import { LONGEST_TIMER } from '../time/clock.js';
import type {
  CallOptions,
  ListOptions,
  LookupFilter,
  LookupOptions,
  SnapshotOptions,
  StreamOptions,
} from './call-options.interface.js';

/** Default and maximum of `ItemsPerPage` (service specification, Limits). */
const MOST_ITEMS_PER_PAGE = 50;

/** Options with their defaults applied. */
type Checked<Options, Defaulted extends keyof Options> = Omit<Options, Defaulted> &
  Required<Pick<Options, Defaulted>>;

export type ListCall = Checked<ListOptions, 'page' | 'itemsPerPage'>;
export type StreamCall = Checked<StreamOptions, 'itemsPerPage' | 'startPage' | 'prefetch' | 'onDrift'>;
export type SnapshotCall = Checked<SnapshotOptions, 'itemsPerPage' | 'prefetch' | 'attempts'>;
export type LookupCall = Checked<LookupOptions, 'fresh'>;

/** @throws {ExhibitorError} `invalid_argument` */
export function checkEventId(eventId: unknown): string {
  if (typeof eventId !== 'string' || eventId === '') {
    throw invalid('eventId', 'a non-empty string');
  }
  // encodeURIComponent does not change these two, and they would change the path.
  if (eventId === '.' || eventId === '..') {
    throw invalid('eventId', "other than '.' and '..'");
  }
  if (hasLoneSurrogate(eventId)) {
    throw invalid('eventId', 'well-formed Unicode');
  }
  if (hasDotSegment(eventId)) {
    throw invalid('eventId', "without '.' and '..' between slashes");
  }
  return eventId;
}

/**
 * Checks that a value can be an e-mail address, including international ones (RFC 6531). It is no full validation: the
 * address is used byte for byte.
 *
 * @throws {ExhibitorError} `invalid_argument`
 */
export function checkContactEmail(contactEmail: unknown): string {
  if (typeof contactEmail !== 'string' || !isEmailAddress(contactEmail)) {
    throw invalid('contactEmail', 'an e-mail address');
  }
  return contactEmail;
}

function isEmailAddress(value: string): boolean {
  const at = value.lastIndexOf('@');
  const local = value.slice(0, at);
  if (at < 1 || at === value.length - 1) {
    return false;
  }
  if (/[\s\p{Cc}]/u.test(value) || hasLoneSurrogate(value)) {
    return false;
  }
  return !local.includes('@') || /^".+"$/.test(local);
}

/** @throws {ExhibitorError} `invalid_argument` */
export function checkListOptions(options: ListOptions | undefined): ListCall {
  const given = checkCall(options);
  return {
    ...given,
    page: whole(given.page, 'page', 1),
    itemsPerPage: whole(given.itemsPerPage, 'itemsPerPage', MOST_ITEMS_PER_PAGE, MOST_ITEMS_PER_PAGE),
  };
}

/** @throws {ExhibitorError} `invalid_argument` */
export function checkStreamOptions(options: StreamOptions | undefined): StreamCall {
  const given = checkCall(options);
  const onDrift = given.onDrift ?? 'error';
  if (onDrift !== 'error' && onDrift !== 'ignore') {
    throw invalid('onDrift', "'error' or 'ignore'");
  }
  return {
    ...given,
    itemsPerPage: whole(given.itemsPerPage, 'itemsPerPage', MOST_ITEMS_PER_PAGE, MOST_ITEMS_PER_PAGE),
    startPage: whole(given.startPage, 'startPage', 1),
    maxPages: given.maxPages === undefined ? undefined : whole(given.maxPages, 'maxPages', 1),
    prefetch: whole(given.prefetch, 'prefetch', 4, 16),
    onDrift,
  };
}

/** @throws {ExhibitorError} `invalid_argument` */
export function checkSnapshotOptions(options: SnapshotOptions | undefined): SnapshotCall {
  const given = checkCall(options);
  return {
    ...given,
    itemsPerPage: whole(given.itemsPerPage, 'itemsPerPage', MOST_ITEMS_PER_PAGE, MOST_ITEMS_PER_PAGE),
    prefetch: whole(given.prefetch, 'prefetch', 4, 16),
    attempts: whole(given.attempts, 'attempts', 3, 100),
  };
}

/** @throws {ExhibitorError} `invalid_argument` */
export function checkLookupOptions(options: LookupOptions | undefined): LookupCall {
  const given = checkCall(options);
  const fresh = given.fresh ?? false;
  if (typeof fresh !== 'boolean') {
    throw invalid('fresh', 'true or false');
  }
  return { ...given, fresh };
}

/** @throws {ExhibitorError} `invalid_argument` */
export function checkLookupFilter(filter: LookupFilter | undefined): LookupFilter {
  const { tenant, eventId, contactEmail } = checkObject(filter, 'filter');
  return {
    tenant: checkTenantKey(tenant),
    eventId: eventId === undefined ? undefined : checkEventId(eventId),
    contactEmail: contactEmail === undefined ? undefined : checkContactEmail(contactEmail),
  };
}

function checkCall<Options extends CallOptions>(options: Options | undefined): Options {
  const given = checkObject(options, 'options');
  checkTenantKey(given.tenant);
  if (given.deadline !== undefined) {
    whole(given.deadline, 'deadline', 1, LONGEST_TIMER);
  }
  if (given.signal !== undefined && !isAbortSignal(given.signal)) {
    throw invalid('signal', 'an AbortSignal');
  }
  return given;
}

function checkObject<Options extends object>(
  options: Options | undefined,
  name: string,
): Partial<Options> & Options {
  const given: unknown = options ?? {};
  if (typeof given !== 'object' || given === null) {
    throw invalid(name, 'an object');
  }
  return given as Partial<Options> & Options;
}

function checkTenantKey(tenant: unknown): string | undefined {
  if (tenant === undefined) {
    return undefined;
  }
  if (typeof tenant !== 'string' || tenant === '') {
    throw invalid('tenant', 'the key of a tenant');
  }
  return tenant;
}

/** A whole number from 1 to `most`; `fallback` for `undefined`. */
function whole(value: unknown, name: string, fallback: number, most = Number.MAX_SAFE_INTEGER): number {
  const given = value === undefined ? fallback : value;
  if (typeof given === 'number' && Number.isSafeInteger(given) && given >= 1 && given <= most) {
    return given;
  }
  const range = most === Number.MAX_SAFE_INTEGER ? 'of 1 or more' : `from 1 to ${most}`;
  throw invalid(name, `a whole number ${range}`);
}

function isAbortSignal(value: object): boolean {
  return 'aborted' in value && 'addEventListener' in value;
}

/**
 * True for an id with a segment `.` or `..`, as it is or percent-encoded any number of times. We send such an id encoded, but
 * some proxies decode a path before they normalize it, and `..%2F` would then lead to another path.
 */
function hasDotSegment(id: string): boolean {
  const decoded = id.replaceAll(/%(?:25)*2e/gi, '.').replaceAll(/%(?:25)*(?:2f|5c)/gi, '/');
  return decoded.split(/[/\\]/).some((segment) => segment === '.' || segment === '..');
}

// encodeURIComponent throws a URIError for them.
function hasLoneSurrogate(value: string): boolean {
  return /\p{Surrogate}/u.test(value);
}

function invalid(name: string, expected: string): ExhibitorError {
  return new ExhibitorError('invalid_argument', `${name} must be ${expected}`);
}
