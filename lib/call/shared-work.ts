import type { Call } from './call.js';

/** Work that several callers wait for, each for its own time, by {@link Call.race}. The work has at least the time of each of them. */
export interface SharedWork<R> {
  readonly call: Call;
  readonly result: Promise<R>;
}

/**
 * The work, where a caller that comes now may join it. Nobody joins work whose own time is up: what never ends, as a function of the host
 * may, would hold up all callers for as long as some come.
 */
export function joinable<R>(work: SharedWork<R> | undefined): SharedWork<R> | undefined {
  return work?.call.isOverdue === true ? undefined : work;
}
