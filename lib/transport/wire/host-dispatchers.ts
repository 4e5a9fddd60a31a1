import * as undici from 'undici';
import type { Dispatcher } from 'undici';
import { ConfigurationError } from '../../errors/configuration.error.js';
import { PerTenant } from '../../tenants/per-tenant.js';
import type { Tenant } from '../../tenants/tenant.js';

type Factory = NonNullable<Tenant['http']['dispatcher']>;

/**
 * Dispatchers that hosts create for a proxy or mTLS (`http.dispatcher`). The one of the module options is used by all its
 * tenants; the one of a tenant by that tenant only. The host closes them.
 *
 * A tenant of a source that returns with another function gets another dispatcher and keeps everything else. Calls that began
 * with the former function end with its dispatcher.
 */
export class HostDispatchers {
  readonly #ofModule = new WeakMap<Factory, Dispatcher>();
  readonly #ofTenants = new PerTenant<WeakMap<Factory, Dispatcher>>();

  /** The dispatcher for this tenant, if the host configured one. */
  of(tenant: Tenant): Dispatcher | undefined {
    const factory = tenant.http.dispatcher;
    if (factory === undefined) {
      return undefined;
    }
    const isOwn = tenant.settings.http?.dispatcher !== undefined;
    const known = isOwn ? this.#ofTenants.getOrCreate(tenant, () => new WeakMap()) : this.#ofModule;
    const dispatcher = known.get(factory) ?? create(factory, tenant.key);
    known.set(factory, dispatcher);
    return dispatcher;
  }
}

function create(factory: Factory, tenant: string): Dispatcher {
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
