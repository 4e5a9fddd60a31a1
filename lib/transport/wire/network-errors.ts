import type { Failed } from '../outcome.js';

/** Codes of Node and undici for a connection that the other side closed or reset. */
const RESET: ReadonlySet<string> = new Set(['UND_ERR_SOCKET', 'ECONNRESET', 'EPIPE']);
/** Codes for something else than HTTP on a connection. Those of the HTTP parser begin with `HPE_`. */
const NO_HTTP: ReadonlySet<string> = new Set(['UND_ERR_INFO', 'UND_ERR_HEADERS_OVERFLOW']);

/** The outcome of a request that ended without a whole reply. */
export function networkFailure(
  error: unknown,
  { status, sentAt }: Pick<Failed, 'status' | 'sentAt'>,
): Failed {
  if (status !== undefined) {
    return { kind: 'failed', why: 'cut', message: 'the reply was cut short', status, sentAt };
  }
  const failed = { kind: 'failed', message: 'the service could not be reached', sentAt } as const;
  const code = errorCode(error);
  if (RESET.has(code)) {
    return { ...failed, why: 'reset' };
  }
  return NO_HTTP.has(code) || code.startsWith('HPE_')
    ? { ...failed, why: 'cut' }
    : { ...failed, why: 'unreached', errorCode: code };
}

/** Of Node and undici. The message is not shown: it may contain what was sent. */
export function errorCode(error: unknown): string {
  const code: unknown =
    typeof error === 'object' && error !== null && 'code' in error ? error.code : undefined;
  return typeof code === 'string' ? code : 'unknown error';
}
