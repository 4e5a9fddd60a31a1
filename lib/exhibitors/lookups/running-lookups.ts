import type { Clock } from '../../time/clock.js';
import { Deadline } from '../../time/deadline.js';
import type { LookupFilter } from '../call-options.interface.js';
import { isLookupOf, lookupKey, type LookupSubject } from './lookup-cache.js';

export interface FoundLookup {
  /** Frozen. */
  readonly records: readonly unknown[];
  /** True where the answer was in memory or in the store, so that the service was not asked. */
  readonly isCached: boolean;
}

export interface StartedLookup {
  readonly subject: LookupSubject;
  /** Of the lookup itself: it lasts as long as the last of its callers waits. */
  readonly deadline: Deadline;
}

type LookupWork = (lookup: StartedLookup) => Promise<FoundLookup>;

/** Lookups under way, for which all callers of equal lookups wait (single flight). */
export class RunningLookups {
  /** The latest lookup of each contact at an event, by cache key. */
  readonly #latest = new Map<string, RunningLookup>();

  constructor(private readonly clock: Clock) {}

  /** Waits for an equal lookup that is under way, else for a new one. */
  join(subject: LookupSubject, caller: Deadline, work: LookupWork): Promise<FoundLookup> {
    const running = this.#latest.get(lookupKey(subject));
    // Once the last caller has left or the time is up, no further caller can join.
    return running?.lookup.deadline.isOver === false
      ? running.join(caller)
      : this.start(subject, caller, work);
  }

  /** Waits for a new lookup. It supersedes one that is under way, which still answers its callers. */
  start(subject: LookupSubject, caller: Deadline, work: LookupWork): Promise<FoundLookup> {
    const lookup = { subject, deadline: new Deadline(this.clock, caller.remaining()) };
    // The work begins later in this turn, when the lookup is the latest.
    const answer = Promise.resolve(lookup)
      .then(work)
      .finally(() => this.#end(lookup));
    const running = new RunningLookup(lookup, answer);
    this.#latest.set(lookupKey(subject), running);
    return running.join(caller);
  }

  /** False once a lookup was superseded or forgotten: its answer is not to be cached. */
  isLatest(lookup: StartedLookup): boolean {
    return this.#latest.get(lookupKey(lookup.subject))?.lookup === lookup;
  }

  /** Lookups that match still answer their callers. */
  forget(filter: LookupFilter): void {
    for (const [key, { lookup }] of this.#latest) {
      if (isLookupOf({ ...lookup.subject, tenant: lookup.subject.tenant.key }, filter)) {
        this.#latest.delete(key);
      }
    }
  }

  #end(lookup: StartedLookup): void {
    lookup.deadline.clear();
    if (this.isLatest(lookup)) {
      this.#latest.delete(lookupKey(lookup.subject));
    }
  }
}

/** A caller that aborts or times out does not affect the others. When no caller is left, the request is aborted. */
class RunningLookup {
  #callers = 0;

  constructor(
    readonly lookup: StartedLookup,
    private readonly answer: Promise<FoundLookup>,
  ) {
    // Callers wait on promises of their own. Without callers, a rejection here would be unhandled.
    answer.catch(() => {});
  }

  async join(caller: Deadline): Promise<FoundLookup> {
    const { deadline } = this.lookup;
    this.#callers += 1;
    deadline.extend(caller.remaining());
    try {
      return await caller.race(this.answer, deadline);
    } finally {
      this.#callers -= 1;
      if (this.#callers === 0) {
        deadline.abort();
      }
    }
  }
}
