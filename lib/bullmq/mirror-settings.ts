import * as v from 'valibot';
import { ConfigurationError } from '../index.js';
import { milliseconds, problemsOf, text, whole } from '../options/value-schemas.js';
import type { MirrorLog } from '../problems/mirror-log.js';
import type { ExhibitorMirrorOptions, MirroredEvent } from './mirror-options.interface.js';

type Option<Name extends keyof ExhibitorMirrorOptions> = NonNullable<ExhibitorMirrorOptions[Name]>;

const SHARE = 'must be a number from 0 to 1';
const share = v.pipe(v.number(SHARE), v.minValue(0, SHARE), v.maxValue(1, SHARE));
const copies = whole(1, 10_000, 'copies');

const has = (value: unknown, name: PropertyKey): boolean =>
  typeof value !== 'string' && typeof Reflect.get(Object(value), name) === 'function';
const isEvents = (value: unknown): boolean =>
  typeof value === 'function' || has(value, Symbol.iterator) || has(value, Symbol.asyncIterator);
const isTarget = (value: unknown): boolean => ['begin', 'known', 'apply'].every((name) => has(value, name));
const isConnection = (value: unknown): boolean =>
  typeof value === 'object' && value !== null && !('keyPrefix' in value);
const CONNECTION = 'must be a connection of BullMQ, without keyPrefix';
const EVENTS = 'must be an (async) iterable of { tenant, eventId, every? }, or a function that answers one';
const removals = { rows: v.optional(whole(0, 1e9, 'rows'), 10), share: v.optional(share, 0.1) };
const mirrorSchema = v.strictObject(
  {
    events: v.custom<Option<'events'>>(isEvents, EVENTS),
    target: v.custom<Option<'target'>>(isTarget, 'must have the methods begin, known and apply'),
    connection: v.optional(v.custom<Option<'connection'>>(isConnection, CONNECTION)),
    prefix: v.optional(text),
    worker: v.optional(v.boolean('must be true or false'), true),
    every: v.optional(milliseconds, 900_000),
    jitter: v.optional(share, 0.2),
    concurrency: v.optional(copies, 4),
    perTenant: v.optional(copies, 2),
    batch: v.optional(whole(1, 10_000, 'rows'), 200),
    removals: v.optional(v.strictObject(removals, 'must be { rows, share }'), {}),
  },
  'must be an object of options',
);
const event = { tenant: text, eventId: text, every: v.optional(milliseconds) };
const eventSchema = v.object(event, 'must be { tenant, eventId, every? }');

export type MirrorSettings = v.InferOutput<typeof mirrorSchema>;

/** @throws {ConfigurationError} with every problem and its option path */
export function checkMirrorOptions(input: unknown): MirrorSettings {
  const parsed = v.safeParse(mirrorSchema, input);
  if (parsed.success) {
    return parsed.output;
  }
  throw new ConfigurationError(problemsOf(parsed.issues));
}

/** The events to copy, as the host lists them now. What is no event is reported and left out. */
export async function* listEvents({ events }: MirrorSettings, log: MirrorLog): AsyncGenerator<MirroredEvent> {
  for await (const listed of typeof events === 'function' ? await events() : events) {
    const parsed = v.safeParse(eventSchema, listed);
    if (parsed.success) {
      yield parsed.output;
    } else {
      log.wrongEvent(problemsOf(parsed.issues, 'events'));
    }
  }
}
