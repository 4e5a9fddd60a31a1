import { Inject, Injectable } from '@nestjs/common';
import type { ExhibitorError } from '../errors/exhibitor.error.js';
import { HTTP_STATUS_BY_CODE } from '../errors/error-codes.js';
import { untrustedText } from '../model/untrusted-text.js';
import { CHECKED_OPTIONS, type CheckedOptions } from '../options/check-options.js';
import { Clock } from '../time/clock.js';
import type { Problem } from './problem.interface.js';
import { ThrottledLog } from './throttled-log.js';

/** Shortest time between two lines about one cause of one tenant, in ms. */
const REPORT_EVERY = 60_000;

/** Characters of a message and of a value that are shown. */
const LONGEST_MESSAGE = 400;
const LONGEST_VALUE = 200;

interface ReportedTenant {
  readonly key: string;
  /** Replaced where the options of the tenant change. */
  readonly stateKey: { readonly id: number };
}

/**
 * Tells the operator in the log which option to look at. Visitors get a general message. A tenant whose options changed is
 * reported at once, since the mistake may be another one.
 *
 * @example
 * problemLog.report(tenant, {
 *   cause: 'issuer',
 *   options: ['login.issuer'],
 *   message: 'the ID token is refused',
 *   expected: login.issuer,
 *   received: claims.iss,
 * });
 */
@Injectable()
export class ProblemLog {
  readonly #log: ThrottledLog;
  readonly #pathOf: CheckedOptions['pathOf'];

  constructor(
    @Inject(CHECKED_OPTIONS) { pathOf }: Pick<CheckedOptions, 'pathOf'>,
    @Inject(Clock) clock: Clock,
  ) {
    this.#pathOf = pathOf;
    this.#log = new ThrottledLog(clock, REPORT_EVERY);
  }

  /** Logs the problem, unless this cause of this tenant was logged within the last minute. Without tenant: of any of several. */
  report(tenant: ReportedTenant | undefined, problem: Problem | undefined): void {
    if (problem === undefined) {
      return;
    }
    const { cause, options, isUnverified, isWarning } = problem;
    const path = tenant === undefined ? 'tenants.*' : this.#pathOf(tenant.key);
    const paths = options.map((option) => `${path}.${option}`);
    const line = `${paths.length === 0 ? path : paths.join(', ')}: ${problemText(problem)}`;
    const ofTenant = `${tenant?.stateKey.id} ${cause}`;
    if (isUnverified === true) {
      this.#log.warn(
        `${line} (unverified: the browser or the client delivered it)`,
        `unverified ${ofTenant}`,
      );
    } else if (isWarning === true) {
      this.#log.warn(line, ofTenant);
    } else {
      this.#log.error(line, ofTenant);
    }
  }

  /**
   * Logs an error of a request of which visitors are told only the status. A mistake of the host (`configuration_invalid`,
   * `tenant_required`) is logged as Nest logs errors that it does not know, each of each tenant once a minute. A reply of the
   * service that cannot be used is logged once a minute for each tenant. Other failures are reported where they are found.
   */
  reportMistake(error: ExhibitorError): void {
    const { code, tenant = '', message } = error;
    if (HTTP_STATUS_BY_CODE[code] === 500) {
      this.#log.error(error, `${code} ${tenant} ${message}`);
    } else if (code === 'malformed_response' || code === 'pagination_drift') {
      this.#log.warn(
        `${this.#pathOf(tenant)}: ${code}: ${untrustedText(message, LONGEST_MESSAGE)}`,
        `${code} ${tenant}`,
      );
    }
  }
}

/** The message with what was expected and received, without control characters. */
export function problemText({ message, expected, received }: Problem): string {
  const values = [
    ...(expected === undefined ? [] : [`expected ${shown(expected)}`]),
    ...(received === undefined ? [] : [`received ${shown(received)}`]),
  ];
  return [untrustedText(message, LONGEST_MESSAGE), values.join(', ')].filter(Boolean).join('; ');
}

function shown(value: string): string {
  return `'${untrustedText(value, LONGEST_VALUE)}'`;
}
