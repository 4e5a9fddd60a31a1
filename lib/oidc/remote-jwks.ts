import type { CompactVerifyGetKey, JSONWebKeySet, LocalJWKSet } from 'jose';
import type { Clock } from '../time/clock.js';
import { filterJwks, localKeys } from './filter-jwks.js';
import { RemoteDocument, type FetchDocument } from './remote-document.js';

/** Fetches the JSON of the keys URL within so many milliseconds, else fails by `deadline_exceeded`. */
export type FetchJwks = FetchDocument<unknown>;

interface KeySet {
  jwks: JSONWebKeySet;
  /** jose imports each key once per set. */
  keys: LocalJWKSet;
}

/** The JWKS of a URL, see {@link RemoteDocument}; fetched again for a token that fits none of its keys. */
export class RemoteJwks {
  readonly #document: RemoteDocument<KeySet>;

  constructor(clock: Clock) {
    this.#document = new RemoteDocument(clock);
  }

  /**
   * The keys to verify a token with. They are fetched again where none has this `kid`.
   *
   * @param patience milliseconds for a fetch. The last good keys, if any, are used thereafter.
   */
  async get(kid: string | undefined, fetch: FetchJwks, patience: number): Promise<LocalJWKSet> {
    await this.#document.refresh(keySetBy(fetch), patience);
    if (this.#lacks(kid)) {
      await this.#document.refetch(keySetBy(fetch), patience);
    }
    return this.#document.require().keys;
  }

  /**
   * The keys after a signature that fits none of `used`: fetched again, unless that was done before. `undefined` where there
   * are no newer ones.
   */
  async newerThan(
    used: CompactVerifyGetKey,
    fetch: FetchJwks,
    patience: number,
  ): Promise<LocalJWKSet | undefined> {
    if (this.#document.usable?.keys === used) {
      await this.#document.refetch(keySetBy(fetch), patience);
    }
    const { usable } = this.#document;
    return usable?.keys === used ? undefined : usable?.keys;
  }

  /** The next caller fetches the keys. The last good ones are used where that fails. */
  expire(): void {
    this.#document.expire();
  }

  #lacks(kid: string | undefined): boolean {
    const { usable } = this.#document;
    return usable !== undefined && kid !== undefined && usable.jwks.keys.every((key) => key.kid !== kid);
  }
}

function keySetBy(fetch: FetchJwks): FetchDocument<KeySet> {
  return async (within) => {
    const jwks = await filterJwks(await fetch(within));
    return { jwks, keys: await localKeys(jwks) };
  };
}
