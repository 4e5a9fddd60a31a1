import type { Fault } from './faults.js';
import type { SandboxOperation } from './operation.js';
import type { SandboxRequest } from './request-log.js';

/** Which requests a fault meets: an operation, or every one that fits all that is given. */
export type FaultMatch =
  | SandboxOperation
  | {
      readonly operation?: SandboxOperation;
      /** Key of the tenant whose client asks, or whose id is in `X-Tenant-Id`. */
      readonly tenant?: string;
      readonly grantType?: string;
      /** Tested against the raw path, without the query. */
      readonly path?: RegExp;
    };

/** Faults waiting for their requests; the oldest that fits is used. */
export class FaultQueue {
  #waiting: { readonly match: FaultMatch; readonly fault: Fault; left: number }[] = [];

  add(match: FaultMatch, fault: Fault, times: number): void {
    if (!(times === Infinity || (Number.isInteger(times) && times > 0))) {
      throw new RangeError('failNext: times must be a whole number from 1, or Infinity');
    }
    this.#waiting.push({ match, fault, left: times });
  }

  /** Takes the fault this request meets, if any, and counts it. */
  take(request: SandboxRequest): Fault | undefined {
    const found = this.#waiting.find(({ match }) => fits(match, request));
    if (!found) {
      return undefined;
    }
    found.left -= 1;
    this.#waiting = this.#waiting.filter(({ left }) => left > 0);
    return found.fault;
  }

  clear(): void {
    this.#waiting = [];
  }
}

function fits(match: FaultMatch, request: SandboxRequest): boolean {
  if (typeof match === 'string') {
    return match === request.operation;
  }
  const { operation, tenant, grantType, path } = match;
  return (
    (operation === undefined || operation === request.operation) &&
    (tenant === undefined || tenant === request.tenantKey || tenant === request.headerTenantKey) &&
    (grantType === undefined || grantType === request.grantType) &&
    // `search`, since `test` of a global expression depends on the request before.
    (path === undefined || request.path.search(path) !== -1)
  );
}
