import { isRecord } from '../../model/json-values.js';
import { parseUrl } from '../../model/urls.js';

/** What JSON values look like. No value is in it. */

export type Kind = 'null' | 'boolean' | 'number' | 'infinity' | 'text' | 'list' | 'object';

/** The forms of a text. What is one here is one for zod. */
export type Format = 'date-time' | 'date' | 'uuid' | 'url' | 'email';

/** Of the values at one place of all records. */
export interface Shape {
  readonly kinds: readonly Kind[];
  /** Number of values. */
  readonly seen: number;
  /** Those that all texts have. */
  readonly formats: readonly Format[];
  /** A value, or a name of a member, holds an e-mail address. */
  readonly holdsAddresses: boolean;
  /** All are texts or whole numbers, and no two are equal. */
  readonly areDistinct: boolean;
  /** Of what the lists hold. */
  readonly items?: Shape | undefined;
  /** Number of objects. */
  readonly objects: number;
  /** Of objects. */
  readonly members?: ReadonlyMap<string, Shape> | undefined;
  /** Of objects whose names are values: of all their members. */
  readonly entries?: Shape | undefined;
}

/** More different names than this are values, such as ids. */
const MOST_NAMES = 50;
const ADDRESS = /[\p{L}\p{N}!#$%&'*+=?^_`{|}~."-](?:[@＠]|%(?:25)*40)[\p{L}\p{N}[]/u;
const NAME_WITH_ADDRESS = /[@＠]|%(?:25)*40/;
/** Longer texts, in characters, are no id, label or format. */
const isShort = (text: string): boolean => text.length <= 256;

const DATE_TIME =
  /^\d{4}-\d\d-\d\dT(?:[01]\d|2[0-3]):[0-5]\d:[0-5]\d(?:\.\d+)?(?:Z|[+-](?:[01]\d|2[0-3]):[0-5]\d)?$/;
const UUID = /^[\da-f]{8}-[\da-f]{4}-[1-8][\da-f]{3}-[89ab][\da-f]{3}-[\da-f]{12}$/i;
const EMAIL = /^[\w'+-]+(?:\.[\w'+-]+)*(?<!')@(?:[a-z\d][a-z\d-]*\.)+[a-z]{2,}$/i;

/** Each accepts no more than zod. */
const FORMATS: readonly (readonly [Format, accepts: (text: string) => boolean])[] = [
  ['date-time', (text) => DATE_TIME.test(text) && isDay(text.slice(0, 10))],
  ['date', (text) => /^\d{4}-\d\d-\d\d$/.test(text) && isDay(text)],
  ['uuid', (text) => UUID.test(text)],
  ['url', (text) => isShort(text) && /^https?:\/\/\S+$/.test(text) && parseUrl(text) !== undefined],
  ['email', (text) => isShort(text) && EMAIL.test(text)],
];

/** `Date` takes February 30 for March 2. */
function isDay(text: string): boolean {
  const date = new Date(`${text}T00:00:00Z`);
  return !Number.isNaN(date.getTime()) && date.toJSON().startsWith(text);
}

/** What these values look like, such as all records that were read. */
export function shapeOf(values: readonly unknown[]): Shape {
  const texts = values.filter((value) => typeof value === 'string');
  const lists = values.filter((value) => Array.isArray(value));
  const objects = values.filter(isRecord);
  const names = [...new Set(objects.flatMap((one) => Object.keys(one)))];
  const areAddresses = names.some((name) => NAME_WITH_ADDRESS.test(name));
  const areValues = areAddresses || names.length > MOST_NAMES;
  const ids = values.map(idOf);
  const membersOf = (name: string): Shape =>
    shapeOf(objects.filter((one) => Object.hasOwn(one, name)).map((one) => one[name]));
  return {
    kinds: [...new Set(values.map(kindOf))],
    seen: values.length,
    formats: FORMATS.filter(([, accepts]) => texts.every(accepts)).map(([format]) => format),
    holdsAddresses: areAddresses || texts.some((text) => ADDRESS.test(text)),
    areDistinct: !ids.includes(undefined) && new Set(ids).size === ids.length,
    items: lists.length > 0 ? shapeOf(lists.flat()) : undefined,
    objects: objects.length,
    members: areValues ? undefined : new Map(names.map((name) => [name, membersOf(name)])),
    entries: areValues ? shapeOf(objects.flatMap((one) => Object.values(one))) : undefined,
  };
}

function kindOf(value: unknown): Kind {
  if (typeof value === 'string') {
    return 'text';
  }
  if (typeof value === 'number') {
    // JSON.parse makes it of 1e999.
    return Number.isFinite(value) ? 'number' : 'infinity';
  }
  if (Array.isArray(value)) {
    return 'list';
  }
  if (isRecord(value)) {
    return 'object';
  }
  return value === null ? 'null' : 'boolean';
}

/** What may identify a record. */
function idOf(value: unknown): string | undefined {
  if (typeof value === 'string') {
    return value.trim() !== '' && isShort(value) ? value : undefined;
  }
  return Number.isSafeInteger(value) ? String(value) : undefined;
}
