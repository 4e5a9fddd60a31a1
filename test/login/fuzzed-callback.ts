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

type Pairs = [name: string, value: string][];

const FORM = 'application/x-www-form-urlencoded';
const parameterName = fc.constantFrom('state', 'code', 'iss', 'error', 'id_token', '__proto__', 'a[b]', '');
const hostileText = fc.oneof(
  fc.string(),
  anyText({ maxLength: 30 }),
  fc.constantFrom('', 'null', '0', '[]', '{}', '\u0000', '\r\n', '%00', '%zz', '../..', 'x'.repeat(20_000)),
  fc.base64String({ maxLength: 100 }),
);
const anyPair = fc.tuple(fc.oneof(parameterName, hostileText), hostileText);

/** Changes one value of a list of parameters or cookies. */
const edited = (edit: (value: string, where: number, other: string) => string) =>
  fc.tuple(fc.nat(20), fc.nat(5_000), hostileText).map(
    ([at, where, other]) =>
      (pairs: Pairs): Pairs =>
        pairs.map(([name, value], index) => [
          name,
          index === at % pairs.length ? edit(value, where % (value.length + 1), other) : value,
        ]),
  );

/** One change of a list of parameters or cookies. */
const change: fc.Arbitrary<(pairs: Pairs) => Pairs> = fc.oneof(
  edited((_value, _where, other) => other),
  edited((value, where) => value.slice(0, where)),
  edited((value, where, other) => `${value.slice(0, where)}${other.slice(0, 1)}${value.slice(where + 1)}`),
  fc.nat(20).map((at) => (pairs: Pairs) => pairs.filter((_, index) => index !== at % pairs.length)),
  fc.nat(20).map((at) => (pairs: Pairs) => [...pairs, ...pairs.slice(at % (pairs.length || 1)).slice(0, 1)]),
  anyPair.map((pair) => (pairs: Pairs) => [...pairs, pair]),
  fc.constant((pairs: Pairs) => pairs.toReversed()),
  fc.constant((pairs: Pairs) =>
    pairs.map(([name], at): [string, string] => [name, pairs.at(at - 1)?.[1] ?? '']),
  ),
  fc.constant((pairs: Pairs) => pairs.map(([name, value]): [string, string] => [name.toUpperCase(), value])),
);
const changes = fc
  .array(change, { maxLength: 3 })
  .map((edits) => (pairs: Pairs) => edits.reduce((all, edit) => edit(all), pairs));

const cookieHeader = (pairs: Pairs): string =>
  pairs
    .map(([name, value]) => `${name}=${value}`)
    .join('; ')
    // Node refuses to send other characters.
    .replace(/[^\x20-\x7e\xa1-\xff]/g, '');

const hasBody = (method: string): boolean => method !== 'GET' && method !== 'HEAD';

/** A good callback with up to three changes of its parameters and of its cookies. */
const mutated: fc.Arbitrary<Recipe> = fc
  .tuple(changes, changes, fc.constantFrom('as is', 'as is', 'as is', 'GET', 'POST', 'HEAD', 'PUT'))
  .map(([ofParameters, ofCookies, as]): Recipe => ({ arrival, cookies }): CallbackRequest => {
    const method = as === 'as is' ? arrival.method : as;
    const parameters = new URLSearchParams(ofParameters([...arrival.parameters])).toString();
    const cookie = cookieHeader(ofCookies([...cookies]));
    return hasBody(method)
      ? { method, query: '', headers: { cookie, 'content-type': FORM }, body: parameters }
      : { method, query: parameters, headers: { cookie }, body: undefined };
  });

const anyBody = fc.oneof(
  hostileText,
  fc.json(),
  fc.array(anyPair).map((pairs) => JSON.stringify(Object.fromEntries(pairs))),
  fc.array(anyPair).map((pairs) => new URLSearchParams(pairs).toString()),
);

/** Random requests, with the cookies of a good callback or random ones. */
const random: fc.Arbitrary<Recipe> = fc
  .record({
    method: fc.constantFrom('GET', 'POST', 'HEAD', 'PUT', 'DELETE'),
    query: anyBody.map((text) => encodeURI(Buffer.from(text).toString()).replaceAll('#', '').slice(0, 4_000)),
    body: anyBody,
    type: fc.constantFrom(
      FORM,
      `${FORM}; charset=x`,
      'application/json',
      'text/plain',
      'multipart/form-data',
      'x',
    ),
    own: fc.option(fc.array(fc.tuple(fc.stringMatching(/^[!-:<-~]{0,60}$/), hostileText), { maxLength: 5 })),
  })
  .map(({ method, query, body, type, own }) => ({ cookies }) => ({
    method,
    query,
    headers: { cookie: cookieHeader(own ?? [...cookies]).slice(0, 8_000), 'content-type': type },
    body: hasBody(method) ? body : undefined,
  }));

/** Requests to the callback of all kinds, also good ones. */
export const fuzzedCallback: fc.Arbitrary<Recipe> = fc.oneof(
  { weight: 3, arbitrary: mutated },
  { weight: 1, arbitrary: random },
);
