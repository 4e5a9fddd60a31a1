import type { Call } from '../../call/call.js';
import type { Clock } from '../../call/clock.js';
import type { Rest, Rests, Subject } from '../../call/partner.js';
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
  /** The partner failed, or asked for a pause; not that of one contact. A full queue is our own limit. */
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
    const [own, ofAllContacts] = this.#subjects(about);
    if (own !== undefined) {
      this.rests.begin(own, ms, failure);
    }
    if (ofAllContacts !== undefined) {
      if (this.#isOtherContactPaused(about)) {
        this.rests.begin(ofAllContacts, ms, failure);
      }
      this.#lastContact = about;
    }
    const pause = this.#longest(about);
    return pause === undefined ? 0 : Math.ceil(this.#left(pause.rest));
  }

  /** @param remaining time that the call has, in ms */
  turn(about: string | undefined, remaining: number): Turn {
    const pause = this.#longest(about);
    if (pause === undefined) {
      return SEND;
    }
    const { rest, kind } = pause;
    const left = this.#left(rest);
    if (left >= remaining || this.#waiting >= this.mostWaiting) {
      const { failure } = rest;
      return { go: 'fail', retryAfterMs: Math.ceil(left), failure, isOfPartner: kind !== 'contact' };
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
  #longest(about: string | undefined): { rest: Rest; kind: Subject[0] } | undefined {
    const pauses = this.#subjects(about).flatMap((subject) => {
      const rest = this.rests.find(subject);
      return rest === undefined ? [] : [{ rest, kind: subject[0] }];
    });
    return pauses.toSorted((one, other) => one.rest.until - other.rest.until).at(-1);
  }

  #left({ until }: Rest): number {
    return until - this.clock.now();
  }

  /** True where the contact that was limited last is another one, and its pause goes on. */
  #isOtherContactPaused(contact: string | undefined): boolean {
    const last = this.#lastContact;
    return last !== undefined && last !== contact && this.rests.left(this.#contact(last)) > 0;
  }

  /** What pauses such a request: its own subject; of lookups, also that of all contacts. */
  #subjects(about = ''): readonly Subject[] {
    const { tenant, origin, operation } = this.requests;
    const ofOperation: Subject = ['purpose', tenant, origin, operation];
    switch (operation) {
      case 'list':
        return [ofOperation];
      case 'token':
        return [clientPause(tenant, origin, about)];
      case 'lookup':
        return [this.#contact(about), ofOperation];
      default:
        return [];
    }
  }

  #contact(contact: string): Subject {
    const { tenant, origin } = this.requests;
    return ['contact', tenant, origin, contact];
  }
}
