import { ExhibitorError } from '../../errors/exhibitor.error.js';
import type { Operation, RequestHeaders, TransportRequest } from '../transport-request.interface.js';
import { ACCEPTED_ENCODINGS } from './reply-body.js';

/** Largest token, userinfo or key reply in bytes. */
const LARGEST_SMALL_REPLY = 256 * 1024;
const LARGEST_UPLOAD = 256 * 1024;

const BULK: ReadonlySet<Operation> = new Set<Operation>(['list', 'lookup']);

/** Largest accepted reply, in bytes. */
export function responseLimit(operation: Operation, maxResponseBytes: number): number {
  return BULK.has(operation) ? maxResponseBytes : Math.min(LARGEST_SMALL_REPLY, maxResponseBytes);
}

/**
 * All headers of a request. `Accept` is JSON, or JSON and JWT.
 *
 * @throws {ExhibitorError} `invalid_argument` where the body has more than 256 KiB
 */
export function requestHeaders({ headers, body, acceptsJwt }: TransportRequest): RequestHeaders {
  if (typeof body === 'string' && Buffer.byteLength(body) > LARGEST_UPLOAD) {
    throw new ExhibitorError('invalid_argument', 'the request is too large to be sent');
  }
  // One spread, at the end: V8 takes twenty times as long for any other.
  const all = {
    accept: acceptsJwt === true ? 'application/json, application/jwt' : 'application/json',
    'accept-encoding': ACCEPTED_ENCODINGS,
    'user-agent': 'nestjs-exhibitor',
    ...headers,
  };
  return body === undefined ? all : { ...all, 'content-type': 'application/x-www-form-urlencoded' };
}
