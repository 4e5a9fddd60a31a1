import type { Call } from './call.js';
import type { Calls } from './calls.service.js';

/** Work that several callers wait for, each for its own time, by {@link Call.race}. The work has at least the time of each of them. */
export interface SharedWork<R> {
  readonly call: Call;
  readonly result: Promise<R>;
}

/** Starts work with so many ms of its own. No caller's end cancels it, and its failure is for those who wait. */
export function startShared<R>(calls: Calls, ms: number, work: (call: Call) => Promise<R>): SharedWork<R> {
  const call = calls.start(ms);
  const result = call.run(work);
  // Where nobody waits, an unhandled rejection would end the process.
  result.catch(() => undefined);
  return { call, result };
}

/**
 * The work, where a caller that comes now may join it. Nobody joins work whose own time is up: what never ends, as a function of the host
 * may, would hold up all callers for as long as some come.
 */
export function joinable<R>(work: SharedWork<R> | undefined): SharedWork<R> | undefined {
  return work?.call.isOverdue === true ? undefined : work;
}
