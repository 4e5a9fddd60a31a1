import { channel } from 'node:diagnostics_channel';
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
}

/** Names of the classes of this package, which `instanceof` compares by name. A subclass of a host has none of its own. */
const names = new WeakMap<object, string>();

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

  static {
    brand(this, 'ExhibitorError');
  }

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
    if (created.hasSubscribers) {
      created.publish(this);
    }
  }

  /**
   * True also for errors of another copy of this package in the same process, such as one below a linked package. A subclass
   * of a host compares prototypes, as any class.
   */
  static override [Symbol.hasInstance](value: unknown): boolean {
    const name = names.get(this);
    return name === undefined
      ? Function.prototype[Symbol.hasInstance].call(this, value)
      : hasBrand(value, name);
  }

  /** The fields that may be shown in logs and replies. */
  toJSON(): Record<string, unknown> {
    return { ...Object.fromEntries(Object.entries(this)), name: this.name, message: this.message };
  }
}

/** Gives a class of this package the name by which `instanceof` knows its instances, whichever copy created them. */
export function brand(of: { readonly prototype: object }, name: string): void {
  names.set(of, name);
  Object.defineProperty(of.prototype, symbolOf(name), { value: true });
}

function hasBrand(value: unknown, name: string): boolean {
  return typeof value === 'object' && value !== null && symbolOf(name) in value;
}

/** A registered symbol: the same in every copy of the package. */
function symbolOf(name: string): symbol {
  return Symbol.for(`nestjs-exhibitor.${name}`);
}
