import type { HttpSettings, ModuleHttpSettings } from '../../config/tenant-options.interface.js';
import type { StateKey, Tenant } from '../../config/tenant.js';
import type { Clock } from '../../call/clock.js';
import { createCache, type ExpiringCache } from '../../call/expiring-cache.js';
import type { Rests } from '../../call/rests.js';
import type { Operation } from '../transport-request.interface.js';
import { ConnectionSlots } from './connection-slots.js';
import { RequestLimits } from './request-limits.js';

/**
 * Origins whose connections are counted, and published documents with limits of a dispatcher. The one that was added or used least
 * recently goes, and counts anew.
 */
const MOST = 10_000;

/** Finds the limits of a request. Those of a tenant go with its state. */
export class TenantLimits {
  readonly #byTenant = new WeakMap<StateKey, RequestLimits[]>();
  /** By dispatcher of a host, or this for our own connections, then by URL. */
  readonly #ofDocuments = new WeakMap<object, ExpiringCache<RequestLimits>>();
  readonly #connections: ExpiringCache<ConnectionSlots>;

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
    return new RequestLimits(operation, origin, http, tenant, connections, this.rests, this.clock);
  }
}
