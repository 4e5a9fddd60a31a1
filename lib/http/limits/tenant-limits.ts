import type { HttpSettings, ModuleHttpSettings } from '../../config/tenant-options.interface.js';
import type { StateKey, Tenant } from '../../config/tenant.js';
import type { Clock } from '../../call/clock.js';
import type { Call } from '../../call/call.js';
import type { NotSent, PausedRequest, Rests, Turn } from '../../call/rests.js';
import { createCache, type ExpiringCache } from '../../call/expiring-cache.js';
import { codeOf, describeOutcome, type Outcome } from '../outcome.js';
import { Semaphore } from '../../call/semaphore.js';
import type { Operation } from '../transport-request.interface.js';
import { Circuit } from './circuit.js';
import { ConnectionSlots, type ConnectionUser } from './connection-slots.js';

/** Waiting requests per slot. A burst is served; a flood is refused instead of kept in memory. */
const WAITING_PER_SLOT = 16;

const QUEUE_FULL: NotSent = { go: 'fail', retryAfterMs: 1_000, failure: undefined, isOfPartner: false };

/**
 * Origins whose connections are counted, and published documents with limits of a dispatcher. The one that was added or used least
 * recently goes, and counts anew.
 */
const MOST = 10_000;

/** Largest token, userinfo, metadata or key reply in bytes. */
const LARGEST_SMALL_REPLY = 256 * 1024;

/** The retry budget: what is there at most, what a retry takes, and what a success gives. */
const BUDGET = { full: 500, retry: 5, success: 1 };

/**
 * Limits of the requests of one operation, of one tenant to one origin, or for one published document: concurrency, retries and
 * circuit. Slow or failing lists must not hold up guards, which look up, nor forged codes bearer tokens.
 */
export class RequestLimits {
  #budget = BUDGET.full;
  readonly circuit: Circuit;
  readonly #slots: Semaphore;
  readonly #user: ConnectionUser;
  /** Requests that may wait for a slot, and that may wait for the end of a pause. */
  readonly #mostWaiting: number;

  /**
   * @param id tells them from other limits
   * @param tenant `undefined` for published documents, which are of all tenants
   */
  constructor(
    id: number,
    readonly operation: Operation,
    readonly origin: string,
    readonly http: HttpSettings,
    private readonly tenant: Pick<Tenant, 'key' | 'stateKey'> | undefined,
    private readonly connections: ConnectionSlots,
    private readonly rests: Rests,
  ) {
    const { maxConcurrent: slots } = http;
    this.#user = { tenant: tenant?.key, held: 0 };
    this.circuit = new Circuit(rests, id);
    this.#mostWaiting = slots * WAITING_PER_SLOT;
    this.#slots = new Semaphore({ slots, waiting: this.#mostWaiting });
  }

  /** Largest accepted reply in bytes, compressed and decompressed. */
  get largestReply(): number {
    const { maxResponseBytes } = this.http;
    return this.operation === 'list' || this.operation === 'lookup'
      ? maxResponseBytes
      : Math.min(LARGEST_SMALL_REPLY, maxResponseBytes);
  }

