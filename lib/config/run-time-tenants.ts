import { ConfigurationError, type ConfigurationProblem } from '../errors/configuration.error.js';
import type { ExhibitorError } from '../errors/exhibitor.error.js';
import { isExhibitorError } from '../errors/is-exhibitor-error.js';
import { untrustedText } from '../model/untrusted-text.js';
import type { ExhibitorSettings } from './exhibitor-settings.js';
import type { TenantSource } from './tenant-options.interface.js';
import { tenantSourceFails } from './problems/host-problems.js';
import type { ProblemLog } from './problems/problem-log.service.js';
import type { Call, SharedWork } from '../call/call.js';
import type { Calls } from '../call/calls.service.js';
import type { Clock } from '../call/clock.js';
import type { Rests } from '../call/rests.js';
import { createCache, type ExpiringCache } from '../call/expiring-cache.js';
import { joinable, startShared } from '../call/shared-work.js';
import { readTenant, unknownTenant, type ReadTenant } from './read-tenant.js';
import { SourceReads, sourceTooLate } from './source-reads.js';
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
  readonly #reads = new Map<string, SharedWork<Tenant>>();
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
    if (known !== undefined && this.#mayServe(key, known)) {
      return known.tenant;
    }
    const refusal = this.#refused.get(key);
    if (refusal !== undefined) {
      return Promise.reject(refusedBy(refusal, key));
    }
    return this.#wait(key, known, ms ?? known?.tenant.http.deadline ?? this.settings.http.deadline);
  }

  /** Waits for the read under way, else for a new one: for half of the time where last good options can serve for the other half. */
  async #wait(key: string, known: KnownTenant | undefined, ms: number): Promise<Tenant> {
    const part = this.#isUsable(known) ? 0.5 : 1;
    const joined = joinable(this.#reads.get(key));
    const longest = Math.max(ms, this.settings.http.deadline);
    const read = joined ?? this.#begin(key, known, longest * part);
    // After the read, whose timer then fires first: where both end at the same time, its failure is noted before this caller goes on. To
    // join it would set its timer anew.
    const own = this.calls.start(ms * part);
    try {
      return await own.run(() => (joined === undefined ? own.race(read.result) : own.join(joined)));
    } catch (error) {
      const latest = this.#known.peek(key);
      const isFailure = own.isTimeUp || refusalOf(error) === undefined;
      // Last good options, or those that a later read has found meanwhile.
      if (isFailure && this.#isUsable(latest)) {
        return latest.tenant;
      }
      throw own.isTimeUp ? sourceTooLate(key) : error;
    }
  }

  /** True where these options serve while the source fails. */
  #isUsable(known: KnownTenant | undefined): known is KnownTenant {
    return known !== undefined && this.clock.now() < known.usableUntil;
  }

  /** Where options are not fresh, they serve while the source rests for their key, and where no read can begin. */
  #mayServe(key: string, known: KnownTenant): boolean {
    const mustWait = (): boolean =>
      this.rests.left(['source', key]) > 0 || (this.#source.isFull && !this.#reads.has(key));
    return this.clock.now() < known.freshUntil || (this.#isUsable(known) && mustWait());
  }

  /** Drops a tenant. What a read under way finds is for its callers, and is not kept. */
  forget(key: string): void {
    this.#known.delete(key);
    this.#refused.delete(key);
    this.#reads.delete(key);
    this.rests.end(['source', key]);
  }

  #begin(key: string, before: KnownTenant | undefined, ms: number): SharedWork<Tenant> {
    const isCurrent = (): boolean => this.#reads.get(key) === read;
    const read = startShared(this.calls, ms, (call) => this.#ask(key, before, call, isCurrent));
    this.#reads.set(key, read);
    return read;
  }

  async #ask(
    key: string,
    before: KnownTenant | undefined,
    call: Call,
    isCurrent: () => boolean,
  ): Promise<Tenant> {
    const { tenantCache } = this.settings;
    const answer = (): Promise<unknown> => this.#source.find(key, before !== undefined, call);
    try {
      const found = await readTenant(answer, key, this.settings, before);
      if (isCurrent()) {
        const freshUntil = this.clock.now() + tenantCache.ttl;
        this.#known.set(key, { ...found, freshUntil, usableUntil: freshUntil + tenantCache.staleIfError });
      }
      return found.tenant;
    } catch (error) {
      // A read that the close of the module has ended says nothing of the source.
      if (isCurrent() && !this.calls.isClosed) {
        this.#noteFailure(key, before, error);
      }
      throw error;
    } finally {
      if (isCurrent()) {
        this.#reads.delete(key);
      }
    }
  }

  /**
   * A read has failed. That there is no such tenant, or that its options are wrong, is remembered. Any other failure is logged, and its key
   * rests where last good options serve.
   */
  #noteFailure(key: string, before: KnownTenant | undefined, error: unknown): void {
    const refusal = refusalOf(error);
    if (refusal !== undefined) {
      this.#known.delete(key);
      this.#refused.set(key, refusal, { ttl: REFUSALS.ttl });
      return;
    }
    // What the host threw is the cause, except of a timeout.
    const thrown = isExhibitorError(error) ? (error.cause ?? error) : error;
    // Of wrong options without a cause there is a refusal: with one, the function that checks their origins has thrown.
    const isOfOrigins = isExhibitorError(error) && error.code === 'configuration_invalid';
    const what = isOfOrigins ? 'the option allowedOrigins' : 'the tenant source';
    if (!this.#isUsable(before)) {
      // Visitors can make up keys: those that were never read share a line.
      const named = before === undefined ? '' : key;
      this.log.error(tenantSourceFails(what, key, thrown), `${what} ${named}`);
      return;
    }
    const { staleIfError } = this.settings.tenantCache;
    this.log.warn(tenantSourceFails(what, key, thrown, staleIfError), `${what} ${key}`);
    this.rests.begin(['source', key]);
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

function refusedBy(refusal: Refusal, key: string): ExhibitorError {
  return refusal.length === 0 ? unknownTenant(key) : new ConfigurationError(refusal, untrustedText(key));
}
