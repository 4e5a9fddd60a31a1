import { createLocalJWKSet, type JSONWebKeySet, type LocalJWKSet } from 'jose';
import type { Clock } from '../time/clock.js';
import { filterJwks } from './filter-jwks.js';

/** How long a fetched JWKS is used without fetching it again. */
const FRESH_MS = 600_000;
/** How long the last good JWKS is used while it cannot be fetched. */
const LAST_GOOD_MS = 86_400_000;
/** Shortest time between fetches for unknown key ids and after failures, so that forged key ids cause no flood of them. */
const COOLDOWN_MS = 30_000;

/** Fetches the JSON of the keys URL. */
export type FetchJwks = () => Promise<unknown>;

interface KeySet {
  jwks: JSONWebKeySet;
  /** jose imports each key once per set. */
  keys: LocalJWKSet;
  /** In ms of {@link Clock.now}. */
  fetchedAt: number;
}

/** The JWKS of a URL: fetched when first needed, by one request for concurrent callers, and kept while the fetch fails. */
export class RemoteJwks {
  readonly #clock: Clock;
  #current: KeySet | undefined;
  #triedAt = Number.NEGATIVE_INFINITY;
  #fetching: Promise<void> | undefined;
  #failure: unknown;

  constructor(clock: Clock) {
    this.#clock = clock;
  }

  /** The keys to verify a token with. They are fetched again where none has this `kid`. */
  async get(kid: string | undefined, fetch: FetchJwks): Promise<LocalJWKSet> {
    if (this.#needsFetch(kid)) {
      await this.#refresh(fetch);
    }
    if (this.#current !== undefined && this.#age(this.#current) < LAST_GOOD_MS) {
      return this.#current.keys;
    }
    throw this.#failure;
  }

  #needsFetch(kid: string | undefined): boolean {
    const current = this.#current;
    if (current === undefined || this.#age(current) >= FRESH_MS) {
      return true;
    }
    return kid !== undefined && current.jwks.keys.every((key) => key.kid !== kid);
  }

  #age({ fetchedAt }: KeySet): number {
    return this.#clock.now() - fetchedAt;
  }

  async #refresh(fetch: FetchJwks): Promise<void> {
    const hasResult = this.#current !== undefined || this.#failure !== undefined;
    const isCoolingDown = hasResult && this.#clock.now() - this.#triedAt < COOLDOWN_MS;
    if (this.#fetching === undefined && isCoolingDown) {
      return;
    }
    this.#fetching ??= this.#fetch(fetch).finally(() => {
      this.#fetching = undefined;
    });
    await this.#fetching;
  }

  async #fetch(fetch: FetchJwks): Promise<void> {
    this.#triedAt = this.#clock.now();
    try {
      const jwks = await filterJwks(await fetch());
      this.#current = { jwks, keys: createLocalJWKSet(jwks), fetchedAt: this.#clock.now() };
      this.#failure = undefined;
    } catch (error) {
      this.#failure = error;
    }
  }
}
