import type { Fault } from './faults.js';
import type { SandboxRequest } from './request-log.js';
import type { SandboxOperation } from './route.js';

/**
 * The requests that a fault applies to: those of an operation, or those that meet every given condition.
 *
 * @example
 * const match: FaultMatch = { operation: 'token', tenant: 'acme', grantType: 'client_credentials' };
 */
export type FaultMatch =
  | SandboxOperation
  | {
      /** One operation, or several: a provider that is down answers neither `authorize` nor `token`, `userinfo` or `keys`. */
      readonly operation?: SandboxOperation | readonly SandboxOperation[];
      /** Key of the tenant that the client belongs to, or that `X-Tenant-Id` names. */
      readonly tenant?: string;
      /** `grant_type` of a token request. */
      readonly grantType?: string;
      /** Tested against the raw path, without the query. */
      readonly path?: RegExp;
      /** Share of these requests that the fault applies to, at random: 0.1 for one in ten. Default 1. */
      readonly probability?: number;
    };

/** Faults that no request has met yet. A request meets the oldest one that matches. */
export class FaultQueue {
  #entries: { readonly match: FaultMatch; readonly fault: Fault; remaining: number }[] = [];

  /** The oldest first, each with the number of requests that it still applies to. */
  get pending() {
    return this.#entries;
  }

  add(match: FaultMatch, fault: Fault, times: number): void {
    if (!(times === Infinity || (Number.isInteger(times) && times > 0))) {
      throw new RangeError('failNext: times must be an integer from 1, or Infinity');
    }
    this.#entries.push({ match, fault, remaining: times });
  }

  /** Returns the fault for this request, if any, and removes it from the queue after its last use. */
  take(request: SandboxRequest): Fault | undefined {
    const entry = this.#entries.find(({ match }) => matches(match, request));
    if (!entry) {
      return undefined;
    }
    entry.remaining -= 1;
    this.#entries = this.#entries.filter(({ remaining }) => remaining > 0);
    return entry.fault;
  }

  clear(): void {
    this.#entries = [];
  }
}

function matches(match: FaultMatch, request: SandboxRequest): boolean {
  if (typeof match === 'string') {
    return match === request.operation;
  }
  const { operation = request.operation, tenant, grantType, path, probability = 1 } = match;
  return (
    [operation].flat().includes(request.operation) &&
    (tenant === undefined || tenant === request.tenantKey || tenant === request.headerTenantKey) &&
    (grantType === undefined || grantType === request.grantType) &&
    // Not `path.test()`: with the flags `g` and `y` its result depends on the previous call.
    (path === undefined || request.path.search(path) !== -1) &&
    Math.random() < probability
  );
}
