import * as undici from 'undici';
import { ExhibitorError } from '../../errors/exhibitor.error.js';
import type { Tenant } from '../../tenants/tenant.js';

/**
 * The dispatchers hosts made for a proxy or mTLS. One set for the whole module is shared by its tenants; one set on a
 * tenant is that tenant's alone. They are the host's to close.
 */
export class Dispatchers {
  readonly #made = new WeakMap<object, undici.Dispatcher>();

  /** The dispatcher of the host for this tenant, if it set one. */
  of(tenant: Tenant): undici.Dispatcher | undefined {
    const factory = tenant.http.dispatcher;
    if (factory === undefined) {
      return undefined;
    }
    const isItsOwn = tenant.settings.http?.dispatcher !== undefined;
    const key = isItsOwn ? tenant.stateKey : factory;
    const made = this.#made.get(key) ?? make(factory, tenant.key);
    this.#made.set(key, made);
    return made;
  }
}

function make(factory: (given: typeof undici) => undici.Dispatcher, tenant: string): undici.Dispatcher {
  const details = { tenant };
  let made: undici.Dispatcher;
  try {
    made = factory(undici);
  } catch (error) {
    throw new ExhibitorError('configuration_invalid', 'http.dispatcher threw', { ...details, cause: error });
  }
  if (typeof made?.dispatch === 'function') {
    return made;
  }
  throw new ExhibitorError(
    'configuration_invalid',
    'http.dispatcher must answer an undici dispatcher',
    details,
  );
}
