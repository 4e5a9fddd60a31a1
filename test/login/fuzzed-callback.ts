import * as fc from 'fast-check';
import { anyText } from '../support/any-text.js';
import type { Arrival } from './journey.js';

/** A request to the callback, as it is sent. */
export interface CallbackRequest {
  method: string;
  query: string;
  headers: Record<string, string>;
  body: string | undefined;
}

/** The callback of the provider, with the cookies of the browser. */
export interface GoodCallback {
  arrival: Arrival;
  cookies: ReadonlyMap<string, string>;
}

/** Creates a request from a good callback, changed or not. */
export type Recipe = (good: GoodCallback) => CallbackRequest;

const NAMES = [
  'state',
  'code',
  'iss',
  'error',
  'id_token',
  'access_token',
  'session_state',
  '__proto__',
  'a[b]',
  '',
];
const FORM = 'application/x-www-form-urlencoded';

const hostileText = fc.oneof(
  fc.string(),
  anyText({ maxLength: 30 }),
  fc.constantFrom(
    '',
    'null',
    'undefined',
    '0',
    '[]',
    '{}',
    '\u0000',
    '\r\n',
    '%00',
    '%zz',
    '../..',
    'x'.repeat(20_000),
  ),
  fc.base64String({ maxLength: 100 }),
);
/** Text that is allowed in a header. */
const headerText = fc.oneof(
  fc.stringMatching(/^[\x21-\x3a\x3c-\x7e]{0,60}$/),
  fc.constantFrom('%', '%E0%A4%A', '"', '\\', 'a=b=c', 'eyJhbGciOiJub25lIn0....', '....', '\u00e9'),
);

type Pairs = [name: string, value: string][];

/** One change of a list of parameters or cookies. */
const change: fc.Arbitrary<(pairs: Pairs) => Pairs> = fc.oneof(
  fc.nat(20).map((at) => (pairs: Pairs) => pairs.filter((_, index) => index !== at % (pairs.length || 1))),
  fc
    .nat(20)
    .map((at) => (pairs: Pairs) => [
      ...pairs,
      ...pairs.slice(at % (pairs.length || 1), (at % (pairs.length || 1)) + 1),
    ]),
  fc.tuple(fc.nat(20), hostileText).map(([at, value]) => editValue(at, () => value)),
  fc
    .tuple(fc.nat(20), fc.nat(5_000), fc.constantFrom('A', 'B', '.', '%', '\u0000', ''))
    .map(([at, where, letter]) => editValue(at, (value) => spliced(value, where, letter))),
  fc
    .tuple(fc.nat(20), fc.nat(5_000))
    .map(([at, length]) => editValue(at, (value) => value.slice(0, length % (value.length + 1)))),
  fc.tuple(fc.nat(20), fc.nat(20)).map(
    ([a, b]) =>
      (pairs: Pairs) =>
        swapped(pairs, a, b),
  ),
  fc
    .tuple(fc.oneof(fc.constantFrom(...NAMES), hostileText), hostileText)
    .map(([name, value]) => (pairs: Pairs): Pairs => [...pairs, [name, value]]),
  fc.constant((pairs: Pairs) => pairs.toReversed()),
  fc.constant((pairs: Pairs) => pairs.map(([name, value]): [string, string] => [name.toUpperCase(), value])),
);

function editValue(at: number, edit: (value: string) => string) {
  return (pairs: Pairs): Pairs =>
    pairs.map(([name, value], index) => [name, index === at % pairs.length ? edit(value) : value]);
}

function spliced(value: string, where: number, letter: string): string {
  const at = where % (value.length + 1);
  return `${value.slice(0, at)}${letter}${value.slice(at + 1)}`;
}

function swapped(pairs: Pairs, a: number, b: number): Pairs {
  const [first, second] = [pairs[a % pairs.length], pairs[b % pairs.length]];
  if (first === undefined || second === undefined) {
    return pairs;
  }
  return pairs.map(([name, value]) => {
    if (name === first[0]) {
      return [name, second[1]];
    }
    return name === second[0] ? [name, first[1]] : [name, value];
  });
}

const changes = fc.array(change, { maxLength: 3 });
const apply = (pairs: Pairs, edits: readonly ((pairs: Pairs) => Pairs)[]): Pairs =>
  edits.reduce((all, edit) => edit(all), pairs);

const cookieHeader = (pairs: Pairs): string =>
  pairs
    .map(([name, value]) => `${name}=${value}`)
    .join('; ')
    // Node refuses to send other characters.
    .replace(/[^\x20-\x7e\xa1-\xff]/g, '');

/** A good callback with up to three changes of its parameters and of its cookies. */
const mutated: fc.Arbitrary<Recipe> = fc
  .tuple(changes, changes, fc.constantFrom('as is', 'as is', 'as is', 'GET', 'POST', 'HEAD', 'PUT'))
  .map(([ofParameters, ofCookies, as]): Recipe => ({ arrival, cookies }): CallbackRequest => {
    const method = as === 'as is' ? arrival.method : as;
    const parameters = new URLSearchParams(apply([...arrival.parameters], ofParameters)).toString();
    const cookie = cookieHeader(apply([...cookies], ofCookies));
    return method === 'GET' || method === 'HEAD'
      ? { method, query: parameters, headers: { cookie }, body: undefined }
      : { method, query: '', headers: { cookie, 'content-type': FORM }, body: parameters };
  });

const anyBody = fc.oneof(
  hostileText,
  fc.json(),
  fc.dictionary(fc.constantFrom(...NAMES), fc.anything()).map((value) => safeJson(value)),
  fc
    .array(fc.tuple(fc.constantFrom(...NAMES), hostileText))
    .map((pairs) => new URLSearchParams(pairs).toString()),
);

/** Random requests, with the cookies of a good callback or random ones. */
const random: fc.Arbitrary<Recipe> = fc
  .record({
    method: fc.constantFrom('GET', 'POST', 'HEAD', 'PUT', 'DELETE'),
    query: fc
      .oneof(hostileText, anyBody)
      .map((text) => encodeURI(wellFormed(text)).replaceAll('#', '').slice(0, 4_000)),
    body: anyBody,
    type: fc.constantFrom(
      FORM,
      `${FORM}; charset=x`,
      'application/json',
      'text/plain',
      'multipart/form-data',
      'x',
    ),
    cookie: fc.oneof(fc.constant(undefined), fc.array(fc.tuple(headerText, headerText), { maxLength: 5 })),
  })
  .map(({ method, query, body, type, cookie }) => ({ cookies }) => ({
    method,
    query,
    headers: { cookie: cookieHeader(cookie ?? [...cookies]), 'content-type': type },
    body: method === 'GET' || method === 'HEAD' ? undefined : body,
  }));

/** Requests to the callback of all kinds, also good ones. */
export const fuzzedCallback: fc.Arbitrary<Recipe> = fc.oneof(
  { weight: 3, arbitrary: mutated },
  { weight: 1, arbitrary: random },
);

/** Without lone surrogates, which are not allowed in a URL. */
function wellFormed(text: string): string {
  return Buffer.from(text).toString();
}

function safeJson(value: unknown): string {
  try {
    return JSON.stringify(value) ?? 'null';
  } catch {
    return '{"state":';
  }
}
