import type { Call } from '../../call/call.js';
import type { Clock } from '../../call/clock.js';
import type { Rest, Rests, Subject } from '../../call/rests.js';
import type { Failure } from '../../errors/failure.js';
import type { Operation } from '../transport-request.interface.js';

/** Share of a pause over which the calls that waited for its end are spread. */
const SPREAD = 0.1;

/** Why a request is not sent. */
export interface NotSent {
  readonly go: 'fail';
  readonly retryAfterMs: number;
  /** `undefined`: the partner cannot be reached, or too many wait. */
  readonly failure: Failure | undefined;
  /** The partner failed. Our own limits, and the pause of one contact, are not failures of the partner. */
  readonly isOfPartner: boolean;
}

/** What a call may do now: send its request, ask again in `ms`, or fail. */
export type Turn = { readonly go: 'send' } | { readonly go: 'wait'; readonly ms: number } | NotSent;

export const SEND: Turn = { go: 'send' };

/** The requests that have pauses in common. */
export interface PausedRequests {
  /** Id of the state of their tenant. */
  readonly tenant: number;
  readonly origin: string;
  readonly operation: Operation;
}

/**
 * The pause of token requests with one secret.
 *
 * @param secret its digest
 */
export function clientPause(tenant: number, origin: string, secret: string): Subject {
  return ['client', tenant, origin, secret];
}

/**
 * A pause is a rest that began with `Retry-After`. Calls that have the time wait for its end. For one tenant and origin:
 *
 * - Lists pause together.
 * - Token requests with one secret pause together. `about` is a digest of the secret.
 * - Lookups of one contact pause together. `about` is the contact. A limit for one contact does not stop other lookups, unless a second
 *   contact is limited meanwhile.
 * - Other operations do not pause: they fetch published documents, or belong to one login.
 */
export class Pauses {
  /** Calls that wait for the end of a pause. */
  #waiting = 0;
  /** The contact that was limited last. */
  #lastContact: string | undefined;

  /** @param mostWaiting calls that may wait */
  constructor(
    private readonly rests: Rests,
    private readonly clock: Clock,
    private readonly requests: PausedRequests,
    private readonly mostWaiting: number,
  ) {}

  /**
   * The partner asked for a pause.
   *
   * @returns how long such a request now pauses, in whole ms
   */
  begin(about: string | undefined, ms: number, failure: Failure): number {
    const { operation } = this.requests;
    if (operation === 'list' || operation === 'token') {
      this.rests.begin(this.#shared(about), ms, failure);
    } else if (operation === 'lookup') {
      const last = this.#lastContact;
      const isLastPaused = last !== undefined && this.rests.left(this.#contact(last)) > 0;
      if (isLastPaused && last !== about) {
        this.rests.begin(this.#shared(about), ms, failure);
      }
      this.rests.begin(this.#contact(about), ms, failure);
      this.#lastContact = about;
    }
    const { rest } = this.#longest(about);
    return rest === undefined ? 0 : Math.ceil(this.#left(rest));
  }

  /** @param remaining time that the call has, in ms */
  turn(about: string | undefined, remaining: number): Turn {
    const { rest, isOfContact } = this.#longest(about);
    if (rest === undefined) {
      return SEND;
    }
    const left = this.#left(rest);
    if (left >= remaining || this.#waiting >= this.mostWaiting) {
      const { failure } = rest;
      return { go: 'fail', retryAfterMs: Math.ceil(left), failure, isOfPartner: !isOfContact };
    }
    const spread = Math.min(rest.length * SPREAD, (remaining - left) / 2);
    return { go: 'wait', ms: left + this.clock.random() * spread };
  }

  /** Waits for a {@link turn}, no longer than the call. */
  async wait(ms: number, call: Call): Promise<void> {
    this.#waiting += 1;
    await call.sleep(ms);
    this.#waiting -= 1;
  }

  /** The pause that such a request is in; of two, the one that ends last. */
  #longest(about: string | undefined): { rest: Rest | undefined; isOfContact: boolean } {
    const shared = this.rests.find(this.#shared(about));
    const ofContact =
      this.requests.operation === 'lookup' ? this.rests.find(this.#contact(about)) : undefined;
    const isOfContact = (ofContact?.until ?? 0) > (shared?.until ?? 0);
    return { rest: isOfContact ? ofContact : shared, isOfContact };
  }

  #left({ until }: Rest): number {
    return until - this.clock.now();
  }

  /** The pause of all requests of the operation; of token requests, of those with one secret. */
  #shared(about = ''): Subject {
    const { tenant, origin, operation } = this.requests;
    return operation === 'token'
      ? clientPause(tenant, origin, about)
      : ['purpose', tenant, origin, operation];
  }

  #contact(about = ''): Subject {
    const { tenant, origin } = this.requests;
    return ['contact', tenant, origin, about];
  }
}
