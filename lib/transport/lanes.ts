import type { Tenant } from '../tenants/tenant.js';
import { Bulkhead } from './bulkhead.js';
import { Circuit, type Admission } from './circuit.js';
import type { Clock } from './clock.js';
import type { Deadline } from './deadline.js';
import type { Health } from './outcome.js';
import { RetryBudget } from './retry-budget.js';
import type { Operation } from './transport-request.interface.js';

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
export class Lane {
  readonly budget = new RetryBudget();
  readonly #bulkhead = new Bulkhead();
  #circuit: Circuit | undefined;

  constructor(
    readonly group: string,
    readonly origin: string,
  ) {}

  /**
   * Takes a slot for one request, waiting for it if need be. Answers `undefined` where the call was over before, and
   * how long to wait where none may go out: the circuit is open, or too many wait already.
   */
  async enter(slots: number, deadline: Deadline, clock: Clock): Promise<Admission | undefined> {
    const refusal = this.#circuit?.refusal(clock.now());
    if (refusal !== undefined) return refusal;
    if (!this.#bulkhead.tryEnter(slots)) {
      if (this.#bulkhead.isFull(slots)) return FLOODED;
      if (!(await this.#bulkhead.wait(deadline))) return undefined;
    }
    const admission = this.#circuit?.admit(clock.now()) ?? 'free';
    if (typeof admission === 'object') this.#bulkhead.leave();
    return admission;
  }

  /** Gives the slot back and takes the end of the request. */
  leave(health: Health, admission: Admission, clock: Clock): void {
    this.#bulkhead.leave();
    if (this.#circuit === undefined && health !== 'bad') return;
    this.#circuit ??= new Circuit();
    this.#circuit.record(health, admission, clock.now(), clock.random());
    if (this.#circuit.isForgotten) this.#circuit = undefined;
  }
}

/** The lanes of all tenants; those of a tenant go when it leaves the registry. */
export class Lanes {
  readonly #byTenant = new WeakMap<object, Lane[]>();

  /** The lane of a request. */
  of(tenant: Tenant, operation: Operation, origin: string): Lane {
    const lanes = this.#byTenant.get(tenant.anchor) ?? this.#add(tenant);
    const group = GROUPS[operation];
    const known = lanes.find((lane) => lane.group === group && lane.origin === origin);
    if (known !== undefined) return known;
    const lane = new Lane(group, origin);
    lanes.push(lane);
    return lane;
  }

  #add(tenant: Tenant): Lane[] {
    const lanes: Lane[] = [];
    this.#byTenant.set(tenant.anchor, lanes);
    return lanes;
  }
}
