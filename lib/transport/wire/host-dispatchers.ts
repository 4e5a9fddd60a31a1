import * as undici from 'undici';
import type { Dispatcher } from 'undici';
import { ConfigurationError } from '../../errors/configuration.error.js';
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
  /** By who they are for: the module, or the state of a tenant. */
  readonly #byOwner = new WeakMap<object, WeakMap<Factory, Dispatcher>>();

  of(tenant: Tenant): Dispatcher | undefined {
    const factory = tenant.http.dispatcher;
    if (factory === undefined) {
      return undefined;
    }
    const owner = tenant.settings.http?.dispatcher === undefined ? this : tenant.stateKey;
    const known = this.#byOwner.get(owner) ?? new WeakMap<Factory, Dispatcher>();
    this.#byOwner.set(owner, known);
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
