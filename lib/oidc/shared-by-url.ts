import { newStateKey, type StateKey } from '../tenants/tenant.js';
import type { Clock } from '../time/clock.js';
import { RemoteJwks } from './remote-jwks.js';

/**
 * Finds what all tenants share that use a URL through the same dispatcher. Only weak references are kept here: a value is
 * dropped with the last tenant that holds it.
 */
export class SharedByUrl<V extends object> {
  readonly #create: (url: string) => V;
  readonly #known = new Map<string, WeakRef<V>>();
  readonly #dispatcherIds = new WeakMap<object, number>();
  readonly #dropped = new FinalizationRegistry<string>((key) => {
    if (this.#known.get(key)?.deref() === undefined) {
      this.#known.delete(key);
    }
  });
  #lastDispatcherId = 0;

  constructor(create: (url: string) => V) {
    this.#create = create;
  }

  /** @param dispatcher `undefined`: our own connections */
  of(url: string, dispatcher: object | undefined): V {
    const key = `${dispatcher === undefined ? 0 : this.#idOf(dispatcher)} ${url}`;
    const known = this.#known.get(key)?.deref();
    if (known !== undefined) {
      return known;
    }
    const created = this.#create(url);
    this.#known.set(key, new WeakRef(created));
    this.#dropped.register(created, key);
    return created;
  }

  #idOf(dispatcher: object): number {
    const known = this.#dispatcherIds.get(dispatcher);
    if (known !== undefined) {
      return known;
    }
    this.#lastDispatcherId += 1;
    this.#dispatcherIds.set(dispatcher, this.#lastDispatcherId);
    return this.#lastDispatcherId;
  }
}

/** The keys of a URL, for all tenants that use it through the same dispatcher. */
export interface SharedKeys {
  readonly url: string;
  readonly jwks: RemoteJwks;
  /** The limits of the fetch are no tenant's: the open circuit of one must not hide the keys from the others. */
  readonly stateKey: StateKey;
}

/** Finds the {@link SharedKeys} of a URL and a dispatcher. */
export class SharedJwks extends SharedByUrl<SharedKeys> {
  constructor(clock: Clock) {
    super((url) => ({ url, jwks: new RemoteJwks(clock), stateKey: newStateKey() }));
  }
}
