/** The single values options are made of, as schemas that say what was expected and never show the value. */
import * as v from 'valibot';

const LOOPBACK = new Set(['localhost', '127.0.0.1', '[::1]']);

export const text = v.pipe(v.string('must be a string'), v.nonEmpty('must not be empty'));

// axios strips CR, LF and NUL from header values: such a tenant id would silently become another tenant's.
export const headerText = v.pipe(
  text,
  v.regex(/^[\x21-\x7e](?:[\x20-\x7e]*[\x21-\x7e])?$/, 'must be printable ASCII without surrounding spaces'),
);

export const anyFunction = v.custom<(...args: never[]) => unknown>(
  (value) => typeof value === 'function',
  'must be a function',
);

export function whole(minimum: number, maximum: number, unit: string) {
  const expected = `must be a whole number of ${unit} from ${minimum} to ${maximum}`;
  return v.pipe(
    v.number(expected),
    v.integer(expected),
    v.minValue(minimum, expected),
    v.maxValue(maximum, expected),
  );
}

/** 2^31-1 ms: longer timers fire at once in Node. */
export const LONGEST_TIMER = 2_147_483_647;

export const milliseconds = whole(1, LONGEST_TIMER, 'milliseconds');

/** Parses an absolute URL; `undefined` where it is none. */
export function parseUrl(value: string): URL | undefined {
  return URL.canParse(value) ? new URL(value) : undefined;
}

function isSecure(value: string): boolean {
  const url = parseUrl(value);
  return (
    url === undefined || url.protocol === 'https:' || (url.protocol === 'http:' && LOOPBACK.has(url.hostname))
  );
}

function hasNoCredentials(value: string): boolean {
  const url = parseUrl(value);
  return url === undefined || (url.username === '' && url.password === '');
}

/** An https URL (http for loopback), without credentials and fragment. */
export const secureUrl = v.pipe(
  text,
  v.check((value) => parseUrl(value) !== undefined, 'must be an absolute URL'),
  v.check(isSecure, 'must be https (http only for localhost, 127.0.0.1 and [::1])'),
  v.check(hasNoCredentials, 'must not contain credentials'),
  v.check((value) => !value.includes('#'), 'must not contain a fragment'),
);

/** {@link secureUrl} without a query; a base path is fine and the trailing slash is dropped. */
export const base = v.pipe(
  secureUrl,
  v.check((value) => !value.includes('?'), 'must not contain a query'),
  v.transform((value) => (parseUrl(value)?.href ?? value).replace(/\/+$/, '')),
);
