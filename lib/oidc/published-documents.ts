import { errorOf, failureOf } from '../errors/failure.js';
import { isExhibitorError } from '../errors/is-exhibitor-error.js';
import type { Tenant } from '../config/tenant.js';
import type { Clock } from '../call/clock.js';
import type { Call } from '../call/call.js';
import type { Calls } from '../call/calls.service.js';
import { createCache, type ExpiringCache } from '../call/expiring-cache.js';
import type { Rests, Subject } from '../call/rests.js';
import { SharedWorks } from '../call/shared-work.js';

/** For how long a fetched document is used, and the last good one while it cannot be fetched, in ms. */
const FRESH = 600_000;
const LAST_GOOD = 86_400_000;

/** Documents of a dispatcher; the one used least recently goes. */
const MOST = 10_000;

interface Published<T> {
  /** Names it in the rests. */
  readonly subject: Subject;
  good?: { readonly value: T; readonly fetchedAt: number } | undefined;
}

/**
 * Documents that providers publish, keys or metadata: one of each name, for all tenants with the same dispatcher. What a proxy of one
 * tenant answers is not for others. A document is _fresh_, or it is being _fetched_, or its fetches _rest_: after one that failed, and
 * after one for a token that could not be verified, since anybody can send such tokens.
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
   * The document, fetched where it is not fresh, or is the `rejected` one; the last good one where it cannot be fetched now.
   *
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
    const good = this.#isYounger(document.good, LAST_GOOD) ? document.good : undefined;
    if (good !== undefined && good.value !== rejected && this.#isYounger(good, FRESH)) {
      return good.value;
    }
    const running = this.#fetches.joinable(document);
    const rest = running === undefined ? this.rests.find(document.subject) : undefined;
    if (rest !== undefined && good !== undefined) {
      return good.value;
    }
    if (rest?.failure !== undefined) {
      throw errorOf(rest.failure, { tenant: tenant.key, attempts: 0 });
    }
    const begin = (call: Call): Promise<T> => this.#fetch(document, fetch, rejected !== undefined, call);
    const work = running ?? this.#fetches.start(document, this.deadline, begin);
    if (good !== undefined) {
      // Half of the time is left for the caller: then the last good one serves.
      const half = caller.part(caller.remaining() / 2);
      return half.run(() => half.join(work)).catch(() => good.value);
    }
    return caller.join(work).catch((error: unknown) => {
      throw ofTenant(tenant, error);
    });
  }

  #isYounger(good: Published<T>['good'], ms: number): boolean {
    return good !== undefined && this.clock.now() - good.fetchedAt < ms;
  }

  #find(name: string, tenant: Tenant): Published<T> {
    const dispatcher = this.dispatcherOf(tenant) ?? this;
    const documents =
      this.#byDispatcher.get(dispatcher) ?? createCache<Published<T>>(this.clock, { max: MOST });
    this.#byDispatcher.set(dispatcher, documents);
    const known = documents.get(name) ?? { subject: ['document', this.kind, (this.#last += 1)] };
    documents.set(name, known);
    return known;
  }

  /** @param restsAfter also after a good one: it is fetched for a token that the last one did not verify */
  async #fetch(
    document: Published<T>,
    fetch: (limit: Call) => Promise<T>,
    restsAfter: boolean,
    call: Call,
  ): Promise<T> {
    try {
      const value = await fetch(call);
      if (this.#fetches.isLatest(document, call)) {
        document.good = { value, fetchedAt: this.clock.now() };
        if (restsAfter) {
          this.rests.begin(document.subject);
        }
      }
      return value;
    } catch (error) {
      const failure = isExhibitorError(error) ? error : undefined;
      // Where code of the host failed, the provider needs no rest.
      if (this.#fetches.isLatest(document, call) && failure?.isOfHost !== true) {
        this.rests.begin(document.subject, undefined, failure && failureOf(failure));
      }
      throw error;
    }
  }
}

/** A fetch that fails for several tenants tells each by an error with its own key. */
function ofTenant({ key: tenant }: Tenant, error: unknown): unknown {
  if (!isExhibitorError(error) || error.tenant === tenant) {
    return error;
  }
  const { retryAfterMs, attempts } = error;
  return errorOf(failureOf(error), { tenant, retryAfterMs, attempts });
}
