/** A function of the host (its tenant source, its store) did not answer in time. */
export class TimeoutError extends Error {
  override readonly name = 'LateAnswerError';
}

/** What a host's function answers, if it does within `ms` milliseconds. What comes or fails later is nobody's any more. */
export async function withTimeout<R>(ms: number, ask: () => R | Promise<R>): Promise<R> {
  let timer: NodeJS.Timeout | undefined;
  const late = new Promise<never>((_, reject) => {
    timer = setTimeout(() => reject(new TimeoutError(`no answer within ${ms} ms`)), ms);
    // A host that closes must not wait for a function of its own that hangs.
    timer.unref();
  });
  try {
    return await Promise.race([ask(), late]);
  } finally {
    clearTimeout(timer);
  }
}
