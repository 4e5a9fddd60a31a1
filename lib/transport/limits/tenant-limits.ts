import { PerTenant } from '../../tenants/per-tenant.js';
import type { Tenant } from '../../tenants/tenant.js';
import type { Clock } from '../../time/clock.js';
import type { Deadline } from '../../time/deadline.js';
import type { Health, Outcome } from '../outcome.js';
import type { Operation } from '../transport-request.interface.js';
import { Bulkhead } from './bulkhead.js';
import { Circuit, type Admission } from './circuit.js';
import { FailedContacts } from './failed-contacts.js';
import { RetryBudget } from './retry-policy.js';

/** Answer to a request that the full queue refuses. */
const QUEUE_FULL = { retryAfterMs: 1_000 };

/** Token endpoint, the two REST endpoints and login fail independently, so each group has a circuit and a budget. */
const GROUPS: Readonly<Record<Operation, string>> = {
  token: 'token',
  list: 'list',
  lookup: 'lookup',
  code: 'login',
  userinfo: 'login',
  keys: 'login',
  metadata: 'login',
};

/** Groups that share one limit of concurrent requests. */
const SHARED_SLOTS: ReadonlySet<string> = new Set(['list', 'lookup']);

/** Limits of one tenant for one origin and group of operations. The circuit is created at the first failure. */
export class RequestLimits {
  readonly budget = new RetryBudget();
  /** Calls that use these limits now, including their waits. */
  users = 0;
  readonly #failedContacts = new FailedContacts();
  readonly #bulkhead: Bulkhead;
  #circuit: Circuit | undefined;

  /** @param sibling limits whose slots these share */
  constructor(
    readonly group: string,
    readonly origin: string,
    sibling: RequestLimits | undefined,
  ) {
    this.#bulkhead = sibling === undefined ? new Bulkhead() : sibling.#bulkhead;
  }

  /** Holds no state; can be dropped. */
  get isIdle(): boolean {
    return this.users === 0 && this.#circuit === undefined && this.budget.isFull;
  }

  /**
   * Takes a slot for one request, waiting for it if necessary. Answers `undefined` where the call was over first, and how
   * long to wait where the circuit is open or the queue is full.
   */
  enter(
    slots: number,
    deadline: Deadline,
    clock: Clock,
  ): Admission | undefined | Promise<Admission | undefined> {
    const refusal = this.#circuit?.refusal(clock.now());
    if (refusal !== undefined) {
      return refusal;
    }
    if (this.#bulkhead.tryEnter(slots)) {
      return this.#admit(slots, clock);
    }
    if (this.#bulkhead.isFull(slots)) {
      return QUEUE_FULL;
    }
    return this.#bulkhead.wait(deadline).then((entered) => (entered ? this.#admit(slots, clock) : undefined));
  }

  /** The circuit may have opened while the request waited. */
  #admit(slots: number, clock: Clock): Admission {
    const admission = this.#circuit?.admit(clock.now()) ?? 'free';
    if (typeof admission === 'object') {
      this.#bulkhead.leave(slots);
    }
    return admission;
  }

  /**
   * The health that counts: `undefined` for a further failure of one contact. A trial always counts, so that a service that
   * is down is tried only once in a pause.
   */
  counted(health: Health, outcome: Outcome, contact: string | undefined, admission: Admission): Health {
    const counted = this.#failedContacts.counted(health, outcome, contact);
    return admission === 'trial' ? health : counted;
  }

  /** Returns the slot and records the result of the request. */
  leave(slots: number, health: Health, admission: Admission, clock: Clock): void {
    if (health === 'good') {
      this.#bulkhead.handOver(slots);
    } else {
      this.#bulkhead.leave(slots);
    }
    if (this.#circuit === undefined && health !== 'bad') {
      return;
    }
    this.#circuit ??= new Circuit();
    this.#circuit.record(health, admission, clock.now(), clock.random());
    if (this.#circuit.isHealthy) {
      this.#circuit = undefined;
    }
  }
}

/** The limits of all tenants. Idle ones are dropped, so that a quiet tenant takes no memory here. */
export class TenantLimits {
  readonly #byTenant = new PerTenant<RequestLimits[]>();

  /** The limits of a request. The caller must {@link release} them. */
  use(tenant: Tenant, operation: Operation, origin: string): RequestLimits {
    const all = this.#byTenant.getOrCreate(tenant, () => []);
    const group = GROUPS[operation];
    let limits = all.find((known) => known.group === group && known.origin === origin);
    if (limits === undefined) {
      limits = new RequestLimits(
        group,
        origin,
        all.find((known) => sharesSlots(known, group, origin)),
      );
      all.push(limits);
    }
    limits.users += 1;
    return limits;
  }

  /** A call no longer uses its limits. */
  release(tenant: Tenant, limits: RequestLimits): void {
    limits.users -= 1;
    const all = this.#byTenant.get(tenant);
    if (!limits.isIdle || all === undefined) {
      return;
    }
    if (all.length === 1) {
      this.#byTenant.delete(tenant);
    } else {
      all.splice(all.indexOf(limits), 1);
    }
  }
}

function sharesSlots(known: RequestLimits, group: string, origin: string): boolean {
  return known.origin === origin && SHARED_SLOTS.has(known.group) && SHARED_SLOTS.has(group);
}
