import * as v from 'valibot';
import { OPERATIONS } from './route.js';
import { defaultSeed, seedExhibitors, type SandboxSeed } from './seed.js';

const text = v.string();
const maybe = v.optional(text);
const texts = v.array(text);
const whole = v.pipe(v.number(), v.integer('must be a whole number'), v.minValue(0));
const status = v.pipe(whole, v.minValue(200), v.maxValue(599));

/** A name by which `exhibitors` of the seed has something. Valibot leaves out these three. */
const name = v.pipe(
  text,
  v.check((value) => !['__proto__', 'prototype', 'constructor'].includes(value), 'must be another name'),
);

const tenant = v.strictObject({
  key: name,
  ...v.entriesFromList(['name', 'tenantId', 'clientId', 'clientSecret'], text),
  ...v.entriesFromList(['loginClientId', 'loginClientSecret', 'publicLoginClientId'], text),
  ...v.entriesFromList(['redirectUris', 'postLogoutRedirectUris'], v.optional(texts)),
  backChannelLogoutUri: maybe,
});
const person = v.strictObject({
  sub: text,
  name: text,
  email: maybe,
  emailVerified: v.optional(v.union([v.boolean(), v.picklist(['true', 'false'])])),
  emailOnlyInUserinfo: v.optional(v.boolean()),
});
const exhibitor = v.looseObject({ id: text, contactEmails: texts });

const seedFile = v.strictObject({
  tenants: v.exactOptional(v.pipe(v.array(tenant), v.minLength(1))),
  events: v.exactOptional(v.array(v.strictObject({ id: name, title: text }))),
  people: v.exactOptional(v.array(person)),
  exhibitors: v.exactOptional(v.record(text, v.record(text, v.array(exhibitor)))),
});

const operation = v.picklist(OPERATIONS);
const optionalStatus = v.optional(status);
const headers = v.optional(v.record(text, text));
const fault = v.variant('kind', [
  v.strictObject({ kind: v.literal('status'), status, headers, body: maybe }),
  v.strictObject({ kind: v.literal('body'), body: text, contentType: maybe, status: optionalStatus }),
  v.strictObject({ kind: v.literal('redirect'), location: text, status: optionalStatus }),
  v.strictObject({ kind: v.literal('delay'), ms: whole }),
  v.strictObject({ kind: v.literal('drip'), msPerByte: whole }),
  v.strictObject({ kind: v.literal('stall'), at: v.picklist(['before-headers', 'mid-body']) }),
  v.strictObject({ kind: v.literal('reset'), at: v.picklist(['before-headers', 'mid-headers', 'mid-body']) }),
  v.strictObject({ kind: v.picklist(['largeBody', 'gzipBomb']), bytes: whole }),
  v.strictObject({ kind: v.picklist(['truncate', 'closeIdle']) }),
]);
// `lazy` instead of `union`, whose error does not name the field inside.
const operations = v.lazy((input) => (Array.isArray(input) ? v.array(operation) : operation));
const match = v.strictObject({
  operation: v.optional(operations),
  tenant: maybe,
  grantType: maybe,
  probability: v.optional(v.pipe(v.number(), v.minValue(0), v.maxValue(1))),
});
const faultRequest = v.strictObject({
  match: v.lazy((input) => (typeof input === 'string' ? operation : match)),
  fault,
  times: v.optional(v.pipe(whole, v.minValue(1)), 1),
});

/** Problems that an error names. */
const MOST_PROBLEMS = 10;

/**
 * Parses a seed file. What it leaves out is that of the default seed; without `exhibitors` they are generated.
 *
 * @throws Error that names the file, each wrong field, and what is expected there.
 */
export function parseSeed(file: string, json: string): SandboxSeed {
  const { exhibitors, ...given } = parse(seedFile, json, file);
  const seed = { ...defaultSeed(), ...given };
  return { ...seed, exhibitors: exhibitors ?? seedExhibitors(seed.tenants, seed.events) };
}

/** Parses the arguments of `failNext` in JSON, with the same errors. */
export function parseFault(json: string) {
  return parse(faultRequest, json, 'the body');
}

function parse<Schema extends v.GenericSchema>(
  schema: Schema,
  json: string,
  source: string,
): v.InferOutput<Schema> {
  const parsed = v.safeParse(v.pipe(text, v.parseJson(undefined, 'must be JSON'), schema), json);
  if (parsed.success) {
    return parsed.output;
  }
  const problems = parsed.issues.map((issue) => `${v.getDotPath(issue) ?? 'it'} ${problemOf(issue)}`);
  const others = problems.splice(MOST_PROBLEMS).length;
  const lines = others > 0 ? [...problems, `and ${others} others`] : problems;
  throw new Error(`${source}: ${lines.join('\n  ')}`);
}

function problemOf({ type, expected, received, message }: v.BaseIssue<unknown>): string {
  if (type.endsWith('_object') && expected !== 'Object') {
    return expected === 'never' ? 'is not a field here' : 'is required';
  }
  return expected === null ? message : `must be ${expected}, not ${received}`;
}
