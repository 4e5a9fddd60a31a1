import { Logger } from '@nestjs/common';
import { HTTP_STATUS_BY_CODE } from '../errors/error-codes.js';
import type { ExhibitorError } from '../errors/exhibitor.error.js';
import type { Clock } from '../time/clock.js';
import { LogThrottle } from '../time/log-throttle.js';

/** Shortest time between two lines about one mistake, in ms. */
const REPORT_EVERY = 60_000;

/**
 * Logs mistakes of the host that a request has shown (`configuration_invalid`, `tenant_required`), as Nest logs errors that it
 * does not know: visitors are told nothing of them. Each mistake of each tenant is logged once a minute.
 */
export class HostMistakes {
  readonly #logger = new Logger('nestjs-exhibitor');
  readonly #throttle: LogThrottle;

  constructor(clock: Clock) {
    this.#throttle = new LogThrottle(clock, REPORT_EVERY);
  }

  /** Logs the error if it is a mistake of the host. */
  report(error: ExhibitorError): void {
    const { code, tenant = '', message } = error;
    if (HTTP_STATUS_BY_CODE[code] === 500 && this.#throttle.allows(`${code} ${tenant} ${message}`)) {
      this.#logger.error(error);
    }
  }
}
