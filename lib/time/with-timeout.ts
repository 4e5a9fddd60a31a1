/** A function of the host (tenant source, shared store) did not answer in time. */
export class TimeoutError extends Error {
  override readonly name = 'TimeoutError';
}

/**
 * Calls a function of the host and answers its result.
 *
 * @param ms how long to wait, in milliseconds. Late results and rejections are ignored.
 * @throws {TimeoutError} when there is no answer in time
 */
export async function withTimeout<R>(ms: number, call: () => R | Promise<R>): Promise<R> {
  let timer: NodeJS.Timeout | undefined;
  const timeout = new Promise<never>((_, reject) => {
    timer = setTimeout(() => reject(new TimeoutError(`no answer within ${ms} ms`)), ms);
    // A pending timer must not delay the exit of the process.
    timer.unref();
  });
  try {
    return await Promise.race([call(), timeout]);
  } finally {
    clearTimeout(timer);
  }
}
