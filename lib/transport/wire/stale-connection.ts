/** Codes of Node and undici for a connection that the other side closed or reset. */
const RESET: ReadonlySet<string> = new Set(['UND_ERR_SOCKET', 'ECONNRESET', 'EPIPE']);

/**
 * True where a kept-alive connection was closed while a request was written to it. The service most likely did not read the
 * request. It is sent again immediately, once, on a new connection: see `RequestAttempts.run`.
 *
 * @param hasReply the status and headers of a reply had arrived
 */
export function isStaleConnection(
  error: Error,
  { isOnNewConnection }: { isOnNewConnection: boolean },
  hasReply: boolean,
): boolean {
  return !isOnNewConnection && !hasReply && RESET.has(errorCode(error));
}

/** Of Node and undici. The message is not shown: it may contain what was sent. */
export function errorCode(error: Error): string {
  return 'code' in error && typeof error.code === 'string' ? error.code : 'unknown error';
}
