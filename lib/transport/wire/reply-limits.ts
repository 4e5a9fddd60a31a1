import type { Operation } from '../transport-request.interface.js';

export const TOO_LARGE = 'it is too large';

/** Largest token, userinfo, metadata or key reply in bytes. */
const LARGEST_SMALL_REPLY = 256 * 1024;

const BULK: ReadonlySet<Operation> = new Set<Operation>(['list', 'lookup']);

/** Largest accepted reply in bytes, compressed and decompressed. */
export function replyLimit(operation: Operation, maxResponseBytes: number): number {
  return BULK.has(operation) ? maxResponseBytes : Math.min(LARGEST_SMALL_REPLY, maxResponseBytes);
}

/** Bytes of a 4xx or 5xx body that are read; the rest is not needed to explain the refusal. */
export const LARGEST_REFUSAL = 64 * 1024;

/** Bytes from which a body counts as large: it takes about a millisecond to parse. */
export const LARGE_BODY = 128 * 1024;

/** Interim responses (1xx) before a response. Each takes as long to read as a response. */
export const MOST_INTERIM = 16;

/** Values of a reply that are always accepted, and bytes of the largest accepted reply for each further one. */
const MOST_VALUES = 100_000;
const BYTES_PER_VALUE = 64;

/** Values and names that are accepted where a reply may have `limit` bytes. */
export function mostValues(limit: number): number {
  return Math.max(MOST_VALUES, limit / BYTES_PER_VALUE);
}

const QUOTE = 0x22;
const COMMA = 0x2c;
const COLON = 0x3a;
const BACKSLASH = 0x5c;
const OPEN_BRACKET = 0x5b;
const OPEN_BRACE = 0x7b;

/** Deepest nesting of a reply: everything that works on parsed JSON may recurse. */
const DEEPEST = 100;

/**
 * True where a JSON text must not be parsed. `JSON.parse` cannot be interrupted, and its time and memory depend on the number
 * of values: 5 MiB of `{}` take a hundred times as long as 5 MiB of text, and 20 times their size.
 *
 * @param most values and names that are accepted
 */
export function hasTooManyValues(data: Buffer, most: number): boolean {
  // Each takes a byte at least, so that most replies need not be read.
  if (data.length <= most) {
    return false;
  }
  let values = 0;
  let texts = 0;
  for (let at = 0; at < data.length; at += 1) {
    switch (data[at]) {
      case QUOTE:
        texts += 1;
        at = endOfText(data, at);
        break;
      // Each begins or follows a value or a name.
      case OPEN_BRACKET:
      case OPEN_BRACE:
      case COMMA:
      case COLON:
        values += 1;
        break;
    }
    // JSON has a separator between any two texts.
    if (values > most || texts > most + 1) {
      return true;
    }
  }
  return false;
}

/** True where parsed JSON has more than {@link DEEPEST} levels of objects and arrays. `JSON.parse` itself does not recurse. */
export function isNestedTooDeep(json: unknown): boolean {
  return isContainer(json) && isDeeper(json, DEEPEST);
}

/** Not by `Object.values`, whose arrays take four times the time. */
function isDeeper(json: Container, levels: number): boolean {
  if (levels === 0) {
    return true;
  }
  if (Array.isArray(json)) {
    for (const member of json) {
      if (isContainer(member) && isDeeper(member, levels - 1)) {
        return true;
      }
    }
    return false;
  }
  for (const name in json) {
    const member = json[name];
    if (isContainer(member) && isDeeper(member, levels - 1)) {
      return true;
    }
  }
  return false;
}

type Container = unknown[] | Readonly<Record<string, unknown>>;

function isContainer(json: unknown): json is Container {
  return typeof json === 'object' && json !== null;
}

/** Index of the quote that ends the text which begins at `start`; the end of the data where there is none. */
function endOfText(data: Buffer, start: number): number {
  for (let from = start + 1; ;) {
    const quote = data.indexOf(QUOTE, from);
    if (quote === -1) {
      return data.length;
    }
    let first = quote;
    while (first > from && data[first - 1] === BACKSLASH) {
      first -= 1;
    }
    const isEscaped = (quote - first) % 2 === 1;
    if (!isEscaped) {
      return quote;
    }
    from = quote + 1;
  }
}
