import { ExhibitorError } from '../../errors/exhibitor.error.js';
import { ACCEPTED_ENCODINGS } from './reply-body.js';
import type { Operation, TransportRequest } from '../transport-request.interface.js';

/** Tokens, claims and keys are small; a larger reply is a mistake or an attack. */
const LARGEST_SMALL_REPLY = 256 * 1024;
const LARGEST_UPLOAD = 256 * 1024;

const BULK: ReadonlySet<Operation> = new Set<Operation>(['list', 'lookup']);

/** Largest accepted reply, in bytes. */
export function responseLimit(operation: Operation, maxResponseBytes: number): number {
  return BULK.has(operation) ? maxResponseBytes : Math.min(LARGEST_SMALL_REPLY, maxResponseBytes);
}

/**
 * The headers of a request.
 *
 * @throws {ExhibitorError} `invalid_argument` where its body is larger than any this service takes
 */
export function requestHeaders(request: TransportRequest): Readonly<Record<string, string>> {
  const headers: Record<string, string> = {
    accept: 'application/json',
    'accept-encoding': ACCEPTED_ENCODINGS,
    'user-agent': 'nestjs-exhibitor',
  };
  for (const name in request.headers) {
    headers[name.toLowerCase()] = request.headers[name] ?? '';
  }
  if (request.body === undefined) {
    return headers;
  }
  if (Buffer.byteLength(request.body) > LARGEST_UPLOAD) {
    throw new ExhibitorError('invalid_argument', 'the request is too large to be sent');
  }
  headers['content-type'] = 'application/x-www-form-urlencoded';
  return headers;
}
