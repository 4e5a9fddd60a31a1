import { ExhibitorError } from '../errors/exhibitor.error.js';
import { isExhibitorError } from '../errors/is-exhibitor-error.js';
import { LoginFailedError } from '../errors/login-failed.error.js';
import type { Tenant } from '../config/tenant.js';
import type { Clock } from '../call/clock.js';
import type { Deadline, Deadlines } from '../call/deadline.js';
import { createCache, type ExpiringCache } from '../call/expiring-cache.js';
import type { Transport } from '../http/transport.service.js';

/** For how long a fetched document is used, and the last good one while it cannot be fetched, in ms. */
const FRESH = 600_000;
const LAST_GOOD = 86_400_000;

/**
 * Time in ms without fetches after one that failed, and after one for a token that could not be verified, since anybody can send
 * such tokens. After other fetches there is no pause, so that a key that is rotated right after them is found.
 */
const PAUSE = 30_000;

/** Documents of a dispatcher; the one used least recently goes. */
const MOST = 10_000;

interface Published<T> {
  good?: { value: T; fetchedAt: number };
  /** Callers without a fresh document get what it answers, or its error, until the next one may begin. */
  lastFetch?: Promise<T>;
  /** `Infinity` while a fetch is under way, then the end of the pause after it. */
  nextFetchAt: number;
}

/** Documents that providers publish, keys or metadata: one of each name, for all tenants with the same dispatcher. */
export class PublishedDocuments<T> {
  readonly #byDispatcher = new WeakMap<object, ExpiringCache<Published<T>>>();

  constructor(
    private readonly clock: Clock,
    private readonly deadlines: Deadlines,
    private readonly transport: Transport,
    /** Least time of a fetch, in ms, also of one that a tenant with less time has started: others wait for it too. */
    private readonly leastTime: number,
  ) {}

  /** The document, fetched once for all callers where it is not fresh, or is the `rejected` one; the last good one where that fails. */
  async read(
    name: string,
    tenant: Tenant,
    deadline: Deadline,
    fetch: (limit: Deadline) => Promise<T>,
    rejected?: T,
  ): Promise<T> {
    const known = this.#entryOf(name, tenant);
    const now = this.clock.now();
    const good = known.good && now < known.good.fetchedAt + LAST_GOOD ? known.good : undefined;
    if (good !== undefined && good.value !== rejected && now < good.fetchedAt + FRESH) {
      return good.value;
    }
    const half = tenant.http.deadline / 2;
    const start = (): Promise<T> => this.deadlines.within(Math.max(half, this.leastTime), fetch);
    const shared = this.#sharedFetch(known, start, rejected === undefined ? 0 : PAUSE);
    try {
      // At most half of the time of the tenant: then the last good document serves, or the call fails.
      return await deadline.race(this.deadlines.within(half, (limit) => limit.race(shared)));
    } catch (error) {
      if (good !== undefined) {
        return good.value;
      }
      throw errorOf(tenant, error);
    }
  }

  /** Entries of different dispatchers are apart: what a proxy of one tenant answers is not for the others. */
  #entryOf(name: string, tenant: Tenant): Published<T> {
    const dispatcher = this.transport.dispatcherOf(tenant) ?? this;
    const documents =
      this.#byDispatcher.get(dispatcher) ?? createCache<Published<T>>(this.clock, { max: MOST });
    this.#byDispatcher.set(dispatcher, documents);
    const known: Published<T> = documents.get(name) ?? { nextFetchAt: 0 };
    documents.set(name, known);
    return known;
  }

  /** The last fetch while it is under way or in its pause, else a new one. */
  #sharedFetch(known: Published<T>, start: () => Promise<T>, pause: number): Promise<T> {
    if (known.lastFetch === undefined || this.clock.now() >= known.nextFetchAt) {
      known.nextFetchAt = Infinity;
      known.lastFetch = this.#keep(known, start(), pause);
    }
    return known.lastFetch;
  }

  async #keep(known: Published<T>, answer: Promise<T>, pause: number): Promise<T> {
    try {
      const value = await answer;
      known.good = { value, fetchedAt: this.clock.now() };
      known.nextFetchAt = this.clock.now() + pause;
      return value;
    } catch (error) {
      known.nextFetchAt = this.clock.now() + PAUSE;
      throw error;
    }
  }
}

/** A shared fetch fails for each tenant that waits with an error that names this tenant. */
function errorOf({ key }: Tenant, error: unknown): unknown {
  if (!isExhibitorError(error) || error.tenant === key) {
    return error;
  }
  const { code, message, status, retryAfterMs, attempts, cause, isOfHost } = error;
  const details = { tenant: key, status, retryAfterMs, attempts, cause, isOfHost };
  return code === 'login_failed'
    ? new LoginFailedError(error.reason, message, details)
    : new ExhibitorError(code, message, details);
}
