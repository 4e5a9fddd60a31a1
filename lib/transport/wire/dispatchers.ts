import type * as Undici from 'undici';
import type { Dispatcher } from 'undici';
import { ConfigurationError } from '../../errors/configuration.error.js';
import { PerTenant } from '../../tenants/per-tenant.js';
import type { Tenant } from '../../tenants/tenant.js';

type Factory = NonNullable<Tenant['http']['dispatcher']>;

/**
 * Dispatchers that hosts create for a proxy or mTLS (`http.dispatcher`). The one of the module options is shared by its
 * tenants; the one of a tenant is used by that tenant only. The host closes them.
 *
 * A tenant of a source that returns with another function gets another dispatcher and keeps everything else. Calls that began
 * with the former function end with its dispatcher.
 */
export class Dispatchers {
  readonly #shared = new WeakMap<Factory, Dispatcher>();
  readonly #own = new PerTenant<WeakMap<Factory, Dispatcher>>();

  /** The dispatcher for this tenant, if the host configured one. */
  of(tenant: Tenant): Dispatcher | undefined | Promise<Dispatcher | undefined> {
    const factory = tenant.http.dispatcher;
    if (factory === undefined) {
      return undefined;
    }
    const isOwn = tenant.settings.http?.dispatcher !== undefined;
    const created = isOwn ? this.#own.getOrCreate(tenant, () => new WeakMap()) : this.#shared;
    return created.get(factory) ?? this.#create(factory, created, tenant);
  }

  /** Calls that begin while undici is loaded get the same dispatcher. */
  async #create(
    factory: Factory,
    created: WeakMap<Factory, Dispatcher>,
    tenant: Tenant,
  ): Promise<Dispatcher> {
    const undici = await import('undici');
    const dispatcher = created.get(factory) ?? create(factory, undici, tenant.key);
    created.set(factory, dispatcher);
    return dispatcher;
  }
}

function create(factory: Factory, undici: typeof Undici, tenant: string): Dispatcher {
  let created: Dispatcher;
  try {
    created = factory(undici);
  } catch (cause) {
    throw new ConfigurationError([{ path: 'http.dispatcher', expected: 'threw an error' }], tenant, cause);
  }
  if (typeof created?.dispatch === 'function') {
    return created;
  }
  throw new ConfigurationError(
    [{ path: 'http.dispatcher', expected: 'must return an undici dispatcher' }],
    tenant,
  );
}
