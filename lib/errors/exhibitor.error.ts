import { channel } from 'node:diagnostics_channel';
import type { ExhibitorErrorCode } from './error-codes.js';

/** Details of a failure, where they are known. */
export interface ExhibitorErrorDetails {
  /** Key of the tenant. */
  tenant?: string;
  /** HTTP status of the service's reply. */
  status?: number;
  /** Time to wait before the next call, in milliseconds. */
  retryAfterMs?: number;
  /** Number of requests sent. */
  attempts?: number;
  /** Error thrown by a function of the host. Errors of HTTP clients are never passed on: they show the bearer token. */
  cause?: unknown;
}

// A registered symbol, so that copies of the package in one process recognize each other's errors.
const BRAND = Symbol.for('nestjs-exhibitor.error');
const created = channel('nestjs-exhibitor:error');

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

  constructor(code: ExhibitorErrorCode, message: string, details: ExhibitorErrorDetails = {}) {
    const { cause, ...known } = details;
    super(message, cause === undefined ? undefined : { cause });
    this.name = new.target.name;
    this.code = code;
    for (const [field, value] of Object.entries(known)) {
      if (value !== undefined) {
        Object.defineProperty(this, field, { value, enumerable: true });
      }
    }
    Object.defineProperty(this, BRAND, { value: true });
    if (created.hasSubscribers) {
      created.publish(this);
    }
  }

  /** The fields that may be shown in logs and replies. */
  toJSON(): Record<string, unknown> {
    return { ...Object.fromEntries(Object.entries(this)), name: this.name, message: this.message };
  }
}

/** True for an {@link ExhibitorError}, including those of another copy of this package in the same process. */
export function isExhibitorError(error: unknown): error is ExhibitorError {
  return error instanceof Error && Object.hasOwn(error, BRAND);
}
