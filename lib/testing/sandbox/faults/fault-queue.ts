import * as v from 'valibot';
import { parseJson } from '../../json.js';
import { OPERATIONS, type SandboxOperation } from '../server/operations.js';
import type { SandboxRequest } from '../server/request-log.js';
import { FAULT_KINDS, type CustomFault, type Fault } from './fault-kinds.js';

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
      /** Key of the tenant: that of the client, else the one that `X-Tenant-Id` names. */
      readonly tenant?: string;
      /** `grant_type` of a token request. */
      readonly grantType?: string;
    };

const oneOperation = v.picklist(OPERATIONS);
const conditions = v.strictObject({
  // `lazy` instead of `union`, whose error does not name the field inside.
  operation: v.optional(v.lazy((input) => (Array.isArray(input) ? v.array(oneOperation) : oneOperation))),
  tenant: v.optional(v.string()),
  grantType: v.optional(v.string()),
});
const faults = Object.entries(FAULT_KINDS).map(([kind, { members }]) =>
  v.strictObject({ kind: v.literal(kind), ...members }),
);

/** The arguments of `failNext` in JSON. */
const faultInJson = v.strictObject({
  match: v.lazy((input) => (typeof input === 'string' ? oneOperation : conditions)),
  fault: v.pipe(
    v.variant('kind', faults),
    // The table holds the members of each kind to those of its type.
    v.transform((valid) => valid as unknown as Fault),
  ),
  times: v.optional(v.number(), 1),
});

/** Faults that no request has met yet. A request meets the oldest one that matches. */
export class FaultQueue {
  #pending: readonly {
    readonly match: FaultMatch;
    readonly fault: Fault | CustomFault;
    remaining: number;
  }[] = [];

  add(match: FaultMatch, fault: Fault | CustomFault, times: number): void {
    if (!(times === Infinity || (Number.isInteger(times) && times > 0))) {
      throw new RangeError('failNext: times must be an integer from 1, or Infinity');
    }
    this.#pending = [...this.#pending, { match, fault, remaining: times }];
  }

  /**
   * Adds a fault that is given in JSON.
   *
   * @throws Error that names each wrong field, and what is expected there.
   */
  addJson(json: string): void {
    const { match, fault, times } = parseJson(faultInJson, json, 'the body');
    this.add(match, fault, times);
  }

  /** The oldest first. `Infinity`, which JSON does not have, is a string. */
  toJSON(): unknown[] {
    const replace = (_name: string, value: unknown) => (value === Infinity ? 'Infinity' : value);
    return JSON.parse(JSON.stringify(this.#pending, replace));
  }

  /** Returns the fault for this request, if any, and removes it from the queue after its last use. */
  take(request: SandboxRequest): Fault | CustomFault | undefined {
    const pending = this.#pending.find(({ match }) => matches(match, request));
    if (pending) {
      pending.remaining -= 1;
      this.#pending = this.#pending.filter(({ remaining }) => remaining > 0);
    }
    return pending?.fault;
  }

  clear(): void {
    this.#pending = [];
  }
}

function matches(match: FaultMatch, request: SandboxRequest): boolean {
  if (typeof match === 'string') {
    return match === request.operation;
  }
  const { operation = request.operation, tenant, grantType } = match;
  return (
    [operation].flat().includes(request.operation) &&
    (tenant === undefined || tenant === request.tenantKey) &&
    (grantType === undefined || grantType === request.body['grant_type'])
  );
}
