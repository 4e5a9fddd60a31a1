import { Inject, Injectable } from '@nestjs/common';
import type { Failure } from '../errors/failure.js';
import { Clock } from './clock.js';
import { createCache, type ExpiringCache } from './expiring-cache.js';

/** A request without a reply counts as late after this share of its time: a call takes a little of it until it sends. */
const LATE = 0.9;

/**
 * True where a partner that has been silent for so many ms is late.
 *
 * @param patience time that a request has, in ms
 */
export function isLate(silence: number, patience: number): boolean {
  return silence >= LATE * patience;
}

/**
 * What a call knows of its partner, the service or the provider. Two facts, of which each has its readers:
 *
 * - It _has failed_: an old answer may serve (`staleIfError` of lookups).
 * - It _is suspect_: where the call fails, a request of this call may be why, so a rest begins (of a token, of a published document).
 *
 * What each note makes of them:
 *
 * | note       | where                                                          | has failed | is suspect           |
 * | ---------- | -------------------------------------------------------------- | ---------- | -------------------- |
 * | none yet   |                                                                | no         | no                   |
 * | `wasAsked` | a request is sent                                              | as before  | yes                  |
 * | `answered` | it has a reply that the calling room judges                    | no         | as before            |
 * | `failed`   | it has another one, or none in time; or the partner rests      | yes        | as before            |
 * | `excused`  | it failed in this process, on its machine, in code of the host | as before  | only if it has failed |
 */
export class Partner {
  /** When the request under way was sent, by {@link Clock.now}. It stays where the end of the call ends the request. */
  #askedAt: number | undefined;
  #hasFailed = false;
  isSuspect = false;

  /** @param now {@link Clock.now} */
  wasAsked(now: number): void {
    this.#askedAt = now;
    this.isSuspect = true;
  }

  answered(): void {
    this.#askedAt = undefined;
    this.#hasFailed = false;
  }

  failed(): void {
    this.#askedAt = undefined;
    this.#hasFailed = true;
  }

  excused(): void {
    this.#askedAt = undefined;
    this.isSuspect = this.#hasFailed;
  }

  /**
   * True where it failed, or {@link isLate} with the request under way.
   *
   * @param now {@link Clock.now}
   * @param patience time that a request has, in ms
   */
  hasFailedOrIsLate(now: number, patience: number): boolean {
    return this.#hasFailed || (this.#askedAt !== undefined && isLate(now - this.#askedAt, patience));
  }
}

/** What a rest is of, and how long it is, in ms; at most so long where a reply names the time. docs/concepts.md has the table for hosts. */
export const LONGEST_RESTS = {
  /** Requests of a tenant to an origin for one purpose, after `Retry-After`. */
  purpose: 60_000,
  /** Likewise, lookups of one contact. */
  contact: 60_000,
  /** Likewise, token requests with one secret. */
  client: 60_000,
  /** Token requests with one secret that the endpoint refused for good; after another failure 1 s. */
  tokenRequest: 30_000,
  /** Renewals of a token while it is held. */
  earlyRenewal: 60_000,
  /** Renewals of a token because the service refused it. */
  replacement: 10_000,
  /** Requests to a partner that cannot be reached: an open circuit. */
  circuit: 5_000,
  /** A lookup that failed and has an old answer. */
  lookup: 5_000,
  /** Fetches of a published document. */
  document: 30_000,
  /** Reads of a key of a tenant source that has last good options. */
  source: 5_000,
  /** The shared store. */
  store: 5_000,
} as const;

/** Two of them after a token request that failed, but was not refused for good, in ms. */
export const AFTER_FAILED_TOKEN = { tokenRequest: 1_000, earlyRenewal: 5_000 } as const;

/** What a rest is of: its kind, and what tells it from others of this kind. */
export type Subject = readonly [kind: keyof typeof LONGEST_RESTS, ...names: (string | number)[]];

/** Rests of one kind. Where there are more, the one that was used least recently ends. */
const MOST = 10_000;

/** A rest that has begun. */
export interface Rest {
  /** {@link Clock.now} at its end. */
  readonly until: number;
  /** In ms, since it began or was extended. */
  readonly length: number;
  /** Why calls fail meanwhile. */
  readonly failure: Failure | undefined;
}

/**
 * All rests: how long we leave a partner alone after what it said or showed. No other pause outlives a call, but that a key has no tenant.
 * The code that knows a partner begins its rests and asks for them; nothing is sent here, and nothing waits.
 */
@Injectable()
export class Rests {
  readonly #byKind = new Map<Subject[0], ExpiringCache<Rest>>();

  constructor(@Inject(Clock) private readonly clock: Clock) {}

  /** Begins a rest, at most as long as its kind allows. One that ends later stays as it is. */
  begin([kind, ...names]: Subject, ms: number = LONGEST_RESTS[kind], failure?: Failure): void {
    const length = Math.min(ms, LONGEST_RESTS[kind]);
    if (length <= 0) {
      return;
    }
    const rests = this.#byKind.get(kind) ?? createCache<Rest>(this.clock, { max: MOST });
    this.#byKind.set(kind, rests);
    const key = JSON.stringify(names);
    const until = this.clock.now() + length;
    if (until > (rests.get(key)?.until ?? 0)) {
      rests.set(key, { until, length, failure }, { ttl: length });
    }
  }

  /** Ends a rest before its time. */
  end([kind, ...names]: Subject): void {
    this.#byKind.get(kind)?.delete(JSON.stringify(names));
  }

  /** The rest of this subject; `undefined` where there is none now. */
  find([kind, ...names]: Subject): Rest | undefined {
    const rest = this.#byKind.get(kind)?.get(JSON.stringify(names));
    return rest !== undefined && this.clock.now() < rest.until ? rest : undefined;
  }

  /** What is left of a rest, in ms; 0 where there is none. */
  left(subject: Subject): number {
    const rest = this.find(subject);
    return rest === undefined ? 0 : rest.until - this.clock.now();
  }
}
