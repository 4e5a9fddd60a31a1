import { newStateKey, type StateKey } from '../tenants/tenant.js';
import type { Clock } from '../time/clock.js';
import { RemoteJwks } from './remote-jwks.js';
import { SharedByUrl } from './shared-by-url.js';

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
