import { ConfigurationError, type ConfigurationProblem } from '../errors/configuration.error.js';
import type { ExhibitorError } from '../errors/exhibitor.error.js';
import { isExhibitorError } from '../errors/is-exhibitor-error.js';
import { untrustedText } from '../model/untrusted-text.js';
import type { Call } from '../call/call.js';
import { SharedWorks, type Calls } from '../call/calls.service.js';
import type { Clock } from '../call/clock.js';
import type { Rests } from '../call/partner.js';
import { createCache, type ExpiringCache } from '../call/expiring-cache.js';
import type { ExhibitorSettings } from './exhibitor-settings.js';
import type { TenantSource } from './tenant-options.interface.js';
import { tenantSourceFails } from './problems/host-problems.js';
import type { ProblemLog } from './problems/problem-log.service.js';
import { readTenant, unknownTenant, type ReadTenant } from './read-tenant.js';
import { isOwnLimit, SourceReads, sourceTooLate } from './source-reads.js';
import type { Tenant } from './tenant.js';

/** Refusals are kept apart from tenants, so that random keys remove no good tenant; and briefly. */
const REFUSALS = { ttl: 5_000, max: 1_000 };

/**
 * Why a key has no tenant: the source knows none, or answered these wrong options. No error: one of a request has a stack of 7 kB. An error
 * of the source that has a `cause` is no refusal but a failure, which may end at any moment.
 */
type Refusal = 'unknown' | readonly ConfigurationProblem[];

interface KnownTenant extends ReadTenant {
  /** {@link Clock.now} until which the source is not asked again. */
  readonly freshUntil: number;
  /** {@link Clock.now} until which these options serve where the source fails. */
  readonly usableUntil: number;
}

/**
 * The tenants of a {@link TenantSource}, each as it was read last. The first row that fits counts:
 *
 * | a key has                                                                               | its caller                            |
 * | --------------------------------------------------------------------------------------- | ------------------------------------- |
 * | fresh options: read within `tenantCache.ttl`                                            | gets them                             |
 * | last good options, for `staleIfError` more; and the source rests for it or has no place | gets them                             |
 * | been refused within 5 s                                                                 | is refused                            |
 * | last good options                                                                       | waits for a read half of its time     |
 * | none                                                                                    | waits for a read                      |
 */
export class RunTimeTenants {
  readonly #known: ExpiringCache<KnownTenant>;
  readonly #refused: ExpiringCache<Refusal>;
  /** Reads under way: one a key, for which all callers wait. */
  readonly #reads: SharedWorks<string, Tenant>;
  readonly #source: SourceReads;

  constructor(
    source: TenantSource,
    private readonly settings: ExhibitorSettings,
    private readonly calls: Calls,
    private readonly clock: Clock,
    private readonly rests: Rests,
    private readonly log: ProblemLog,
  ) {
    this.#source = new SourceReads(source);
    this.#reads = new SharedWorks(calls);
    this.#known = createCache(clock, { max: settings.tenantCache.max });
    this.#refused = createCache(clock, { max: REFUSALS.max });
  }

  peek(key: string): Tenant | undefined {
    return this.#known.peek(key)?.tenant;
  }

  /**
   * The tenant of this key; no promise where its options need not be read again. Rejects as {@link readTenant}.
   *
   * @param ms time of the caller
   */
  find(key: string, ms?: number): Tenant | Promise<Tenant> {
    const known = this.#known.get(key);
    if (known !== undefined && this.clock.now() < known.freshUntil) {
      return known.tenant;
    }
    const lastGood = this.#lastGood(key);
    if (lastGood !== undefined && !this.#mayRead(key)) {
      return lastGood;
    }
    const refusal = this.#refused.get(key);
    if (refusal !== undefined) {
      return Promise.reject(errorOf(refusal, key));
    }
    return this.#wait(key, ms ?? known?.tenant.http.deadline ?? this.settings.http.deadline);
  }

  /** Drops a tenant. What a read under way finds is for its callers, and is not kept. */
  forget(key: string): void {
    this.#known.delete(key);
    this.#refused.delete(key);
    this.#reads.forget(key);
    this.rests.end(['source', key]);
  }

