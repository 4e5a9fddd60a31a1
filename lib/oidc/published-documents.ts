import { errorOf, failureOf } from '../errors/failure.js';
import { isExhibitorError } from '../errors/is-exhibitor-error.js';
import type { Tenant } from '../config/tenant.js';
import type { Clock } from '../call/clock.js';
import type { Call, SharedWork } from '../call/call.js';
import { SharedWorks, type Calls } from '../call/calls.service.js';
import { createCache, type ExpiringCache } from '../call/expiring-cache.js';
import type { Rests, Subject } from '../call/partner.js';

/** For how long a fetched document is used, and the last good one while it cannot be fetched, in ms. */
const FRESH = 600_000;
const LAST_GOOD = 86_400_000;

/** Documents of a dispatcher; the one used least recently goes. */
const MOST = 10_000;

interface Published<T> {
  /** Names it in the rests. */
  readonly subject: Subject;
  /** As it was fetched last. */
  latest?: { readonly value: T; readonly fetchedAt: number } | undefined;
}

/**
 * Documents that providers publish, keys or metadata: one of each name, for all tenants with the same dispatcher. What a proxy of one
 * tenant answers is not for others. The _last good_ one was fetched less than a day ago. The first row that fits counts:
 *
 * | a document is | where                                                              | a caller gets                                          |
 * | ------------- | ------------------------------------------------------------------ | ------------------------------------------------------ |
 * | fresh         | it was fetched less than 10 minutes ago                            | it, unless the caller rejects it                       |
 * | being fetched | a caller has begun that                                            | what is fetched, or what {@link waitFor} gives instead |
 * | resting       | a fetch has failed, or was for a caller that rejected the document | the last good one, else that failure                   |
 * | none of these |                                                                    | as where it is being fetched: that begins              |
 */
export class PublishedDocuments<T> {
  readonly #byDispatcher = new WeakMap<object, ExpiringCache<Published<T>>>();
  /** Under way. */
  readonly #fetches: SharedWorks<Published<T>, T>;
  #last = 0;

  /**
   * @param kind keys or metadata
   * @param deadline of a fetch, in ms; more where a caller has more
   */
  constructor(
    private readonly kind: string,
    private readonly deadline: number,
    private readonly clock: Clock,
    calls: Calls,
    private readonly rests: Rests,
    private readonly dispatcherOf: (tenant: Tenant) => object | undefined,
  ) {
    this.#fetches = new SharedWorks(calls);
  }

  /**
   * The document.
   *
   * @param rejected the one with which a token of the caller could not be verified. Anybody can send such tokens, so that where it cannot be
   * fetched anew, the last good one is an answer although it is this one
   * @throws {ExhibitorError} of the fetch, with the key of this tenant
   */
  async read(
    name: string,
    tenant: Tenant,
    caller: Call,
    fetch: (limit: Call) => Promise<T>,
    rejected?: T,
  ): Promise<T> {
    const document = this.#find(name, tenant);
    const { latest } = document;
    const age = latest === undefined ? Infinity : this.clock.now() - latest.fetchedAt;
    if (latest !== undefined && latest.value !== rejected && age < FRESH) {
      return latest.value;
    }
    const lastGood = age < LAST_GOOD ? latest : undefined;
    const running = this.#fetches.joinable(document);
    if (running !== undefined) {
      return waitFor(running, lastGood?.value, tenant, caller);
    }
    const rest = this.rests.find(document.subject);
    if (rest !== undefined && lastGood !== undefined) {
      return lastGood.value;
    }
    if (rest?.failure !== undefined) {
      throw errorOf(rest.failure, { tenant: tenant.key, attempts: 0 });
    }
    const begin = (call: Call): Promise<T> => this.#fetch(document, fetch, rejected !== undefined, call);
    return waitFor(this.#fetches.start(document, this.deadline, begin), lastGood?.value, tenant, caller);
  }

  #find(name: string, tenant: Tenant): Published<T> {
    const dispatcher = this.dispatcherOf(tenant) ?? this;
    const documents =
      this.#byDispatcher.get(dispatcher) ?? createCache<Published<T>>(this.clock, { max: MOST });
    this.#byDispatcher.set(dispatcher, documents);
    const document = documents.get(name) ?? { subject: ['document', this.kind, (this.#last += 1)] };
    documents.set(name, document);
    return document;
  }

  /** @param isForRejected the caller that has begun it rejects the document */
  async #fetch(
    document: Published<T>,
    fetch: (limit: Call) => Promise<T>,
    isForRejected: boolean,
    call: Call,
  ): Promise<T> {
    try {
      const value = await fetch(call);
      if (this.#fetches.isLatest(document, call)) {
        document.latest = { value, fetchedAt: this.clock.now() };
        if (isForRejected) {
          this.rests.begin(document.subject);
        }
      }
      return value;
    } catch (error) {
      const isOfProvider = call.partner.isSuspect && this.#fetches.isLatest(document, call);
      if (isOfProvider && isExhibitorError(error)) {
        this.rests.begin(document.subject, undefined, failureOf(error));
      }
      throw error;
    }
  }
}

/**
 * Waits for a fetch. Where the document does not arrive:
 *
 * | when                                   | a caller with a last good one gets | any other             |
 * | -------------------------------------- | ---------------------------------- | --------------------- |
 * | the fetch fails                        | that one                           | that failure          |
 * | half of the time of the caller is over | that one                           | waits on              |
 * | the call of the caller ends            | that one                           | the error of the call |
 */
function waitFor<T>(
  fetching: SharedWork<T>,
  lastGood: T | undefined,
  tenant: Tenant,
  caller: Call,
): Promise<T> {
  if (lastGood === undefined) {
    return caller.join(fetching).catch((error: unknown) => {
      throw ofTenant(tenant, error);
    });
  }
  const half = caller.part(caller.remaining() / 2);
  return half.run(() => half.join(fetching)).catch(() => lastGood);
}

/** A fetch that fails for several tenants tells each by an error with its own key. */
function ofTenant({ key: tenant }: Tenant, error: unknown): unknown {
  if (!isExhibitorError(error) || error.tenant === tenant) {
    return error;
  }
  const { retryAfterMs, attempts } = error;
  return errorOf(failureOf(error), { tenant, retryAfterMs, attempts });
}
