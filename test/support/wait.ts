/** Waits this long in real time. */
export function pause(ms: number): Promise<void> {
  return new Promise((resolve) => setTimeout(resolve, ms));
}

/**
 * Waits until a condition holds. Fails after `within` milliseconds; the default is shorter than the default timeout of
 * an attempt (4 s), so that no timeout can make the condition true.
 */
export async function eventually(condition: () => boolean | Promise<boolean>, within = 3_000): Promise<void> {
  const limit = performance.now() + within;
  while (!(await condition())) {
    if (performance.now() > limit) {
      throw new Error(`still false after ${within} ms: ${condition}`);
    }
    await pause(5);
  }
}

/** Long enough for a request that must not be sent to arrive. */
export function aWhile(): Promise<void> {
  return pause(150);
}

/** Turns of the event loop in which requests on loopback and their replies arrive, also where a test fakes `setTimeout`. */
export async function turns(): Promise<void> {
  for (let turn = 0; turn < 200; turn += 1) {
    await new Promise((resolve) => setImmediate(resolve));
  }
}