  /** The options that serve while the source fails; fresh ones too. */
  #lastGood(key: string): Tenant | undefined {
    const known = this.#known.peek(key);
    return known !== undefined && this.clock.now() < known.usableUntil ? known.tenant : undefined;
  }

  /** False while the source rests for this key, and where a read would have to wait for a place. */
  #mayRead(key: string): boolean {
    const hasPlace = !this.#source.isFull || this.#reads.joinable(key) !== undefined;
    return hasPlace && this.rests.left(['source', key]) === 0;
  }

  /** Waits for the read under way, else for a new one. Where that fails, last good options serve, and the source rests for this key. */
  async #wait(key: string, ms: number): Promise<Tenant> {
    // With last good options after half of its time, the call has the other half for its requests.
    const share = this.#lastGood(key) === undefined ? 1 : 0.5;
    const caller = this.calls.start(ms * share);
    // A read is for all callers: this one may have less time than others.
    const readMs = Math.max(ms, this.settings.http.deadline) * share;
    try {
      return await caller.run(() => {
        const read =
          this.#reads.joinable(key) ?? this.#reads.start(key, readMs, (call) => this.#read(key, call));
        return caller.join(read);
      });
    } catch (error) {
      // Perhaps those that a later read has found meanwhile.
      const lastGood = refusalIn(error) === undefined ? this.#lastGood(key) : undefined;
      if (lastGood === undefined) {
        throw caller.isTimeUp ? sourceTooLate(key) : error;
      }
      // Perhaps only this caller had too little time: a read that succeeds ends the rest.
      this.rests.begin(['source', key]);
      return lastGood;
    }
  }

  async #read(key: string, call: Call): Promise<Tenant> {
    const before = this.#known.peek(key);
    const answer = (): Promise<unknown> => this.#source.find(key, before !== undefined, call);
    try {
      const found = await readTenant(answer, key, this.settings, before);
      if (this.#reads.isLatest(key, call)) {
        const { ttl, staleIfError } = this.settings.tenantCache;
        const freshUntil = this.clock.now() + ttl;
        this.#known.set(key, { ...found, freshUntil, usableUntil: freshUntil + staleIfError });
        this.rests.end(['source', key]);
      }
      return found.tenant;
    } catch (error) {
      // A read that the close of the module has ended says nothing of the source.
      if (this.#reads.isLatest(key, call) && !this.calls.isClosed) {
        this.#failed(key, error);
      }
      throw error;
    }
  }

  /** That a key has no tenant is remembered. Any other failure is for the log. */
  #failed(key: string, error: unknown): void {
    const refusal = refusalIn(error);
    if (refusal === undefined) {
      this.#report(key, error);
      if (this.#lastGood(key) !== undefined) {
        this.rests.begin(['source', key]);
      }
      return;
    }
    this.#known.delete(key);
    this.#refused.set(key, refusal, { ttl: REFUSALS.ttl });
  }

  #report(key: string, error: unknown): void {
    if (isOwnLimit(error)) {
      const line =
        'too many keys of tenants are being read at once: the tenant source is slow, or visitors make up keys';
      this.log.warn(line, line);
      return;
    }
    // What the host threw is the cause, except of a timeout.
    const thrown = isExhibitorError(error) ? (error.cause ?? error) : error;
    // Wrong options are a refusal, unless the function that checks their origins has thrown.
    const isOfOrigins = isExhibitorError(error) && error.code === 'configuration_invalid';
    const what = isOfOrigins ? 'the option allowedOrigins' : 'the tenant source';
    if (this.#lastGood(key) !== undefined) {
      const { staleIfError } = this.settings.tenantCache;
      this.log.warn(tenantSourceFails(what, key, thrown, staleIfError), `${what} ${key}`);
      return;
    }
    // Visitors can make up keys: those that were never read share a line.
    const named = this.#known.has(key) ? key : '';
    this.log.error(tenantSourceFails(what, key, thrown), `${what} ${named}`);
  }
}

function refusalIn(error: unknown): Refusal | undefined {
  if (!isExhibitorError(error) || error.cause !== undefined) {
    return undefined;
  }
  if (error.code === 'unknown_tenant') {
    return 'unknown';
  }
  return error.code === 'configuration_invalid' ? error.problems : undefined;
}

function errorOf(refusal: Refusal, key: string): ExhibitorError {
  return refusal === 'unknown' ? unknownTenant(key) : new ConfigurationError(refusal, untrustedText(key));
}
