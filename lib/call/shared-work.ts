import type { Call, SharedWork } from './call.js';
import type { Calls } from './calls.service.js';

/** Starts work with so many ms of its own. No caller's end cancels it, and its failure is for those who join it. */
export function startShared<R>(calls: Calls, ms: number, work: (call: Call) => Promise<R>): SharedWork<R> {
  const call = calls.start(ms);
  const result = call.run(work);
  // Where nobody waits, an unhandled rejection would end the process.
  result.catch(() => undefined);
  return { call, result };
}

/** True where the work that a caller had joined has used up the time that it began with, and the caller has time for another one. */
export function mayStartNext(joined: SharedWork<unknown> | undefined, caller: Call): boolean {
  return joined?.call.isOverdue === true && !caller.isOver;
}

/**
 * The work, where a caller that comes now may join it. Nobody joins work whose own time is up: what never ends, as a function of the host
 * may, would hold up all callers for as long as some come.
 */
export function joinable<R>(work: SharedWork<R> | undefined): SharedWork<R> | undefined {
  return work?.call.isOverdue === true ? undefined : work;
}
