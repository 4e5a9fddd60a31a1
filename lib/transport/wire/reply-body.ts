import { isUtf8 } from 'node:buffer';
import { promisify } from 'node:util';
import { brotliDecompress, gunzip, inflate, inflateRaw } from 'node:zlib';
import { beyondJsonLimits } from './json-limits.js';

const inflateBuffer = promisify(inflate);
const inflateRawBuffer = promisify(inflateRaw);

const unpackers = {
  gzip: promisify(gunzip),
  'x-gzip': promisify(gunzip),
  br: promisify(brotliDecompress),
  // RFC 9110 §8.4.1.2 defines deflate as zlib, but some servers send raw deflate. The low nibble of a zlib header is 8.
  deflate: (data: Buffer, options: { maxOutputLength: number }): Promise<Buffer> =>
    ((data[0] ?? 0) & 0x0f) === 8 ? inflateBuffer(data, options) : inflateRawBuffer(data, options),
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

export const TOO_LARGE = 'it is too large';

function isKnownEncoding(name: string): name is keyof typeof unpackers {
  return Object.hasOwn(unpackers, name);
}

/** True for `application/json` and every `+json` type, RFC 6839 §3.1. */
export function isJsonType(contentType: string | undefined): boolean {
  return contentType !== undefined && /^\s*application\/(?:[\w.!#$&^-]+\+)?json\s*(?:;|$)/i.test(contentType);
}

/** True for `application/jwt`, RFC 7519 §10.3.1. */
export function isJwtType(contentType: string | undefined): boolean {
  return contentType?.split(';')[0]?.trim().toLowerCase() === 'application/jwt';
}

/** Values of a reply that are always accepted, and bytes of the largest accepted reply for each further one. */
const MOST_VALUES = 100_000;
const BYTES_PER_VALUE = 64;

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
  const problem = beyondJsonLimits(data, Math.max(MOST_VALUES, limit / BYTES_PER_VALUE));
  if (problem !== undefined) {
    return new UnreadableBody(problem);
  }
  const hasMark = data[0] === 0xef && data[1] === 0xbb && data[2] === 0xbf;
  try {
    return JSON.parse(data.toString('utf8', hasMark ? 3 : 0));
  } catch {
    return new UnreadableBody('it is not JSON');
  }
}
