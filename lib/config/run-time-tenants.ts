import type { ExhibitorError } from '../errors/exhibitor.error.js';
import type { Call } from '../call/call.js';
import { SharedWorks, type Calls } from '../call/calls.service.js';
import type { Clock } from '../call/clock.js';
import type { Rests } from '../call/partner.js';
import { createCache, type ExpiringCache } from '../call/expiring-cache.js';
import type { ExhibitorSettings } from './exhibitor-settings.js';
import type { TenantSource } from './tenant-options.interface.js';
import { tenantSourceFails } from './problems/host-problems.js';
import type { ProblemLog } from './problems/problem-log.service.js';
import { readTenant, refusalError, type Reading, type ReadTenant, type Refusal } from './read-tenant.js';
import { readTooLate, SourceReads } from './source-reads.js';
import type { Tenant } from './tenant.js';

/** Refusals are kept apart from tenants, so that random keys remove no good tenant; and briefly. */
const REFUSALS = { ttl: 5_000, max: 1_000 };

const TOO_MANY_KEYS =
  'too many keys of tenants are being read at once: the tenant source is slow, or visitors make up keys';

interface KnownTenant extends ReadTenant {
  /** {@link Clock.now} until which the source is not asked again. */
  readonly freshUntil: number;
  /** {@link Clock.now} until which these options serve where the source fails. */
  readonly usableUntil: number;
}

/**
 * The tenants of a {@link TenantSource}, each as it was read last. The first row that fits counts:
 *
 * | a key has                                                                               | its caller                                                            |
 * | --------------------------------------------------------------------------------------- | --------------------------------------------------------------------- |
 * | fresh options: read within `tenantCache.ttl`                                            | gets them                                                             |
 * | last good options, for `staleIfError` more; and the source rests for it or has no place | gets them                                                             |
 * | been refused within 5 s                                                                 | is refused                                                            |
 * | last good options                                                                       | waits half of its time for a read; gets them if that fails or is late |
 * | none                                                                                    | waits for a read                                                      |
 */
export class RunTimeTenants {
  readonly #known: ExpiringCache<KnownTenant>;
  readonly #refused: ExpiringCache<Refusal>;
  /** Reads under way: one a key, for which all callers wait. */
  readonly #reads: SharedWorks<string, Reading>;
  readonly #source: SourceReads;

  constructor(
    source: TenantSource,
    private readonly settings: ExhibitorSettings,
    private readonly calls: Calls,
    private readonly clock: Clock,
    private readonly rests: Rests,
    private readonly log: ProblemLog,
  ) {
    this.#source = new SourceReads(source, clock);
    this.#reads = new SharedWorks(calls);
    this.#known = createCache(clock, { max: settings.tenantCache.max });
    this.#refused = createCache(clock, { max: REFUSALS.max });
  }

  peek(key: string): Tenant | undefined {
    return this.#known.peek(key)?.tenant;
  }

  /**
   * The tenant of this key; no promise where its options need not be read again.
   *
   * @param ms time of the caller
   * @throws {ExhibitorError} as `TenantRegistry.get`, as a rejection
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
      return Promise.reject(refusalError(refusal, key));
    }
    const { deadline } = this.settings.http;
    const ofCaller = ms ?? known?.tenant.http.deadline ?? deadline;
    // A read is for all callers: this one may have less time than others.
    const ofRead = Math.max(ofCaller, deadline);
    // With last good options after half of its time, the call has the other half for its requests.
    return lastGood === undefined
      ? this.#wait(key, ofCaller, ofRead)
      : this.#wait(key, ofCaller / 2, ofRead / 2);
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

  /** Waits for the read under way, else for a new one. Where that has no answer in time, last good options serve. */
  async #wait(key: string, callerMs: number, readMs: number): Promise<Tenant> {
    const read = this.#reads.joinable(key) ?? this.#reads.start(key, readMs, (call) => this.#read(key, call));
    const caller = this.calls.start(callerMs);
    const reading = await caller
      .run(() => caller.join(read))
      .catch((error: unknown) => {
        const isOfSource = read.call.hasPartnerFailed(callerMs);
        return { kind: 'left', error: caller.isTimeUp ? readTooLate(key, isOfSource) : error } as const;
      });
    if (reading.kind === 'found') {
      return reading.found.tenant;
    }
    if (reading.kind === 'refused') {
      throw refusalError(reading.refusal, key);
    }
    // Perhaps those that a later read has found meanwhile.
    const lastGood = this.#lastGood(key);
    if (lastGood === undefined) {
      throw reading.error;
    }
    if (reading.kind === 'left') {
      // Perhaps only this caller had too little time: a read that succeeds ends the rest.
      this.rests.begin(['source', key]);
    }
    return lastGood;
  }

  async #read(key: string, call: Call): Promise<Reading> {
    const reading = await readTenant(this.#source, key, this.settings, this.#known.peek(key), call);
    // A read that the close of the module has ended says nothing of the source.
    if (this.#reads.isLatest(key, call) && !this.calls.isClosed) {
      this.#remember(key, reading);
    }
    return reading;
  }

  /** Keeps a tenant, or that there is none. Any other end is for the log. */
  #remember(key: string, reading: Reading): void {
    switch (reading.kind) {
      case 'found': {
        const { ttl, staleIfError } = this.settings.tenantCache;
        const freshUntil = this.clock.now() + ttl;
        this.#known.set(key, { ...reading.found, freshUntil, usableUntil: freshUntil + staleIfError });
        this.rests.end(['source', key]);
        return;
      }
      case 'refused':
        this.#known.delete(key);
        this.#refused.set(key, reading.refusal, { ttl: REFUSALS.ttl });
        return;
      case 'failed':
        this.#failed(key, reading.what, reading.error);
        return;
      case 'not asked':
        this.log.warn(TOO_MANY_KEYS, TOO_MANY_KEYS);
    }
  }

  #failed(key: string, what: string, error: ExhibitorError): void {
    if (this.#lastGood(key) !== undefined) {
      const { staleIfError } = this.settings.tenantCache;
      this.log.warn(tenantSourceFails(what, key, error, staleIfError), `${what} ${key}`);
      this.rests.begin(['source', key]);
      return;
    }
    // Visitors can make up keys: those that were never read share a line.
    const named = this.#known.has(key) ? key : '';
    this.log.error(tenantSourceFails(what, key, error), `${what} ${named}`);
  }
}
