import { newStateKey, type StateKey } from '../tenants/tenant.js';
import type { Clock } from '../time/clock.js';
import { RemoteJwks } from './remote-jwks.js';

/** The keys of a URL, for all tenants that use it through the same dispatcher. */
export interface SharedKeys {
  readonly jwks: RemoteJwks;
  /** The limits of the fetch are no tenant's: the open circuit of one must not hide the keys from the others. */
  readonly stateKey: StateKey;
}

/**
 * Finds the {@link SharedKeys} of a URL and a dispatcher. Only weak references are kept here: keys are dropped with the last
 * tenant that holds them.
 */
export class SharedJwks {
  readonly #clock: Clock;
  readonly #known = new Map<string, WeakRef<SharedKeys>>();
  readonly #dispatcherIds = new WeakMap<object, number>();
  readonly #dropped = new FinalizationRegistry<string>((key) => {
    if (this.#known.get(key)?.deref() === undefined) {
      this.#known.delete(key);
    }
  });
  #lastDispatcherId = 0;

  constructor(clock: Clock) {
    this.#clock = clock;
  }

  /** @param dispatcher `undefined`: our own connections */
  of(url: string, dispatcher: object | undefined): SharedKeys {
    const key = `${dispatcher === undefined ? 0 : this.#idOf(dispatcher)} ${url}`;
    const known = this.#known.get(key)?.deref();
    if (known !== undefined) {
      return known;
    }
    const created = { jwks: new RemoteJwks(this.#clock), stateKey: newStateKey() };
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
