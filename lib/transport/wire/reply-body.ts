import { isAscii, isUtf8 } from 'node:buffer';
import { promisify } from 'node:util';
import { gunzip, inflate } from 'node:zlib';

const unpackers = {
  gzip: promisify(gunzip),
  'x-gzip': promisify(gunzip),
  deflate: promisify(inflate),
};

export const ACCEPTED_ENCODINGS = 'gzip, deflate';

export const TOO_LARGE = 'it is too large';

/** Deepest nesting of a reply: everything that works on parsed JSON may recurse. `JSON.parse` itself does not. */
const DEEPEST = 100;

export class UnreadableBody {
  constructor(readonly why: string) {}
}

/** The decompressed body. Decompression stops beyond `limit` bytes. */
export async function unpack(
  data: Buffer | UnreadableBody,
  encoding: string | undefined,
  limit: number,
): Promise<Buffer | UnreadableBody> {
  const name = encoding?.trim().toLowerCase() ?? 'identity';
  if (data instanceof UnreadableBody || data.length === 0 || name === 'identity') {
    return data;
  }
  if (!isKnownEncoding(name)) {
    return new UnreadableBody('its content encoding is unknown');
  }
  try {
    return await unpackers[name](data, { maxOutputLength: limit });
  } catch (error) {
    return new UnreadableBody(error instanceof RangeError ? TOO_LARGE : 'its compressed body is broken');
  }
}

function isKnownEncoding(name: string): name is keyof typeof unpackers {
  return Object.hasOwn(unpackers, name);
}

/** True for `application/json` and every `+json` type, RFC 6839 §3.1. */
export function isJsonType(contentType: string | undefined): boolean {
  return contentType !== undefined && /^\s*application\/(?:[\w.!#$&^-]+\+)?json\s*(?:;|$)/i.test(contentType);
}

/** The body of a complete reply: parsed JSON, nothing on 204. A refusal of any type may be JSON that explains it. */
export function parseBody(
  data: Buffer | UnreadableBody,
  status: number,
  contentType: string | undefined,
): unknown {
  if (status === 204) {
    return undefined;
  }
  if (data instanceof UnreadableBody) {
    return data;
  }
  return status >= 400 || isJsonType(contentType)
    ? parseJson(data)
    : new UnreadableBody('its content type is not JSON');
}

/** Parsed JSON in UTF-8 (RFC 8259 §8.1). A byte order mark is ignored. */
export function parseJson(data: Buffer): unknown {
  if (data.length === 0) {
    return new UnreadableBody('it is empty');
  }
  if (!isUtf8(data)) {
    return new UnreadableBody('it is not UTF-8');
  }
  const hasMark = data[0] === 0xef && data[1] === 0xbb && data[2] === 0xbf;
  try {
    // ASCII is read as Latin-1 in half of the time. Node has no text of more than 512 MiB.
    const text = isAscii(data) ? data.toString('latin1') : data.toString('utf8', hasMark ? 3 : 0);
    const body: unknown = JSON.parse(text);
    return isDeeper(body, DEEPEST) ? new UnreadableBody('it is nested too deeply') : body;
  } catch {
    return new UnreadableBody('it is not JSON');
  }
}

/** True where parsed JSON has more levels of objects and arrays. Not by `Object.values`, which takes a fifth of the time of a page. */
function isDeeper(json: unknown, levels: number): boolean {
  if (!isContainer(json)) {
    return false;
  }
  if (levels === 0) {
    return true;
  }
  if (Array.isArray(json)) {
    return json.some((member) => isDeeper(member, levels - 1));
  }
  for (const name in json) {
    if (isDeeper(json[name], levels - 1)) {
      return true;
    }
  }
  return false;
}

function isContainer(json: unknown): json is Readonly<Record<string, unknown>> {
  return typeof json === 'object' && json !== null;
}
