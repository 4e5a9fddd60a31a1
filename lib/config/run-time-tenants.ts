import { ConfigurationError, type ConfigurationProblem } from '../errors/configuration.error.js';
import type { ExhibitorError } from '../errors/exhibitor.error.js';
import { isExhibitorError } from '../errors/is-exhibitor-error.js';
import { untrustedText } from '../model/untrusted-text.js';
import type { ExhibitorSettings } from './exhibitor-settings.js';
import type { TenantSource } from './tenant-options.interface.js';
import { tenantSourceFails } from './problems/host-problems.js';
import type { ProblemLog } from './problems/problem-log.service.js';
import type { Calls } from '../call/calls.service.js';
import type { Clock } from '../call/clock.js';
import type { Rests } from '../call/rests.js';
import { createCache, type ExpiringCache } from '../call/expiring-cache.js';
import { readTenant, unknownTenant, type ReadTenant } from './read-tenant.js';
import { SourceReads } from './source-reads.js';
import type { Tenant } from './tenant.js';

/** Unknown keys and wrong options are remembered apart, so that random keys remove no good tenant; and briefly. */
const REFUSALS = { ttl: 5_000, max: 1_000 };

/** The wrong options of a tenant, none where it is unknown. No error: one of a request has a stack of 7 kB. */
type Refusal = readonly ConfigurationProblem[];

interface KnownTenant extends ReadTenant {
  /** {@link Clock.now} until which the source is not asked again. */
  readonly freshUntil: number;
  /** {@link Clock.now} until which these options serve where the source fails. */
  readonly usableUntil: number;
}

/**
 * The tenants of a {@link TenantSource}, each as it was read last. While the source fails, the last good options serve
 * (`tenantCache.staleIfError`).
 */
export class RunTimeTenants {
  readonly #known: ExpiringCache<KnownTenant>;
  /** Unknown keys, and tenants whose options are wrong. */
  readonly #refused: ExpiringCache<Refusal>;
  /** Calls of the source under way: one a key, for which all callers wait. */
  readonly #reads = new Map<string, Promise<Tenant>>();
  readonly #source: SourceReads;

  constructor(
    source: TenantSource,
    private readonly settings: ExhibitorSettings,
    private readonly calls: Calls,
    private readonly clock: Clock,
    private readonly rests: Rests,
    private readonly log: ProblemLog,
  ) {
    this.#source = new SourceReads(source, calls);
    this.#known = createCache(clock, { max: settings.tenantCache.max });
    this.#refused = createCache(clock, { max: REFUSALS.max });
  }

  peek(key: string): Tenant | undefined {
    return this.#known.peek(key)?.tenant;
  }

  /** The tenant of this key; no promise where its options need not be read again. Rejects as {@link readTenant}. */
  find(key: string): Tenant | Promise<Tenant> {
    const known = this.#known.get(key);
    if (known !== undefined && this.#mayServe(key, known)) {
      return known.tenant;
    }
    const refusal = this.#refused.get(key);
    if (refusal !== undefined) {
      return Promise.reject(errorOf(key, refusal));
    }
    return this.#reads.get(key) ?? this.#read(key, known);
  }

  /** Where options are not fresh, they serve while the source rests for their key, and where no read can begin. */
  #mayServe(key: string, { freshUntil, usableUntil }: KnownTenant): boolean {
    const now = this.clock.now();
    const mustWait = this.rests.left(['source', key]) > 0 || (this.#source.isFull && !this.#reads.has(key));
    return now < freshUntil || (now < usableUntil && mustWait);
  }

  /** Drops a tenant. What a read under way finds is for its callers, and is not kept. */
  forget(key: string): void {
    this.#known.delete(key);
    this.#refused.delete(key);
    this.#reads.delete(key);
    this.rests.end(['source', key]);
  }

  #read(key: string, before: KnownTenant | undefined): Promise<Tenant> {
    const read = this.#ask(key, before, () => this.#reads.get(key) === read);
    this.#reads.set(key, read);
    return read;
  }

  async #ask(key: string, before: KnownTenant | undefined, isCurrent: () => boolean): Promise<Tenant> {
    const { http, tenantCache } = this.settings;
    // With last good options, half of the time is left for the call that waits.
    const timeout = before === undefined ? http.deadline : http.deadline / 2;
    const read = (): Promise<unknown> => this.#source.find(key, before !== undefined, timeout);
    try {
      const found = await readTenant(read, key, this.settings, before);
      if (isCurrent()) {
        const freshUntil = this.clock.now() + tenantCache.ttl;
        this.#known.set(key, { ...found, freshUntil, usableUntil: freshUntil + tenantCache.staleIfError });
      }
      return found.tenant;
    } catch (error) {
      // A read that the close of the module has ended says nothing of the source.
      const isFailure = isCurrent() && !this.calls.isClosed;
      const lastGood = isFailure ? this.#afterFailure(key, before, error) : undefined;
      if (lastGood === undefined) {
        throw error;
      }
      return lastGood;
    } finally {
      if (isCurrent()) {
        this.#reads.delete(key);
      }
    }
  }

  /** The tenant whose last good options serve after this error; `undefined` where none do. */
  #afterFailure(key: string, before: KnownTenant | undefined, error: unknown): Tenant | undefined {
    const refusal = refusalOf(error);
    if (refusal !== undefined) {
      this.#known.delete(key);
      this.#refused.set(key, refusal, { ttl: REFUSALS.ttl });
      return undefined;
    }
    // What the host threw is the cause, except of a timeout.
    const thrown = isExhibitorError(error) ? (error.cause ?? error) : error;
    // Of wrong options without a cause there is a refusal: with one, the function that checks their origins has thrown.
    const isOfOrigins = isExhibitorError(error) && error.code === 'configuration_invalid';
    const what = isOfOrigins ? 'the option allowedOrigins' : 'the tenant source';
    if (before === undefined || this.clock.now() >= before.usableUntil) {
      // Visitors can make up keys: those that were never read share a line.
      const named = before === undefined ? '' : key;
      this.log.error(tenantSourceFails(what, key, thrown), `${what} ${named}`);
      return undefined;
    }
    const { staleIfError } = this.settings.tenantCache;
    this.log.warn(tenantSourceFails(what, key, thrown, staleIfError), `${what} ${key}`);
    this.rests.begin(['source', key]);
    return before.tenant;
  }
}

/** What is remembered of an answer of the source. An error with a cause is a failure, which may end at any moment. */
function refusalOf(error: unknown): Refusal | undefined {
  if (!isExhibitorError(error) || error.cause !== undefined) {
    return undefined;
  }
  const wrong = error.code === 'configuration_invalid' ? error.problems : undefined;
  return error.code === 'unknown_tenant' ? [] : wrong;
}

function errorOf(key: string, refusal: Refusal): ExhibitorError {
  return refusal.length === 0 ? unknownTenant(key) : new ConfigurationError(refusal, untrustedText(key));
}
