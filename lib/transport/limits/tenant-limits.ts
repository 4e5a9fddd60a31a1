import type { Tenant } from '../../tenants/tenant.js';
import { Bulkhead } from './bulkhead.js';
import { Circuit, type Admission } from './circuit.js';
import type { Clock } from '../../time/clock.js';
import type { Deadline } from '../../time/deadline.js';
import type { Health } from '../outcome.js';
import { RetryBudget } from './retry-budget.js';
import type { Operation } from '../transport-request.interface.js';

/** What is shed may come back after this; the queue was full a moment ago. */
const FLOODED = { retryAfterMs: 1_000 };

/** Token, REST and login fail for reasons of their own, so none opens the circuit of another. */
const GROUPS: Readonly<Record<Operation, string>> = {
  token: 'token',
  list: 'rest',
  lookup: 'rest',
  code: 'login',
  userinfo: 'login',
  keys: 'login',
};

/** What one tenant may do at one origin for one purpose. Most tenants are well and have no circuit. */
export class RequestLimits {
  readonly budget = new RetryBudget();
  /** Calls that use it now, their waits included. */
  users = 0;
  readonly #bulkhead = new Bulkhead();
  #circuit: Circuit | undefined;

  constructor(
    readonly group: string,
    readonly origin: string,
  ) {}

  /** True where it says nothing that a new one would not. */
  get isAsNew(): boolean {
    return this.users === 0 && this.#circuit === undefined && this.budget.isFull;
  }

  /**
   * Takes a slot for one request, waiting for it if need be. Answers `undefined` where the call was over before, and
   * how long to wait where none may go out: the circuit is open, or too many wait already.
   */
  async enter(slots: number, deadline: Deadline, clock: Clock): Promise<Admission | undefined> {
    const refusal = this.#circuit?.refusal(clock.now());
    if (refusal !== undefined) {
      return refusal;
    }
    if (!this.#bulkhead.tryEnter(slots)) {
      if (this.#bulkhead.isFull(slots)) {
        return FLOODED;
      }
      if (!(await this.#bulkhead.wait(deadline))) {
        return undefined;
      }
    }
    const admission = this.#circuit?.admit(clock.now()) ?? 'free';
    if (typeof admission === 'object') {
      this.#bulkhead.leave(slots);
    }
    return admission;
  }

  /** Gives the slot back and takes the end of the request. */
  leave(slots: number, health: Health, admission: Admission, clock: Clock): void {
    this.#bulkhead.leave(slots);
    if (this.#circuit === undefined && health !== 'bad') {
      return;
    }
    this.#circuit ??= new Circuit();
    this.#circuit.record(health, admission, clock.now(), clock.random());
    if (this.#circuit.isForgotten) {
      this.#circuit = undefined;
    }
  }
}

/**
 * The lanes of all tenants. One that is idle and well is dropped, so that a quiet tenant keeps nothing here; those of a
 * tenant that leaves the registry go with it.
 */
export class TenantLimits {
  readonly #byTenant = new WeakMap<object, RequestLimits[]>();

  /** The lane of a request, to be released by {@link release}. */
  use(tenant: Tenant, operation: Operation, origin: string): RequestLimits {
    const lanes = this.#byTenant.get(tenant.stateKey) ?? [];
    const group = GROUPS[operation];
    const known = lanes.find((limits) => limits.group === group && limits.origin === origin);
    const limits = known ?? new RequestLimits(group, origin);
    limits.users += 1;
    if (known !== undefined) {
      return limits;
    }
    this.#byTenant.set(tenant.stateKey, [...lanes, limits]);
    return limits;
  }

  /** A call is done with its lane. */
  release(tenant: Tenant, limits: RequestLimits): void {
    limits.users -= 1;
    if (!limits.isAsNew) {
      return;
    }
    const rest = this.#byTenant.get(tenant.stateKey)?.filter((other) => other !== limits) ?? [];
    if (rest.length === 0) {
      this.#byTenant.delete(tenant.stateKey);
    } else {
      this.#byTenant.set(tenant.stateKey, rest);
    }
  }
}