  /**
   * Takes a slot and a connection for one request, waiting for them if necessary, and first, without a slot, for the end of a pause
   * that the partner asked for. Returns `over` where the call is over first.
   *
   * @param about what a pause is about, see {@link TransportRequest}
   */
  async enter(call: Call, about: string | undefined): Promise<'entered' | 'over' | NotSent> {
    while (!call.isOver) {
      const turn = this.#turn(about, call);
      if (turn.go === 'fail') {
        return turn;
      }
      if (turn.go === 'wait') {
        turn.rest.waiting += 1;
        await call.sleep(turn.ms);
        turn.rest.waiting -= 1;
        continue;
      }
      const entry = await this.#slots.enter(call);
      if (entry !== 'entered') {
        return entry === 'full' ? QUEUE_FULL : entry;
      }
      if ((await this.connections.enter(this.#user, call)) === 'over') {
        this.#slots.leave();
        return 'over';
      }
      // A pause may have begun, and the circuit may have opened, while the request waited.
      if (this.#turn(about, call).go === 'send') {
        return entry;
      }
      this.leave();
    }
    return 'over';
  }

  /** Takes a retry from the budget, if one is left: where everything fails, retries must not multiply the load. */
  takeRetry(): boolean {
    const isLeft = this.#budget >= BUDGET.retry;
    this.#budget -= isLeft ? BUDGET.retry : 0;
    return isLeft;
  }

  succeeded(): void {
    this.#budget = Math.min(BUDGET.full, this.#budget + BUDGET.success);
  }

  /** Returns the connection and the slot. */
  leave(): void {
    this.connections.leave(this.#user);
    this.#slots.leave();
  }

  /**
   * Tells others of a pause that the partner asked for: by 429, or at the token endpoint also by 503.
   *
   * @returns how long it is, in ms
   */
  tellRests(outcome: Outcome, retryAfterMs: number | undefined, about: string | undefined): number {
    const { status } = outcome;
    const code = codeOf(outcome);
    const isAsked = status === 429 || (status === 503 && this.operation === 'token');
    if (!isAsked || retryAfterMs === undefined || code === undefined) {
      return 0;
    }
    const failure = { code, message: describeOutcome(outcome), status };
    return this.rests.askedToWait(this.#paused(about), retryAfterMs, failure);
  }

  #turn(about: string | undefined, call: Call): Turn {
    const { openFor } = this.circuit;
    return openFor > 0
      ? { go: 'fail', retryAfterMs: Math.ceil(openFor), failure: undefined, isOfPartner: true }
      : this.rests.turn(this.#paused(about), call.remaining(), this.#mostWaiting);
  }

  #paused(about: string | undefined): PausedRequest {
    const { operation, origin, tenant } = this;
    return { tenant: tenant?.stateKey.id ?? 0, origin, operation, about };
  }
}

/** The limits of all requests. Those of a tenant go with its state. */
export class TenantLimits {
  readonly #byTenant = new WeakMap<StateKey, RequestLimits[]>();
  /** By dispatcher of a host, or this for our own connections, then by URL. */
  readonly #ofDocuments = new WeakMap<object, ExpiringCache<RequestLimits>>();
  readonly #connections: ExpiringCache<ConnectionSlots>;

  #last = 0;

  constructor(
    private readonly http: ModuleHttpSettings,
    private readonly clock: Clock,
    private readonly rests: Rests,
  ) {
    this.#connections = createCache(clock, { max: MOST });
  }

  of(tenant: Tenant, operation: Operation, origin: string): RequestLimits {
    const { stateKey, http } = tenant;
    const ofTenant = this.#byTenant.get(stateKey) ?? [];
    const known = ofTenant.find((limits) => limits.operation === operation && limits.origin === origin);
    if (known !== undefined) {
      return known;
    }
    const created = this.#create(operation, origin, http, { key: tenant.key, stateKey });
    this.#byTenant.set(stateKey, [...ofTenant, created]);
    return created;
  }

  /**
   * Those of a published document, with the settings of the module: tenants share it, and one with small limits must not fail it for
   * the others. What a proxy of one tenant answers is not for the others, so each dispatcher has its own.
   */
  ofDocument(operation: Operation, url: string, origin: string, dispatcher: object = this): RequestLimits {
    const documents = this.#ofDocuments.get(dispatcher) ?? createCache(this.clock, { max: MOST });
    this.#ofDocuments.set(dispatcher, documents);
    const limits = documents.get(url) ?? this.#create(operation, origin, this.http, undefined);
    documents.set(url, limits);
    return limits;
  }

  #create(
    operation: Operation,
    origin: string,
    http: HttpSettings,
    tenant: Pick<Tenant, 'key' | 'stateKey'> | undefined,
  ): RequestLimits {
    const connections =
      this.#connections.get(origin) ?? new ConnectionSlots(this.http.maxConnections, this.clock);
    this.#connections.set(origin, connections);
    this.#last += 1;
    return new RequestLimits(this.#last, operation, origin, http, tenant, connections, this.rests);
  }
}
