import { setTimeout } from 'node:timers/promises';

/** Every moment at which a caller may leave: this many microtasks after its call. */
export const MOMENTS = Array.from({ length: 21 }, (_, count) => count);

/** Waits this many microtasks. */
export async function microtasks(count: number): Promise<void> {
  for (let done = 0; done < count; done += 1) {
    await Promise.resolve();
  }
}

/** Far less than the timeouts of attempts and calls (4 s, 10 s), so that none of them can end a call in time. */
const AT_ONCE = 1_000;

/** Code of the error that a call ends with; `a value`; `still running` where it does not end at once. */
export async function endOf(call: Promise<unknown>): Promise<unknown> {
  const ended = call.then(
    () => 'a value',
    (error: { code?: unknown }) => error.code ?? error,
  );
  return Promise.race([ended, setTimeout(AT_ONCE, 'still running', { ref: false })]);
}
