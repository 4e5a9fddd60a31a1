import * as undici from 'undici';
import { ExhibitorError } from '../../errors/exhibitor.error.js';
import type { Tenant } from '../../tenants/tenant.js';

/**
 * Dispatchers that hosts create for a proxy or mTLS (`http.dispatcher`). The one of the module options is shared by its
 * tenants; the one of a tenant is used by that tenant only. The host closes them.
 */
export class Dispatchers {
  readonly #created = new WeakMap<object, undici.Dispatcher>();

  /** The dispatcher for this tenant, if the host configured one. */
  of(tenant: Tenant): undici.Dispatcher | undefined {
    const factory = tenant.http.dispatcher;
    if (factory === undefined) {
      return undefined;
    }
    const isOwn = tenant.settings.http?.dispatcher !== undefined;
    const key = isOwn ? tenant.stateKey : factory;
    const dispatcher = this.#created.get(key) ?? create(factory, tenant.key);
    this.#created.set(key, dispatcher);
    return dispatcher;
  }
}

function create(factory: (given: typeof undici) => undici.Dispatcher, tenant: string): undici.Dispatcher {
  let created: undici.Dispatcher;
  try {
    created = factory(undici);
  } catch (cause) {
    throw new ExhibitorError('configuration_invalid', 'http.dispatcher threw', { tenant, cause });
  }
  if (typeof created?.dispatch === 'function') {
    return created;
  }
  throw new ExhibitorError('configuration_invalid', 'http.dispatcher must return an undici dispatcher', {
    tenant,
  });
}
