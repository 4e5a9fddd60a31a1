import type { ExhibitorErrorCode } from './error-codes.js';

/** Details of a failure, where they are known. */
export interface ExhibitorErrorDetails {
  /** Key of the tenant. */
  tenant?: string | undefined;
  /** HTTP status of the service's reply. */
  status?: number | undefined;
  /** Time to wait before the next call, in milliseconds. */
  retryAfterMs?: number | undefined;
  /** Number of requests sent. */
  attempts?: number | undefined;
  /** Error thrown by a function of the host. Errors of HTTP clients are never passed on: they show the bearer token. */
  cause?: unknown;
  /** True where a function of the host failed, whose error is the `cause`. Guards and filter then answer 500, whatever the code. @internal */
  isOfHost?: boolean | undefined;
}

/** Marks the errors of every copy of this package in a process: a registered symbol is the same in all of them. */
export const EXHIBITOR_ERROR = Symbol.for('nestjs-exhibitor.error');

/**
 * Base class of all errors of this package. Its message, `JSON.stringify` and `util.inspect` show no token, secret, cookie or
 * e-mail address, so it may be logged.
 *
 * @example
 * try {
 *   await firstValueFrom(exhibitors.list(eventId));
 * } catch (error) {
 *   if (isExhibitorError(error) && error.code === 'rate_limited') await sleep(error.retryAfterMs ?? 1_000);
 * }
 */
export class ExhibitorError extends Error {
  /** Stable identifier of the failure. */
  readonly code: ExhibitorErrorCode;
  declare readonly tenant?: string;
  declare readonly status?: number;
  declare readonly retryAfterMs?: number;
  declare readonly attempts?: number;
  /** @internal */
  declare readonly isOfHost?: boolean;

  static {
    Object.defineProperty(this.prototype, EXHIBITOR_ERROR, { value: true });
  }

  constructor(code: ExhibitorErrorCode, message: string, details: ExhibitorErrorDetails = {}) {
    const { cause, ...known } = details;
    super(message, cause === undefined ? undefined : { cause });
    this.name = new.target.name;
    this.code = code;
    for (const [field, value] of Object.entries(known)) {
      if (value !== undefined) {
        // Logs and replies do not show `isOfHost`.
        Object.defineProperty(this, field, { value, enumerable: field !== 'isOfHost' });
      }
    }
  }

  /** The fields that may be shown in logs and replies. */
  toJSON(): Record<string, unknown> {
    return { ...Object.fromEntries(Object.entries(this)), name: this.name, message: this.message };
  }
}
