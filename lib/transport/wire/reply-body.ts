import { isUtf8 } from 'node:buffer';
import { promisify } from 'node:util';
import { brotliDecompress, gunzip, inflate } from 'node:zlib';
import { hasTooManyValues, isNestedTooDeep, mostValues, TOO_LARGE } from './reply-limits.js';

const unpackers = {
  gzip: promisify(gunzip),
  'x-gzip': promisify(gunzip),
  br: promisify(brotliDecompress),
  deflate: promisify(inflate),
};

/** Value of `Accept-Encoding`. */
export const ACCEPTED_ENCODINGS = 'gzip, deflate, br';

/** Reason why a complete body cannot be used. */
export class UnreadableBody {
  constructor(readonly why: string) {}
}

/** The decompressed body. Decompression stops beyond `limit` bytes. */
export async function unpack(
  data: Buffer,
  encoding: string,
  limit: number,
): Promise<Buffer | UnreadableBody> {
  const name = encoding.trim().toLowerCase();
  if (!isKnownEncoding(name)) {
    return new UnreadableBody('its content encoding is unknown');
  }
  try {
    return await unpackers[name](data, { maxOutputLength: limit });
  } catch (error) {
    const tooLarge = error instanceof RangeError;
    return new UnreadableBody(tooLarge ? TOO_LARGE : 'its compressed body is broken');
  }
}

function isKnownEncoding(name: string): name is keyof typeof unpackers {
  return Object.hasOwn(unpackers, name);
}

/** True for `application/json` and every `+json` type, RFC 6839 §3.1. */
export function isJsonType(contentType: string | undefined): boolean {
  return contentType !== undefined && /^\s*application\/(?:[\w.!#$&^-]+\+)?json\s*(?:;|$)/i.test(contentType);
}

/** True for `application/jwt`, RFC 7519 §10.3.1. */
export function isJwtType(contentType: string | undefined): boolean {
  return contentType?.split(';', 1)[0]?.trim().toLowerCase() === 'application/jwt';
}

/**
 * Parsed JSON in UTF-8 (RFC 8259 §8.1). A byte order mark is ignored.
 *
 * @param limit largest accepted reply in bytes, by which the number of values is limited
 */
export function parseJson(data: Buffer, limit: number): unknown {
  if (data.length === 0) {
    return new UnreadableBody('it is empty');
  }
  if (!isUtf8(data)) {
    return new UnreadableBody('it is not UTF-8');
  }
  if (hasTooManyValues(data, mostValues(limit))) {
    return new UnreadableBody('it has too many values');
  }
  const hasMark = data[0] === 0xef && data[1] === 0xbb && data[2] === 0xbf;
  try {
    const body: unknown = JSON.parse(data.toString('utf8', hasMark ? 3 : 0));
    return isNestedTooDeep(body) ? new UnreadableBody('it is nested too deeply') : body;
  } catch {
    return new UnreadableBody('it is not JSON');
  }
}
