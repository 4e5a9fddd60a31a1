import { Inject, Injectable, Logger, type OnApplicationShutdown } from '@nestjs/common';
import { ConfigurationError } from '../../errors/configuration.error.js';
import { HTTP_STATUS_BY_CODE, type ExhibitorErrorCode } from '../../errors/error-codes.js';
import { ExhibitorError } from '../../errors/exhibitor.error.js';
import { LoginFailedError, type LoginFailureDetails } from '../../errors/login-failed.error.js';
import { untrustedText } from '../../model/untrusted-text.js';
import { CHECKED_OPTIONS, type CheckedOptions } from '../check-options.js';
import { Clock } from '../../call/clock.js';
import { createCache, type ExpiringCache } from '../../call/expiring-cache.js';
import { errorName, firstFrame, stackText } from './host-problems.js';
import { PartnerFailures } from './partner-failures.js';
import type { Problem, Refusal } from './problem.interface.js';

const LOGGER = new Logger('nestjs-exhibitor');

/** Shortest time between two lines about one cause, in ms. */
const LOG_EVERY = 60_000;

/** Causes that are remembered. Beyond, the one that was seen least recently may be logged again before its time. */
const MAX_CAUSES = 10_000;

/** Characters of a message and of a value that are shown. */
const LONGEST_MESSAGE = 400;
const LONGEST_VALUE = 200;

interface ReportedTenant {
  readonly key: string;
  /** Replaced where the options of the tenant change. */
  readonly stateKey: { readonly id: number };
}

/** A function in the options. */
interface HostFunction {
  /** Path below the options of `tenant`, or of the module where there is none. */
  readonly option: string;
  readonly tenant?: ReportedTenant | undefined;
  /** Names the tenant of the call to its caller. Default: that of `tenant`. */
  readonly key?: string | undefined;
}

