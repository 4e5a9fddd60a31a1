/** A function of the host (tenant source, shared store) did not answer in time. */
export class TimeoutError extends Error {
  override readonly name = 'TimeoutError';
}

/**
 * Calls a function of the host and answers its result.
 *
 * @param ms how long to wait, in milliseconds. Late results and rejections are ignored. A result that arrived in time while
 * the event loop was busy counts.
 * @throws {TimeoutError} when there is no answer in time
 */
export async function withTimeout<R>(ms: number, call: () => R | Promise<R>): Promise<R> {
  let timer: NodeJS.Timeout | undefined;
  const timeout = new Promise<never>((_, reject) => {
    const expire = (): void => reject(new TimeoutError(`no answer within ${ms} ms`));
    // Timers run before input and output. A busy process must not take a reply that it has not read yet for silence.
    timer = setTimeout(() => setImmediate(expire), ms);
    // A pending timer must not delay the exit of the process.
    timer.unref();
  });
  try {
    return await Promise.race([call(), timeout]);
  } finally {
    clearTimeout(timer);
  }
}
