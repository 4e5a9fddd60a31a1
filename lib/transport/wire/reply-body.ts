import { isAscii, isUtf8 } from 'node:buffer';
import { createBrotliDecompress, createGunzip, createInflate } from 'node:zlib';
import { BodyBlocks } from './body-blocks.js';
import { hasTooManyValues, isNestedTooDeep, mostValues, TOO_LARGE } from './reply-limits.js';

const unpackers = {
  gzip: createGunzip,
  'x-gzip': createGunzip,
  br: createBrotliDecompress,
  deflate: createInflate,
};

export const ACCEPTED_ENCODINGS = 'gzip, deflate, br';

export interface ExpectedReply {
  /** See {@link TransportRequest}. */
  payer: string;
  /** Largest accepted reply in bytes, compressed and decompressed. */
  replyLimit: number;
  /** Accepts a JWT as well, whose text is then the body. */
  acceptsJwt?: boolean | undefined;
}

export class UnreadableBody {
  constructor(readonly why: string) {}
}

/**
 * The decompressed body. Decompression stops beyond `limit` bytes.
 *
 * @param hold is told of the bytes of each part, and answers false where the body is not needed any more
 */
export async function unpack(
  data: Buffer,
  encoding: string,
  limit: number,
  hold: (bytes: number) => boolean,
): Promise<Buffer | UnreadableBody> {
  const name = encoding.trim().toLowerCase();
  if (!isKnownEncoding(name)) {
    return new UnreadableBody('its content encoding is unknown');
  }
  const unpacker = unpackers[name]();
  unpacker.end(data);
  const body = new BodyBlocks();
  try {
    for await (const part of unpacker) {
      if (body.size + part.length > limit || !hold(part.length)) {
        return new UnreadableBody(TOO_LARGE);
      }
      body.add(part, false);
    }
    return body.join();
  } catch {
    return new UnreadableBody('its compressed body is broken');
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

/** The body of a complete reply: parsed JSON, the text of a JWT, nothing on 204. A refusal of any type may be JSON that explains it. */
export function parseBody(
  data: Buffer,
  status: number,
  contentType: string | undefined,
  { acceptsJwt, replyLimit }: ExpectedReply,
): unknown {
  if (status === 204) {
    return undefined;
  }
  if (status >= 400 || isJsonType(contentType)) {
    return parseJson(data, replyLimit);
  }
  return acceptsJwt === true && isJwtType(contentType)
    ? data.toString('latin1').trim()
    : new UnreadableBody('its content type is not JSON');
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
  // ASCII is read as Latin-1 in half of the time.
  const text = isAscii(data) ? data.toString('latin1') : data.toString('utf8', hasMark ? 3 : 0);
  try {
    const body: unknown = JSON.parse(text);
    return isNestedTooDeep(body) ? new UnreadableBody('it is nested too deeply') : body;
  } catch {
    return new UnreadableBody('it is not JSON');
  }
}
