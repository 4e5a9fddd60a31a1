import { Inject, Injectable } from '@nestjs/common';
import { HealthIndicatorService, type HealthIndicatorResult } from '@nestjs/terminus';
import { LRUCache } from 'lru-cache';
import { firstValueFrom } from 'rxjs';
import { ExhibitorsService, isExhibitorError, TokenService } from '../index.js';

/** Options of {@link ExhibitorHealthIndicator.isHealthy}. */
export interface ExhibitorHealthOptions {
  /** Key of the tenant. Default: the only one. */
  tenant?: string;
  /** Also reads one page of one record of this event, at every check. Default: only the token endpoint is checked. */
  eventId?: string;
  /** Ms for which an access token proves that the token endpoint grants tokens, counted from its request. Default 300 000. */
  maxAge?: number;
  /** Ms for all of the check. Default 800: below the second that a kubelet waits. */
  timeout?: number;
}

/** The checks of one tenant and event. */
interface Checks {
  /** `error`: what failed. Where it is up all the same, the token that is held still serves. */
  running?: Promise<{ isUp: boolean; error: unknown }> | undefined;
  /** By `performance.now()`. */
  succeededAt?: number | undefined;
}

/** Tenants and events whose last success is remembered. */
const MOST_CHECKS = 1_000;

/**
 * A health indicator for `@nestjs/terminus` 11 and 12. Provide it in a module that imports `TerminusModule`.
 *
 * - `up`: a token was obtained within `maxAge`, by calls or by this check; with `eventId`, a page came as well.
 * - `degraded`: the token endpoint fails, and the token that is held still serves. With Terminus 11, which lacks that status, `up`
 *   with `degraded: true`.
 * - `down`: there is no token, or the page did not come.
 *
 * Its details are `lastSuccessAgeMs`, the time since the last success in this process; `circuit`, `open` where the request was not
 * sent, since too many failed or wait; and the `code` of an `ExhibitorError`. They contain no secret. Concurrent checks of
 * a tenant and event share one request; that of a token is also shared with calls.
 *
 * @example
 * @Get('ready')
 * @HealthCheck()
 * ready() {
 *   return this.health.check([() => this.exhibitors.isHealthy('exhibitors', { tenant: 'acme' })]);
 * }
 */
@Injectable()
export class ExhibitorHealthIndicator {
  readonly #checks = new LRUCache<string, Checks>({ max: MOST_CHECKS });

  constructor(
    @Inject(HealthIndicatorService) private readonly results: HealthIndicatorService,
    @Inject(TokenService) private readonly tokens: TokenService,
    @Inject(ExhibitorsService) private readonly exhibitors: ExhibitorsService,
  ) {}

  /**
   * Checks a tenant. A failure is a status, also where the tenant is unknown.
   *
   * @param key name of the indicator in the reply
   */
  async isHealthy(key: string, options: ExhibitorHealthOptions = {}): Promise<HealthIndicatorResult> {
    const subject = JSON.stringify([options.tenant, options.eventId]);
    const checks = this.#checks.get(subject) ?? {};
    this.#checks.set(subject, checks);
    checks.running ??= this.#check(checks, options).finally(() => {
      checks.running = undefined;
    });
    const { isUp, error } = await checks.running;
    const details = {
      circuit: wasNotSent(error) ? 'open' : 'closed',
      lastSuccessAgeMs: checks.succeededAt && Math.round(performance.now() - checks.succeededAt),
      code: isExhibitorError(error) ? error.code : undefined,
    };
    const result = this.results.check(key);
    if (isUp && error !== undefined) {
      // Terminus 11 has no such method.
      return result.degraded?.(details) ?? result.up({ ...details, degraded: true });
    }
    return isUp ? result.up(details) : result.down(details);
  }

  async #check(checks: Checks, options: ExhibitorHealthOptions): Promise<{ isUp: boolean; error: unknown }> {
    const { tenant, eventId, maxAge = 300_000, timeout = 800 } = options;
    const call = { tenant, itemsPerPage: 1, deadline: timeout };
    const page = eventId === undefined ? undefined : firstValueFrom(this.exhibitors.list(eventId, call));
    try {
      const [{ age, error }] = await Promise.all([this.tokens.prove(tenant, maxAge, timeout), page]);
      checks.succeededAt = performance.now() - (page === undefined ? age : 0);
      return { isUp: true, error };
    } catch (error) {
      return { isUp: false, error };
    }
  }
}

/** The circuit is open, or the queue of the tenant is full. */
function wasNotSent(error: unknown): boolean {
  return isExhibitorError(error) && error.attempts === 0 && error.retryAfterMs !== undefined;
}
