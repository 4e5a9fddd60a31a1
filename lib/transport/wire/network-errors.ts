import type { Failed } from '../outcome.js';

/** Codes of Node and undici for a connection that the other side closed or reset. */
const RESET: ReadonlySet<string> = new Set(['UND_ERR_SOCKET', 'ECONNRESET', 'EPIPE']);
/** Further ones of a request that had a connection. Those of the HTTP parser begin with `HPE_`. */
const SENT: ReadonlySet<string> = new Set([...RESET, 'UND_ERR_INFO', 'UND_ERR_HEADERS_OVERFLOW']);

/**
 * The outcome of a request that ended without a whole reply.
 *
 * @param status that of the reply, if its head had arrived
 */
export function networkFailure(error: unknown, status: number | undefined): Failed {
  if (status !== undefined) {
    return { kind: 'failed', why: 'network', message: 'the reply was cut short', status };
  }
  const failed: Failed = { kind: 'failed', why: 'network', message: 'the service could not be reached' };
  const code = errorCode(error);
  return SENT.has(code) || code.startsWith('HPE_')
    ? { ...failed, wasReset: RESET.has(code) }
    : { ...failed, phase: 'connecting', errorCode: code };
}

/** Of Node and undici. The message is not shown: it may contain what was sent. */
export function errorCode(error: unknown): string {
  const code: unknown =
    typeof error === 'object' && error !== null && 'code' in error ? error.code : undefined;
  return typeof code === 'string' ? code : 'unknown error';
}
