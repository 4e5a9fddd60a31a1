import { Inject, Injectable } from '@nestjs/common';
import type { Failure } from '../errors/failure.js';
import { Clock } from './clock.js';
import { createCache, type ExpiringCache } from './expiring-cache.js';

/** What a rest is of, and how long it is at most, in ms. docs/concepts.md has the table for hosts. */
export const LONGEST_RESTS = {
  /** Requests of a tenant to an origin for one purpose, after `Retry-After`. */
  purpose: 60_000,
  /** Likewise, lookups of one contact. */
  contact: 60_000,
  /** Likewise, token requests with one secret. */
  client: 60_000,
  /** Token requests with one secret that the endpoint refused for good, or did not answer. */
  refusal: 30_000,
  /** Renewals of a token while it is held. */
  renewal: 60_000,
  /** Renewals of a token because the service refused it. */
  rejection: 10_000,
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

/** What a rest is of: its kind, and what tells it from others of this kind. */
export type Subject = readonly [kind: keyof typeof LONGEST_RESTS, ...names: (string | number)[]];

/** Rests of one kind. Where there are more, the one that was used least recently ends. */
const MOST = 10_000;

/** Share of a pause over which the calls that waited for its end are spread. */
const SPREAD = 0.1;

/** Rest after a token request that failed, but was not refused for good, in ms. */
const AFTER_FAILED_TOKEN = { request: 1_000, renewal: 5_000 };

interface Rest {
  /** {@link Clock.now} at its end. */
  until: number;
  /** In ms, since it began or was extended. */
  length: number;
  /** Why calls fail meanwhile. */
  failure: Failure | undefined;
  /** Calls that wait for its end. */
  waiting: number;
}

/** A request that a partner may ask to wait for. */
export interface PausedRequest {
  /** Id of the state of its tenant. */
  readonly tenant: number;
  readonly origin: string;
  readonly operation: string;
  /** The contact of a lookup; a digest of the secret of a token request. */
  readonly about?: string | undefined;
}

/** Why a request is not sent now. */
export interface NotSent {
  readonly go: 'fail';
  readonly retryAfterMs: number;
  /** `undefined`: the partner cannot be reached, or too many wait. */
  readonly failure: Failure | undefined;
  /** The partner failed. A limit of ours, and a pause of one contact only, are no failure of the partner. */
  readonly isOfPartner: boolean;
}

/** What a call may do now: send its request, ask again in `ms`, or fail. */
export type Turn =
  | { readonly go: 'send' }
  | { readonly go: 'wait'; readonly ms: number; readonly rest: { waiting: number } }
  | NotSent;

const SEND: Turn = { go: 'send' };

/**
 * All rests: how long we leave a partner alone after what it said or showed. No other pause outlives a call. Callers tell what
 * happened, and are told what they may do; nothing is sent here, and nothing waits.
 */
@Injectable()
export class Rests {
  readonly #byKind = new Map<Subject[0], ExpiringCache<Rest>>();
  /** The contact of each tenant and origin that was limited last. */
  readonly #contacts: ExpiringCache<string>;

  constructor(@Inject(Clock) private readonly clock: Clock) {
    this.#contacts = createCache(clock, { max: MOST });
  }

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
    const before = rests.get(key);
    if (before === undefined) {
      rests.set(key, { until, length, failure, waiting: 0 }, { ttl: length });
    } else if (until > before.until) {
      rests.set(key, Object.assign(before, { until, length, failure }), { ttl: length });
    }
  }

  /** Ends a rest before its time. */
  end([kind, ...names]: Subject): void {
    this.#byKind.get(kind)?.delete(JSON.stringify(names));
  }

  /** What is left of a rest, in ms; 0 where there is none. */
  left(subject: Subject): number {
    const rest = this.#find(subject);
    return rest === undefined ? 0 : rest.until - this.clock.now();
  }

  /** Why calls fail in a rest; `undefined` where there is none. */
  failure(subject: Subject): Failure | undefined {
    return this.#find(subject)?.failure;
  }

  /**
   * A partner answered a request with `Retry-After`. One person's failures are nobody's outage: all lookups of a tenant rest only
   * where another contact is limited meanwhile. Published documents and what belongs to one login do not rest.
   *
   * @returns how long the request now rests, in ms
   */
  askedToWait(request: PausedRequest, ms: number, failure: Failure): number {
    const { tenant, origin, operation, about = '' } = request;
    if (operation === 'token' || operation === 'list') {
      this.begin(sharedSubject(request), ms, failure);
    } else if (operation === 'lookup') {
      const key = JSON.stringify([tenant, origin]);
      const last = this.#contacts.get(key) ?? about;
      if (last !== about && this.left(['contact', tenant, origin, last]) > 0) {
        this.begin(sharedSubject(request), ms, failure);
      }
      this.begin(['contact', tenant, origin, about], ms, failure);
      // No address stays in memory for longer than its rest.
      this.#contacts.set(key, about, { ttl: LONGEST_RESTS.contact });
    }
    const { rest } = this.#pauseOf(request);
    return rest === undefined ? 0 : rest.until - this.clock.now();
  }

  /**
   * What a call may do with its request.
   *
   * @param remaining time that the call has, in ms
   * @param mostWaiting calls that may wait for the end of one rest
   */
  turn(request: PausedRequest, remaining: number, mostWaiting: number): Turn {
    const { rest, isOwn } = this.#pauseOf(request);
    if (rest === undefined) {
      return SEND;
    }
    const left = rest.until - this.clock.now();
    if (left >= remaining || rest.waiting >= mostWaiting) {
      return {
        go: 'fail',
        retryAfterMs: Math.ceil(left),
        failure: rest.failure,
        isOfPartner: !isOwn,
      };
    }
    const spread = Math.min(rest.length * SPREAD, (remaining - left) / 2);
    return { go: 'wait', ms: left + this.clock.random() * spread, rest };
  }

  /**
   * A token request failed after its attempts: until the end of a rest, the next ones fail likewise. Where the endpoint asked for a pause,
   * they may wait for its end instead.
   *
   * @param state id of the state of the token, so that another state is free of this
   * @param isPermanent the endpoint will refuse it again
   */
  tokenFailed(state: number, request: PausedRequest, failure: Failure, isPermanent: boolean): void {
    const refusal: Subject = ['refusal', state, request.about ?? ''];
    const asked = this.left(sharedSubject(request));
    if (asked === 0) {
      this.begin(refusal, isPermanent ? LONGEST_RESTS.refusal : AFTER_FAILED_TOKEN.request, failure);
    }
    this.begin(['renewal', state], Math.max(asked, this.left(refusal)));
  }

  /** No token came. While one is held, it serves. */
  renewalFailed(state: number): void {
    this.begin(['renewal', state], AFTER_FAILED_TOKEN.renewal);
  }

  /**
   * Whether a token is renewed because the service refused it: once in 10 s, since a user may name an event that it always refuses.
   *
   * @param age of the token in ms: after a 401, one that is younger than 10 s is not renewed. After a 403 its age does not count
   */
  mayReplace(tenant: number, age = Number.POSITIVE_INFINITY): boolean {
    if (age < LONGEST_RESTS.rejection || this.left(['rejection', tenant]) > 0) {
      return false;
    }
    this.begin(['rejection', tenant]);
    return true;
  }

  /** The longest pause that a request is in. `isOwn`: that of its contact alone. */
  #pauseOf(request: PausedRequest): { rest: Rest | undefined; isOwn: boolean } {
    const { tenant, origin, operation, about = '' } = request;
    const own = operation === 'lookup' ? this.#find(['contact', tenant, origin, about]) : undefined;
    const shared = this.#find(sharedSubject(request));
    const isOwn = (own?.until ?? 0) > (shared?.until ?? 0);
    return { rest: isOwn ? own : shared, isOwn };
  }

  #find([kind, ...names]: Subject): Rest | undefined {
    const rest = this.#byKind.get(kind)?.get(JSON.stringify(names));
    return rest !== undefined && this.clock.now() < rest.until ? rest : undefined;
  }
}

/** What a pause of a request is of, where it is not of one contact. */
function sharedSubject({ tenant, origin, operation, about = '' }: PausedRequest): Subject {
  return operation === 'token' ? ['client', tenant, origin, about] : ['purpose', tenant, origin, operation];
}
