import { Inject, Injectable, Logger } from '@nestjs/common';
import { foreignText } from '../model/foreign-text.js';
import { CHECKED_OPTIONS, type CheckedOptions } from '../options/check-options.js';
import { Clock } from '../time/clock.js';
import { LogThrottle } from '../time/log-throttle.js';
import { PerTenant } from './per-tenant.js';
import type { Tenant } from './tenant.js';

/** Shortest time between two lines about one cause of one tenant, in ms. */
const REPORT_EVERY = 60_000;

/** Characters of a message and of a value that are shown. */
const LONGEST_MESSAGE = 400;
const LONGEST_VALUE = 200;

/** A failure that only an operator can mend. */
export interface OperatorProblem {
  /**
   * Identifies the cause: one line a minute for each tenant and cause. Choose it from a fixed set. A cause from outside would
   * have no limit.
   */
  cause: string;
  /** Options to look at, by their paths below the tenant: `login.issuer`. */
  options: readonly string[];
  /** What happened. Secrets must be removed, see `scrub`; the rest of foreign text is made safe here. */
  message: string;
  /** Expected and received value, where neither is a secret. Text from outside is made safe here. */
  expected?: string;
  received?: string;
  /**
   * True where a browser or a client delivered the cause, so that anybody can forge it. The line is a warning that says so, and
   * has a limit of its own.
   */
  isUnverified?: boolean;
  /** True where the options may be right: logged as a warning. Default: as an error. */
  isWarning?: boolean;
}

/**
 * Tells the operator in the log which option to look at. Visitors get a general message. A tenant whose options changed is
 * reported at once, since the mistake may be another one.
 *
 * @example
 * operatorLog.report(tenant, {
 *   cause: 'issuer',
 *   options: ['login.issuer'],
 *   message: 'the ID token is refused',
 *   expected: login.issuer,
 *   received: claims.iss,
 * });
 */
@Injectable()
export class OperatorLog {
  readonly #logger = new Logger('nestjs-exhibitor');
  readonly #throttles = new PerTenant<LogThrottle>();
  readonly #pathOf: CheckedOptions['pathOf'];
  readonly #clock: Clock;

  constructor(@Inject(CHECKED_OPTIONS) { pathOf }: CheckedOptions, @Inject(Clock) clock: Clock) {
    this.#pathOf = pathOf;
    this.#clock = clock;
  }

  /** Logs the problem, unless this cause of this tenant was logged within the last minute. */
  report(tenant: Tenant, problem: OperatorProblem): void {
    const { cause, isUnverified = false } = problem;
    const throttle = this.#throttles.getOrCreate(tenant, () => new LogThrottle(this.#clock, REPORT_EVERY));
    if (!throttle.allows(isUnverified ? `unverified ${cause}` : cause)) {
      return;
    }
    const path = this.#pathOf(tenant.key);
    const paths = problem.options.map((option) => `${path}.${option}`);
    const line = `${paths.length === 0 ? path : paths.join(', ')}: ${textOf(problem)}`;
    if (isUnverified) {
      this.#logger.warn(`${line} (unverified: the browser or the client delivered it)`);
    } else if (problem.isWarning === true) {
      this.#logger.warn(line);
    } else {
      this.#logger.error(line);
    }
  }
}

function textOf({ message, expected, received }: OperatorProblem): string {
  const values = [
    ...(expected === undefined ? [] : [`expected ${shown(expected)}`]),
    ...(received === undefined ? [] : [`received ${shown(received)}`]),
  ];
  return [foreignText(message, { longest: LONGEST_MESSAGE }), values.join(', ')].filter(Boolean).join('; ');
}

function shown(value: string): string {
  return `'${foreignText(value, { longest: LONGEST_VALUE })}'`;
}