/**
 * Tells the operator in the log, through Nest's `Logger`, which option to look at: one line a minute for each cause. Visitors get a
 * general message. A tenant whose options changed is reported at once, since the mistake may be another one.
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
export class ProblemLog implements OnApplicationShutdown {
  /** {@link Clock.now} of the last line of each cause. */
  readonly #loggedAt: ExpiringCache<number>;
  readonly #pathOf: CheckedOptions['pathOf'];
  readonly #failures: PartnerFailures;

  constructor(
    @Inject(CHECKED_OPTIONS) { pathOf }: Pick<CheckedOptions, 'pathOf'>,
    @Inject(Clock) private readonly clock: Clock,
  ) {
    this.#pathOf = pathOf;
    this.#loggedAt = createCache(clock, { max: MAX_CAUSES });
    this.#failures = new PartnerFailures((line) => LOGGER.warn(line));
  }

  /** Logs the problem, unless this cause of this tenant was logged within the last minute. Without tenant: of any of several. */
  report(tenant: ReportedTenant | undefined, problem: Problem | undefined): void {
    if (problem === undefined) {
      return;
    }
    const { cause, options, isUnverified, isWarning } = problem;
    const path = this.#pathOf(tenant?.key ?? '*');
    const paths = options.map((option) => `${path}.${option}`);
    const line = `${paths.length === 0 ? path : paths.join(', ')}: ${lineOf(problem)}`;
    const ofTenant = `${tenant?.stateKey.id} ${cause}`;
    if (isUnverified === true) {
      this.warn(`${line} (unverified: the browser or the client delivered it)`, `unverified ${ofTenant}`);
    } else if (isWarning === true) {
      this.warn(line, ofTenant);
    } else {
      this.error(line, ofTenant);
    }
  }

  /**
   * Logs that a request to a partner failed: the first of a minute at once, the others as one line at its end. A problem with an option
   * to look at is logged as any other.
   *
   * @param how from a fixed set: `status 503`
   */
  partnerFailed(tenant: ReportedTenant, operation: string, how: string, problem: Problem): void {
    const isFirst = this.#failures.isFirst(`${operation} of ${untrustedText(tenant.key)}`, how);
    if (isFirst || problem.options.length > 0) {
      this.report(tenant, problem);
    }
  }

  onApplicationShutdown(): void {
    this.#failures.close();
  }

  /**
   * Logs why a check refuses a login or a token, and returns the error for its caller. No line has only what a person alone can cause:
   * `denied`, and a `state` that is missing, spent, expired or does not open.
   *
   * @param what that is refused: `ID token`, `callback`
   * @param details `message` is for visitors
   */
  refusal(
    tenant: ReportedTenant | undefined,
    what: string,
    { reason, option = [], detail, ...values }: Refusal,
    {
      message = `the login is refused: ${reason}`,
      ...details
    }: LoginFailureDetails & { message?: string } = {},
  ): LoginFailedError {
    this.report(tenant, {
      cause: `${what} ${reason} ${detail} ${[option].flat().join()}`,
      options: [option].flat(),
      message: `the ${what} is refused (${reason})${detail === undefined ? '' : `: ${detail}`}`,
      ...values,
    });
    return new LoginFailedError(reason, message, { tenant: tenant?.key, ...details });
  }

  /** Logs what a function of the host threw, with its stack: once a minute for each function, name and first frame. */
  hostFailed({ option, tenant }: HostFunction, thrown: unknown): void {
    const problem = {
      cause: `${option} ${firstFrame(thrown)}`,
      options: [option],
      message: `the function of the host failed (${errorName(thrown)})`,
      stack: stackText(thrown),
    };
    if (tenant === undefined) {
      this.error(`${option}: ${lineOf(problem)}`, problem.cause);
    } else {
      this.report(tenant, problem);
    }
  }

  /**
   * Logs what a function of the host threw, and returns the error of the call, which has it as its `cause`.
   *
   * @param failure what that error says. Default: a {@link ConfigurationError} for the option
   */
  hostError(
    place: HostFunction,
    thrown: unknown,
    failure?: { code: ExhibitorErrorCode; message: string; attempts?: number },
  ): ExhibitorError {
    this.hostFailed(place, thrown);
    const { option, tenant, key = tenant?.key } = place;
    if (failure === undefined) {
      return new ConfigurationError([{ path: option, expected: 'threw an error' }], key, thrown ?? null);
    }
    const { code, message, attempts } = failure;
    return new ExhibitorError(code, message, { tenant: key, attempts, cause: thrown, isOfHost: true });
  }

  /**
   * Logs an error of a request of which visitors are told only the status, each of each tenant once a minute. A mistake of the host
   * (`configuration_invalid`, `tenant_required`) is logged as Nest logs errors that it does not know. Others are reported where they
   * are found.
   */
  reportMistake(error: ExhibitorError): void {
    const { code, tenant = '', message, isOfHost } = error;
    if (isOfHost === true) {
      return;
    }
    if (HTTP_STATUS_BY_CODE[code] === 500) {
      this.error(error, `${code} ${tenant} ${message}`);
    } else if (code === 'malformed_response' || code === 'pagination_drift') {
      this.warn(
        `${this.#pathOf(tenant)}: ${code}: ${untrustedText(message, LONGEST_MESSAGE)}`,
        `${code} ${tenant}`,
      );
    } else if (code === 'unknown_tenant') {
      // The key comes from outside.
      this.warn(`a request names the tenant '${untrustedText(tenant)}', which does not exist`, code);
    }
  }

  /** Returns whether the line was logged. */
  warn(line: string, cause: string): boolean {
    const isDue = this.#isDue(cause);
    if (isDue) {
      LOGGER.warn(line);
    }
    return isDue;
  }

  error(line: string | Error, cause: string): void {
    if (this.#isDue(cause)) {
      LOGGER.error(line);
    }
  }

  /** Without a limit: for the end of a failure that was logged. */
  info(line: string): void {
    LOGGER.log(line);
  }

  /** Whether a line of this cause may be logged now. After `true` the next one has to wait. */
  #isDue(cause: string): boolean {
    const now = this.clock.now();
    const loggedAt = this.#loggedAt.get(cause);
    if (loggedAt !== undefined && now - loggedAt < LOG_EVERY) {
      return false;
    }
    this.#loggedAt.set(cause, now);
    return true;
  }
}

function lineOf(problem: Problem): string {
  const { stack } = problem;
  return stack === undefined ? problemText(problem) : `${problemText(problem)}\n${stack}`;
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
