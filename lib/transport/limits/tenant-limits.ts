import type { StateKey, Tenant } from '../../tenants/tenant.js';
import type { Clock } from '../../time/clock.js';
import type { Deadline } from '../../time/deadline.js';
import { Semaphore, type SemaphoreLimits } from '../../time/semaphore.js';
import type { RequestResult } from '../outcome.js';
import type { Operation } from '../transport-request.interface.js';
import { Circuit, type Admission } from './circuit.js';
import { FailedContactPersons } from './failed-contact-persons.js';
import { RetryBudget } from './retry-policy.js';

/** Waiting requests per slot. A burst is served; a flood is refused instead of kept in memory. */
const WAITING_PER_SLOT = 16;

/** Answer to a request that the full queue refuses. */
const QUEUE_FULL = { retryAfterMs: 1_000 };

/** Token endpoint, REST API and login fail independently, so each group has limits of its own. */
const GROUPS = {
  token: 'token',
  list: 'rest',
  lookup: 'rest',
  code: 'login',
  userinfo: 'login',
  keys: 'login',
  metadata: 'login',
} as const satisfies Record<Operation, string>;
type Group = (typeof GROUPS)[Operation];

/** Limits of the requests of one tenant to one origin: concurrency, retries and circuit of one group of operations. */
export class RequestLimits {
  readonly budget = new RetryBudget();
  /** Calls that use these limits now. */
  users = 0;
  readonly #slots = new Semaphore();
  /** Both are created at the first failure: most tenants need none. */
  #circuit: Circuit | undefined;
  #failedContacts: FailedContactPersons | undefined;

  constructor(
    readonly group: Group,
    readonly origin: string,
    private readonly clock: Clock,
  ) {}

  /** True where new limits would do the same. */
  get isUnused(): boolean {
    return this.users === 0 && this.#circuit === undefined && this.budget.isFull;
  }

  /**
   * Takes a slot for one request, waiting for it if necessary. Answers `over` where the call was over first, and how long to
   * wait where the circuit is open or the queue is full.
   */
  async enter(tenant: Tenant, deadline: Deadline): Promise<Admission | 'over'> {
    const refusal = this.#circuit?.refusal(this.clock.now());
    if (refusal !== undefined) {
      return refusal;
    }
    const entry = await this.#slots.enter(slotsOf(tenant), deadline);
    if (entry !== 'entered') {
      return entry === 'full' ? QUEUE_FULL : entry;
    }
    // The circuit may have opened while the request waited.
    const admission = this.#circuit?.admit(this.clock.now()) ?? 'free';
    if (typeof admission === 'object') {
      this.#slots.leave(slotsOf(tenant));
    }
    return admission;
  }

  /**
   * Returns the slot and records the result of its request, if it was sent. Answers whether it counts: a further failure of one contact
   * neither opens the circuit nor costs a retry. As a trial it counts, so that a service that is down is tried only once in a pause.
   */
  leave(tenant: Tenant, admission: Admission, result?: RequestResult): boolean {
    this.#slots.leave(slotsOf(tenant));
    if (result?.health === 'bad') {
      this.#circuit ??= new Circuit();
      this.#failedContacts ??= new FailedContactPersons();
    }
    const isRepeated = result !== undefined && this.#failedContacts?.record(result) === false;
    const isCounted = !isRepeated || admission === 'trial';
    const health = isCounted ? result?.health : undefined;
    this.#circuit?.record(health, admission, this.clock.now(), this.clock.random());
    return isCounted;
  }
}

function slotsOf({ http: { maxConcurrent } }: Tenant): SemaphoreLimits {
  return { slots: maxConcurrent, waiting: maxConcurrent * WAITING_PER_SLOT };
}

/** The limits of all tenants: those in use, and those that remember failures. Others would take 600 bytes of each tenant. */
export class TenantLimits {
  readonly #byTenant = new WeakMap<StateKey, readonly RequestLimits[]>();

  constructor(private readonly clock: Clock) {}

  /** The limits for one call, which must {@link release} them. */
  acquire({ stateKey }: Tenant, operation: Operation, origin: string): RequestLimits {
    const ofTenant = this.#byTenant.get(stateKey) ?? [];
    const group = GROUPS[operation];
    let limits = ofTenant.find((known) => known.group === group && known.origin === origin);
    if (limits === undefined) {
      limits = new RequestLimits(group, origin, this.clock);
      this.#byTenant.set(stateKey, [...ofTenant, limits]);
    }
    limits.users += 1;
    return limits;
  }

  release({ stateKey }: Tenant, limits: RequestLimits): void {
    limits.users -= 1;
    if (!limits.isUnused) {
      return;
    }
    const others = this.#byTenant.get(stateKey)?.filter((other) => other !== limits) ?? [];
    if (others.length > 0) {
      this.#byTenant.set(stateKey, others);
    } else {
      this.#byTenant.delete(stateKey);
    }
  }
}
