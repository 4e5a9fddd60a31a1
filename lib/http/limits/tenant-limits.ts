import type { StateKey, Tenant } from '../../config/tenant.js';
import type { Clock } from '../../call/clock.js';
import type { Deadline } from '../../call/deadline.js';
import { Semaphore } from './semaphore.js';
import type { Operation } from '../transport-request.interface.js';
import { Circuit } from './circuit.js';

/** Waiting requests per slot. A burst is served; a flood is refused instead of kept in memory. */
const WAITING_PER_SLOT = 16;

/** Answer to a request that the full queue refuses. */
const QUEUE_FULL = { retryAfterMs: 1_000 };

/** Each group has limits of its own: slow or failing lists must not hold up guards, which look up. */
const GROUPS = {
  token: 'token',
  list: 'list',
  lookup: 'lookup',
  code: 'login',
  userinfo: 'login',
  keys: 'login',
  metadata: 'login',
} as const satisfies Record<Operation, string>;
type Group = (typeof GROUPS)[Operation];

/** Tokens of a full bucket, of a retry, and of a success. */
const FULL = 500;
const RETRY = 5;
const SUCCESS = 1;

/** Retries that a tenant has left at one origin: where everything fails, they must not multiply the load. */
class RetryBudget {
  #left = FULL;

  /** Takes one retry. Answers false, and takes nothing, where too little is left. */
  take(): boolean {
    if (this.#left < RETRY) {
      return false;
    }
    this.#left -= RETRY;
    return true;
  }

  succeeded(): void {
    this.#left = Math.min(FULL, this.#left + SUCCESS);
  }
}

/** Limits of the requests of one tenant to one origin: concurrency, retries and circuit of one group of operations. */
export class RequestLimits {
  readonly budget = new RetryBudget();
  readonly circuit = new Circuit();
  readonly #slots: Semaphore;

  constructor(
    readonly group: Group,
    readonly origin: string,
    maxConcurrent: number,
    private readonly clock: Clock,
  ) {
    this.#slots = new Semaphore({ slots: maxConcurrent, waiting: maxConcurrent * WAITING_PER_SLOT });
  }

  /**
   * Takes a slot for one request, waiting for it if necessary. Answers `over` where the call was over first, and how long to
   * wait where the circuit is open or the queue is full.
   */
  async enter(deadline: Deadline): Promise<'entered' | 'over' | { retryAfterMs: number }> {
    if (this.#openFor() > 0) {
      return { retryAfterMs: this.#openFor() };
    }
    const entry = await this.#slots.enter(deadline);
    if (entry === 'full') {
      return QUEUE_FULL;
    }
    // The circuit may have opened while the request waited.
    if (entry === 'entered' && this.#openFor() > 0) {
      this.leave();
      return { retryAfterMs: this.#openFor() };
    }
    return entry;
  }

  /** Returns the slot. */
  leave(): void {
    this.#slots.leave();
  }

  #openFor(): number {
    return Math.ceil(this.circuit.openFor(this.clock.now()));
  }
}

/** The limits of all tenants. They go with the state of their tenant. */
export class TenantLimits {
  readonly #byTenant = new WeakMap<StateKey, RequestLimits[]>();

  constructor(private readonly clock: Clock) {}

  of({ stateKey, http }: Tenant, operation: Operation, origin: string): RequestLimits {
    const ofTenant = this.#byTenant.get(stateKey) ?? [];
    const group = GROUPS[operation];
    const known = ofTenant.find((limits) => limits.group === group && limits.origin === origin);
    if (known !== undefined) {
      return known;
    }
    const created = new RequestLimits(group, origin, http.maxConcurrent, this.clock);
    this.#byTenant.set(stateKey, [...ofTenant, created]);
    return created;
  }
}
