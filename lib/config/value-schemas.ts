/**
 * Schemas of single option values. Their messages say what was expected and never show the value: it may be a secret. Options are
 * parsed with {@link ONE_PROBLEM}.
 */
import * as v from 'valibot';
import { ConfigurationError, type ConfigurationProblem } from '../errors/configuration.error.js';
import { isLoopback, parseUrl } from '../model/urls.js';
import { untrustedText } from '../model/untrusted-text.js';
import { LONGEST_TIMER } from '../call/clock.js';

/** One line an option: the first check of a value that fails is the last. */
export const ONE_PROBLEM = { abortPipeEarly: true } as const;

export const text = v.pipe(v.string('must be a string'), v.nonEmpty('must not be empty'));

// axios removes CR, LF and NUL from header values without an error, which would turn one tenant id into another.
export const headerText = v.pipe(
  text,
  v.regex(/^[\x21-\x7e](?:[\x20-\x7e]*[\x21-\x7e])?$/, 'must be printable ASCII without surrounding spaces'),
);

/** Copied, since the list that valibot fills has room for 17 strings: 112 bytes of each tenant. */
export const strings = v.pipe(
  v.array(text, 'must be a list of strings'),
  v.transform((list) => [...list]),
);

/** A function of the host. Its type is trusted; only that it is a function can be checked. */
export function callable<F>(expected = 'must be a function') {
  return v.custom<F>((value) => typeof value === 'function', expected);
}

export const flag = v.boolean('must be true or false');

/** An object with these options and no other. `v.strictObject` names only the first unknown one. */
export function optionsOf<const Entries extends v.ObjectEntries>(
  entries: Entries,
  expected = `must be { ${Object.keys(entries).join(', ')} }`,
) {
  type Known = v.ObjectSchema<Entries, string>;
  type Options = v.GenericSchema<v.InferInput<Known>, v.InferOutput<Known>> & { readonly entries: Entries };
  const schema: Options = v.objectWithRest(entries, v.never('is not an option'), expected);
  return schema;
}

export const oneOf = <const T extends readonly string[]>(values: T) =>
  v.picklist(values, `must be one of ${values.map((value) => `'${value}'`).join(', ')}`);

/** A whole number, of a unit where that does not go without saying. */
export function whole(minimum: number, maximum = Number.MAX_SAFE_INTEGER, unit?: string) {
  const isOpen = maximum === Number.MAX_SAFE_INTEGER;
  const range = isOpen ? `, ${minimum} or more` : ` from ${minimum} to ${maximum}`;
  const expected = `must be a whole number${unit === undefined ? '' : ` of ${unit}`}${range}`;
  return v.pipe(
    v.number(expected),
    v.safeInteger(expected),
    v.minValue(minimum, expected),
    v.maxValue(maximum, expected),
  );
}

export const milliseconds = whole(1, LONGEST_TIMER, 'milliseconds');

/**
 * Whether a tenant may use the origin of this URL.
 *
 * @throws {ConfigurationError} where the function of the host throws, so that no other one is blamed
 */
export function isAllowedUrl(url: string, tenantKey: string, isAllowed: AllowedOrigins | undefined): boolean {
  try {
    const answer: unknown = isAllowed === undefined || isAllowed(parseUrl(url)?.origin ?? '', tenantKey);
    // A promise is no answer. That of an async function which throws must not end the process.
    void Promise.resolve(answer).catch(() => undefined);
    return answer === true;
  } catch (error) {
    const problem = { path: 'allowedOrigins', expected: 'must return true or false, and threw an error' };
    // Only an error with a cause is marked as the host's, and the host may have thrown `undefined`.
    const cause = error ?? new TypeError(`allowedOrigins threw ${error}`);
    throw new ConfigurationError([problem], untrustedText(tenantKey), cause);
  }
}

export type AllowedOrigins = (origin: string, tenantKey: string) => boolean;

function isSecureOrLoopback(value: string): boolean {
  const url = parseUrl(value);
  return url?.protocol === 'https:' || (url?.protocol === 'http:' && isLoopback(url.hostname));
}

function hasNoCredentials(value: string): boolean {
  const url = parseUrl(value);
  return url?.username === '' && url.password === '';
}

/** An https URL (http for loopback hosts) without credentials and fragment. */
const secureUrl = v.pipe(
  v.string('must be a string'),
  v.check((value) => parseUrl(value) !== undefined, 'must be an absolute URL'),
  v.check(isSecureOrLoopback, 'must be https (http only for localhost, *.localhost, 127.0.0.0/8 and [::1])'),
  v.check(hasNoCredentials, 'must not contain credentials'),
  v.check((value) => !value.includes('#'), 'must not contain a fragment'),
);

/**
 * A {@link secureUrl} that the provider compares with the registered one, so that it stays as it is written. Whether cookies are
 * `Secure` is read from how it begins.
 */
export const registeredUrl = v.pipe(
  secureUrl,
  v.check((value) => /^https?:/.test(value), 'must begin with https: or http:'),
);

/** A {@link secureUrl} without a query. It may have a path; trailing slashes are removed. */
export const base = v.pipe(
  secureUrl,
  v.check((value) => !value.includes('?'), 'must not contain a query'),
  v.transform((value) => (parseUrl(value)?.href ?? value).replace(/(?<!\/)\/+$/, '')),
);

/** A {@link secureUrl} of an endpoint. It may have a query (RFC 6749 §3.1, §3.2). */
export const endpointUrl = v.pipe(
  secureUrl,
  v.transform((value) => parseUrl(value)?.href ?? value),
);

/** A value that a function parses, or says what is wrong with. */
export function parsedBy<T extends object>(parse: (value: unknown) => T | string) {
  return v.pipe(
    v.unknown(),
    v.rawTransform<unknown, T>(({ dataset, addIssue, NEVER }) => {
      const parsed = parse(dataset.value);
      if (typeof parsed !== 'string') {
        return parsed;
      }
      addIssue({ message: parsed });
      return NEVER;
    }),
  );
}

/** Schema issues as problems with option paths below `path`. */
export function problemsOf(issues: readonly v.BaseIssue<unknown>[], path = ''): ConfigurationProblem[] {
  return issues.map((issue) => {
    const { input, type, message } = issue;
    const inner = v.getDotPath(issue) ?? '';
    // The message of valibot is that of the object around a missing option.
    const isMissing = input === undefined && type !== 'never' && inner !== '';
    return {
      path: [path, inner].filter(Boolean).join('.'),
      expected: isMissing ? 'is required' : message,
    };
  });
}
