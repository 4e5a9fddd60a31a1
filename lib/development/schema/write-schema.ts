import type { Format, Kind, Shape } from './shape.js';

/** How the parts of a schema are written. */
interface Language {
  /** Of a kind of value or a format of texts. Formats without a word are named in a comment. */
  readonly words: Readonly<Partial<Record<Kind | Format, string>> & Record<'text' | 'unknown', string>>;
  list(item: string): string;
  dictionary(value: string): string;
  object(members: string): string;
  nullable(type: string): string;
  member(name: string, type: string, isOptional: boolean): string;
  file(type: string): string;
}

const ZOD: Language = {
  words: {
    text: 'z.string()',
    number: 'z.number()',
    boolean: 'z.boolean()',
    unknown: 'z.unknown()',
    'date-time': 'z.iso.datetime({ offset: true, local: true })',
    date: 'z.iso.date()',
    uuid: 'z.uuid()',
    url: 'z.url()',
    email: 'z.email()',
  },
  list: (item) => `z.array(${item})`,
  dictionary: (value) => `z.record(z.string(), ${value})`,
  object: (members) => `z.object(${members})`,
  nullable: (type) => `${type}.nullable()`,
  member: (name, type, isOptional) => `${name}: ${type}${isOptional ? '.optional()' : ''},`,
  file: (type) => `import { z } from 'zod';

export const exhibitorSchema = ${type};

export type Exhibitor = z.infer<typeof exhibitorSchema>;`,
};

const TYPESCRIPT: Language = {
  words: { text: 'string', number: 'number', boolean: 'boolean', unknown: 'unknown' },
  list: (item) => `Array<${item}>`,
  dictionary: (value) => `Record<string, ${value}>`,
  object: (members) => members,
  nullable: (type) => `${type} | null`,
  member: (name, type, isOptional) => `${name}${isOptional ? '?' : ''}: ${type};`,
  file: (type) => `export type Exhibitor = ${type};`,
};

/** By their names in the command line. */
export const LANGUAGES: ReadonlyMap<string, Language> = new Map([
  ['zod', ZOD],
  ['typescript', TYPESCRIPT],
]);

/** Of objects, lists and dictionaries in each other. For the types of deeper ones the compiler gives up. */
const DEEPEST = 10;
const ADDRESSES = 'holds addresses: leave it out of pages';
const UNPRINTABLE = /[\p{C}\p{Zl}\p{Zp}]/gu;

/** The code for a shape, and what is to be said of it. */
interface Code {
  readonly text: string;
  readonly notes: readonly string[];
}

/**
 * The code of a file. No value of a record is in it.
 *
 * @param record the shape of all records
 * @param source which records these are
 */
export function writeSchema(record: Shape, language: Language, source: string): string {
  const { text, notes } = codeOf(record, language, 0);
  const unique = uniqueMembers(record, record.seen).join(', ') || 'none';
  const comments = [
    `Written by nestjs-exhibitor schema from ${source}. Others may differ: loosen what they do not fit.`,
    `Unique in all of them, candidates for exhibitorId and exhibitorLabel: ${unique}`,
    ...notes,
  ];
  return [...comments.map((line) => `// ${line}`), language.file(text)].join('\n');
}

function codeOf(shape: Shape, language: Language, depth: number): Code {
  const kinds = shape.kinds.filter((kind) => kind !== 'null');
  if (kinds.length > 1 || depth > DEEPEST) {
    const note = depth > DEEPEST ? 'nested deeply' : `mixed: ${kinds.join(', ')}`;
    return { text: language.words.unknown, notes: holdsAddresses(shape) ? [note, ADDRESSES] : [note] };
  }
  const { text, notes } = plainCodeOf(kinds[0], shape, language, depth);
  const isNullable = shape.kinds.includes('null') && text !== language.words.unknown;
  const all = new Set(shape.holdsAddresses ? [...notes, ADDRESSES] : notes);
  return { text: isNullable ? language.nullable(text) : text, notes: [...all] };
}

function plainCodeOf(kind: Kind | undefined, shape: Shape, language: Language, depth: number): Code {
  const { words, list, dictionary } = language;
  const { formats: [format] = [], items, members, entries } = shape;
  switch (kind) {
    case undefined:
      return { text: words.unknown, notes: ['always null'] };
    case 'text': {
      const text = format && words[format];
      return { text: text ?? words.text, notes: format === undefined || text ? [] : [format] };
    }
    case 'list':
      return manyOf(items, language, depth, list);
    case 'object':
      return members?.size
        ? objectOf(members, shape.objects, language, depth)
        : manyOf(entries, language, depth, dictionary);
    default:
      return { text: words[kind] ?? words.unknown, notes: [] };
  }
}

function manyOf(
  each: Shape | undefined,
  language: Language,
  depth: number,
  write: (type: string) => string,
): Code {
  if (each === undefined || each.seen === 0) {
    return { text: write(language.words.unknown), notes: ['always empty'] };
  }
  const { text, notes } = codeOf(each, language, depth + 1);
  return { text: write(text), notes };
}

/** A member has one line or more. Its notes are in the first. */
function objectOf(
  members: ReadonlyMap<string, Shape>,
  objects: number,
  language: Language,
  depth: number,
): Code {
  const lines = [...members].flatMap(([name, member]) => {
    const { text, notes } = codeOf(member, language, depth + 1);
    // zod and TypeScript take what an object inherits for its member.
    if (name in {}) {
      return [`// ${[`${name}: left out, since all objects inherit one`, ...notes].join('; ')}`];
    }
    const comment = notes.length > 0 ? ` // ${notes.join('; ')}` : '';
    const [first = '', ...rest] = language.member(shown(name), text, member.seen < objects).split('\n');
    return [`${first}${comment}`, ...rest];
  });
  return { text: language.object(['{', ...lines.map((line) => `  ${line}`), '}'].join('\n')), notes: [] };
}

/** A name as code and comments show it. */
function shown(name: string): string {
  const escaped = (text: string): string =>
    text.replace(/[^]/g, (unit) => `\\u${unit.charCodeAt(0).toString(16).padStart(4, '0')}`);
  return /^[a-z_$][\w$]*$/i.test(name) ? name : JSON.stringify(name).replace(UNPRINTABLE, escaped);
}

function holdsAddresses({ holdsAddresses: own, items, entries, members }: Shape): boolean {
  const inner = [items, entries, ...(members?.values() ?? [])];
  return own || inner.some((shape) => shape !== undefined && holdsAddresses(shape));
}

/** Paths of members, also of objects in the record, that are in all records and differ in each. An address identifies a person. */
function uniqueMembers({ members }: Shape, records: number): string[] {
  return [...(members ?? [])].flatMap(([name, member]) => {
    const inner = uniqueMembers(member, records).map((path) => `${shown(name)}.${path}`);
    const isUnique = records > 1 && member.seen === records && member.areDistinct && !member.holdsAddresses;
    return isUnique ? [shown(name), ...inner] : inner;
  });
}
