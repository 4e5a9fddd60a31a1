import { isRecord } from '../../model/json-values.js';
import { parseUrl } from '../../model/parse-url.js';

/** What JSON values look like. Of the values themselves only those are kept that may identify a record, and none is shown. */

export type Kind = 'null' | 'boolean' | 'number' | 'infinity' | 'text' | 'list' | 'object';

/** The forms of a text. What is one here is one for zod. */
export type Format = 'date-time' | 'date' | 'uuid' | 'url' | 'email';

export interface Shape {
  readonly kinds: readonly Kind[];
  /** Number of values. */
  readonly seen: number;
  /** Those that all texts have. */
  readonly formats?: readonly Format[] | undefined;
  /** A value, or a name of a member, holds an e-mail address. */
  readonly holdsAddresses: boolean;
  /** Texts and whole numbers, while no two are equal. */
  readonly distinct?: Set<string> | undefined;
  /** Of lists. */
  readonly items?: Shape | undefined;
  /** Number of objects. */
  readonly objects: number;
  /** Of objects. */
  readonly members?: ReadonlyMap<string, Shape> | undefined;
  /** Of objects whose names are values: of their members. */
  readonly entries?: Shape | undefined;
}

/** More different names than this are values, such as ids. */
const MOST_NAMES = 50;
const ADDRESS = /[\p{L}\p{N}!#$%&'*+=?^_`{|}~."-](?:[@＠]|%(?:25)*40)[\p{L}\p{N}[]/u;
const NAME_WITH_ADDRESS = /[@＠]|%(?:25)*40/;
/** Longer texts are no id, label or format. */
const LONGEST = 256;

const DATE_TIME =
  /^\d{4}-\d\d-\d\dT(?:[01]\d|2[0-3]):[0-5]\d:[0-5]\d(?:\.\d+)?(?:Z|[+-](?:[01]\d|2[0-3]):[0-5]\d)?$/;
const UUID = /^[\da-f]{8}-[\da-f]{4}-[1-8][\da-f]{3}-[89ab][\da-f]{3}-[\da-f]{12}$/i;
const EMAIL = /^[\w'+-]+(?:\.[\w'+-]+)*(?<!')@(?:[a-z\d][a-z\d-]*\.)+[a-z]{2,}$/i;

/** Each accepts no more than zod. */
const FORMATS: Record<Format, (text: string) => boolean> = {
  'date-time': (text) => DATE_TIME.test(text) && isDay(text.slice(0, 10)),
  date: (text) => /^\d{4}-\d\d-\d\d$/.test(text) && isDay(text),
  uuid: (text) => UUID.test(text),
  url: (text) => /^https?:\/\/\S+$/.test(text) && parseUrl(text) !== undefined,
  email: (text) => EMAIL.test(text),
};

/** `Date` takes February 30 for March 2. */
function isDay(text: string): boolean {
  const date = new Date(`${text}T00:00:00Z`);
  return !Number.isNaN(date.getTime()) && date.toJSON().startsWith(text);
}

function formatsOf(text: string): Format[] {
  return Object.entries(FORMATS).flatMap(([format, accepts]) => (accepts(text) ? [format as Format] : []));
}

/** The shape of no value. */
export const NOTHING: Shape = { kinds: [], seen: 0, objects: 0, holdsAddresses: false };
const ONE: Shape = { ...NOTHING, seen: 1 };

export function shapeOf(value: unknown): Shape {
  if (typeof value === 'string') {
    const isShort = value.length <= LONGEST;
    const formats = isShort ? formatsOf(value) : [];
    const distinct = isShort && value.trim() !== '' ? new Set([value]) : undefined;
    return { kinds: ['text'], formats, distinct, objects: 0, seen: 1, holdsAddresses: ADDRESS.test(value) };
  }
  if (typeof value === 'number') {
    const distinct = Number.isSafeInteger(value) ? new Set([String(value)]) : undefined;
    // JSON.parse makes it of 1e999.
    return { ...ONE, kinds: [Number.isFinite(value) ? 'number' : 'infinity'], distinct };
  }
  if (Array.isArray(value)) {
    return { ...ONE, kinds: ['list'], items: value.map(shapeOf).reduce(merge, NOTHING) };
  }
  if (isRecord(value)) {
    const members = new Map(Object.entries(value).map(([name, member]) => [name, shapeOf(member)]));
    return { ...ONE, kinds: ['object'], objects: 1, ...namedBy(members, NOTHING, false) };
  }
  return { ...ONE, kinds: [value === null ? 'null' : 'boolean'] };
}

/** The shape of the values of both. The first must not be used any more. */
export function merge(one: Shape, other: Shape): Shape {
  if (one.seen === 0 || other.seen === 0) {
    return one.seen === 0 ? other : one;
  }
  const { formats = other.formats } = one;
  const merged: Shape = {
    kinds: [...one.kinds, ...other.kinds.filter((kind) => !one.kinds.includes(kind))],
    seen: one.seen + other.seen,
    formats: formats?.filter((format) => other.formats?.includes(format) ?? true),
    holdsAddresses: one.holdsAddresses || other.holdsAddresses,
    distinct: distinctOf(one.distinct, other.distinct),
    items: merge(one.items ?? NOTHING, other.items ?? NOTHING),
    objects: one.objects + other.objects,
  };
  if (merged.objects === 0) {
    return merged;
  }
  const members = new Map(one.members);
  for (const [name, shape] of other.members ?? []) {
    members.set(name, merge(members.get(name) ?? NOTHING, shape));
  }
  const entries = merge(one.entries ?? NOTHING, other.entries ?? NOTHING);
  return { ...merged, ...namedBy(members, entries, merged.holdsAddresses) };
}

/** The part of a shape that depends on the names of members: they are kept unless they are values. */
function namedBy(
  members: ReadonlyMap<string, Shape>,
  entries: Shape,
  isAddressed: boolean,
): Pick<Shape, 'members' | 'entries' | 'holdsAddresses'> {
  const names = [...members.keys()];
  const areAddresses = names.some((name) => NAME_WITH_ADDRESS.test(name));
  const holdsAddresses = isAddressed || areAddresses;
  return entries.seen === 0 && names.length <= MOST_NAMES && !areAddresses
    ? { members, holdsAddresses }
    : { entries: [...members.values()].reduce(merge, entries), holdsAddresses };
}

/** Adds to the first. */
function distinctOf(
  all: Set<string> | undefined,
  more: ReadonlySet<string> | undefined,
): Set<string> | undefined {
  if (all === undefined || more === undefined || [...more].some((value) => all.has(value))) {
    return undefined;
  }
  more.forEach((value) => all.add(value));
  return all;
}
