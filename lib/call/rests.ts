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

/** What a call may do now: send its request, ask again in `ms`, or fail. `isOwn`: because of its own contact, and of no one else. */
export type Turn =
  | { readonly go: 'send' }
  | { readonly go: 'wait'; readonly ms: number; readonly rest: { waiting: number } }
  | {
      readonly go: 'fail';
      readonly ms: number;
      readonly failure: Failure | undefined;
      readonly isOwn: boolean;
    };

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
   */
  askedToWait(request: PausedRequest, ms: number, failure: Failure): void {
    const { tenant, origin, operation, about = '' } = request;
    if (operation === 'token') {
      this.begin(['client', tenant, origin, about], ms, failure);
    } else if (operation === 'list') {
      this.begin(['purpose', tenant, origin, operation], ms, failure);
    } else if (operation === 'lookup') {
      const key = JSON.stringify([tenant, origin]);
      const last = this.#contacts.get(key) ?? about;
      if (last !== about && this.left(['contact', tenant, origin, last]) > 0) {
        this.begin(['purpose', tenant, origin, operation], ms, failure);
      }
      this.begin(['contact', tenant, origin, about], ms, failure);
      this.#contacts.set(key, about);
    }
  }

  /**
   * What a call may do with its request.
   *
   * @param remaining time that the call has, in ms
   * @param mostWaiting calls that may wait for the end of one rest
   */
  turn(
    { tenant, origin, operation, about = '' }: PausedRequest,
    remaining: number,
    mostWaiting: number,
  ): Turn {
    const own = operation === 'lookup' ? this.#find(['contact', tenant, origin, about]) : undefined;
    const shared = this.#find(
      operation === 'token' ? ['client', tenant, origin, about] : ['purpose', tenant, origin, operation],
    );
    const isOwn = (own?.until ?? 0) > (shared?.until ?? 0);
    const rest = isOwn ? own : shared;
    if (rest === undefined) {
      return SEND;
    }
    const left = rest.until - this.clock.now();
    if (left >= remaining || rest.waiting >= mostWaiting) {
      return { go: 'fail', ms: Math.ceil(left), failure: rest.failure, isOwn };
    }
    const spread = Math.min(rest.length * SPREAD, (remaining - left) / 2);
    return { go: 'wait', ms: left + this.clock.random() * spread, rest };
  }

  /** A token request failed after its attempts. `isPermanent`: the endpoint will refuse it again. */
  tokenFailed(request: PausedRequest, failure: Failure, isPermanent: boolean): void {
    const { tenant, origin, about = '' } = request;
    const refusal: Subject = ['refusal', tenant, origin, about];
    const asked = this.left(['client', tenant, origin, about]);
    if (asked === 0) {
      this.begin(refusal, isPermanent ? LONGEST_RESTS.refusal : AFTER_FAILED_TOKEN.request, failure);
    }
    this.begin(['renewal', tenant], Math.max(asked, this.left(refusal)));
  }

  /** No token came. While one is held, it serves. */
  renewalFailed(tenant: number): void {
    this.begin(['renewal', tenant], AFTER_FAILED_TOKEN.renewal);
  }

  /** The host dropped what is held of a tenant's token: the next one is requested, whatever was refused. A pause asked for stays. */
  tokenDropped(tenant: number): void {
    for (const kind of ['refusal', 'renewal'] as const) {
      const rests = this.#byKind.get(kind);
      for (const key of rests?.keys() ?? []) {
        if (key.startsWith(`[${tenant},`) || key === `[${tenant}]`) {
          rests?.delete(key);
        }
      }
    }
  }

  /** Whether token requests of this client fail at once, and why. */
  tokenFailure({ tenant, origin, about = '' }: PausedRequest): Failure | undefined {
    return this.failure(['refusal', tenant, origin, about]);
  }

  /**
   * Whether a token is renewed because the service answered 401 or 403: once in 10 s, since a user may name an event that it always
   * answers so.
   *
   * @param age of the token in ms, where only one that is older than that is renewed
   */
  mayReplace(tenant: number, age = Number.POSITIVE_INFINITY): boolean {
    if (age < LONGEST_RESTS.rejection || this.left(['rejection', tenant]) > 0) {
      return false;
    }
    this.begin(['rejection', tenant]);
    return true;
  }

  #find([kind, ...names]: Subject): Rest | undefined {
    const rest = this.#byKind.get(kind)?.get(JSON.stringify(names));
    return rest !== undefined && this.clock.now() < rest.until ? rest : undefined;
  }
}
