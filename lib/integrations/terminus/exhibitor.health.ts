import { Inject, Injectable } from '@nestjs/common';
import { HealthIndicatorService, type HealthIndicatorResult } from '@nestjs/terminus';
import { firstValueFrom } from 'rxjs';
import { ExhibitorsService, isExhibitorError, TokenService } from '../../index.js';

/** Options of {@link ExhibitorHealthIndicator.isHealthy}. */
export interface ExhibitorHealthOptions {
  /** Key of the tenant. Default: the only one. */
  tenant?: string;
  /** Also reads one page of one record of this event, at every check. Default: only the token is checked. */
  eventId?: string;
  /** Ms for all of the check. Default 800: below the second that a kubelet waits. */
  timeout?: number;
}

/**
 * A health indicator for `@nestjs/terminus` 11 and 12. Provide it in a module that imports `TerminusModule`. It is `up` where a
 * token is held or comes, and with `eventId` a page as well; else `down`. Its details are the `code` of an `ExhibitorError`, and
 * `circuit`: `open` where the request was not sent, since too many got no reply or wait, or the partner asked for a pause that is longer
 * than `http.deadline`. They contain no secret.
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
    const { tenant, eventId, timeout = 800 } = options;
    const result = this.results.check(key);
    const call = { tenant, signal: AbortSignal.timeout(timeout) };
    try {
      const page = eventId === undefined ? [] : [this.exhibitors.list(eventId, { ...call, itemsPerPage: 1 })];
      await Promise.all([this.tokens.getToken(call), ...page.map((one) => firstValueFrom(one))]);
      return result.up({ circuit: 'closed' });
    } catch (error) {
      if (!isExhibitorError(error)) {
        return result.down({ circuit: 'closed' });
      }
      const isOpen = error.attempts === 0 && error.retryAfterMs !== undefined;
      const code = error.code === 'aborted' ? 'deadline_exceeded' : error.code;
      return result.down({ circuit: isOpen ? 'open' : 'closed', code });
    }
  }
}
