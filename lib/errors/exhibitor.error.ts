import { channel } from 'node:diagnostics_channel';
import type { ExhibitorErrorCode } from './error-codes.js';

/** What is known of a failure beside its code. */
export interface ExhibitorErrorDetails {
  /** Key of the tenant the call was for. */
  tenant?: string;
  /** HTTP status the service answered, where it answered. */
  status?: number;
  /** How long the service asked to wait, in milliseconds. */
  retryAfterMs?: number;
  /** Number of requests that were sent. */
  attempts?: number;
  /** Only what a host's own function threw; a client library's error would show the bearer token. */
  cause?: unknown;
}

// A well-known symbol, so that two copies of the package in one process know each other's errors.
const BRAND = Symbol.for('nestjs-exhibitor.error');
const created = channel('nestjs-exhibitor:error');

/**
 * Base of every error of this package. It shows no token, secret, cookie or e-mail address in its message, in
 * `JSON.stringify` or in `util.inspect`, so it may be logged as it is.
 *
 * @example
 * try {
 *   await firstValueFrom(exhibitors.list(eventId));
 * } catch (error) {
 *   if (isExhibitorError(error) && error.code === 'rate_limited') await sleep(error.retryAfterMs ?? 1_000);
 * }
 */
export class ExhibitorError extends Error {
  /** Stable reason of the failure. */
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

  /** The fields a log or a reply may show. */
  toJSON(): Record<string, unknown> {
    return { ...Object.fromEntries(Object.entries(this)), name: this.name, message: this.message };
  }
}

/** True for an {@link ExhibitorError}, also one of another copy of this package in the same process. */
export function isExhibitorError(error: unknown): error is ExhibitorError {
  return error instanceof Error && Object.hasOwn(error, BRAND);
}
