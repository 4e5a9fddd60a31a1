import type { JSONWebKeySet } from 'jose';
import type { Clock } from '../time/clock.js';
import { filterJwks } from './filter-jwks.js';

/** How long a fetched set is taken without asking again. */
const FRESH_MS = 600_000;
/** How long the last good set is used while it cannot be fetched. */
const LAST_GOOD_MS = 86_400_000;
/** At most one fetch in this time for unknown key ids and after failures: a forged `kid` must not cause a storm. */
const COOLDOWN_MS = 30_000;

/** Fetches the body of the keys URL. */
export type FetchKeys = () => Promise<unknown>;

/** The key set behind a URL: fetched when first needed, shared by all who wait, kept through failures. */
export class RemoteJwks {
  #keys: JSONWebKeySet | undefined;
  #fetchedAt = Number.NEGATIVE_INFINITY;
  #triedAt = Number.NEGATIVE_INFINITY;
  #fetching: Promise<void> | undefined;
  #failure: unknown;

  constructor(private readonly clock: Clock) {}

  /** Keys to verify a token with; asked again when `kid` is not among them. */
  async get(kid: string | undefined, fetch: FetchKeys): Promise<JSONWebKeySet> {
    const age = this.clock.now() - this.#fetchedAt;
    const unknownKid = kid !== undefined && this.#keys?.keys.every((key) => key.kid !== kid) === true;
    if (this.#keys === undefined || age >= FRESH_MS || unknownKid) {
      await this.#refresh(fetch);
    }
    if (this.#keys !== undefined && this.clock.now() - this.#fetchedAt < LAST_GOOD_MS) {
      return this.#keys;
    }
    throw this.#failure;
  }

  async #refresh(fetch: FetchKeys): Promise<void> {
    const { clock } = this;
    const canWait = this.#keys !== undefined || this.#failure !== undefined;
    if (this.#fetching === undefined && canWait && clock.now() - this.#triedAt < COOLDOWN_MS) {
      return;
    }
    this.#fetching ??= this.#fetch(fetch).finally(() => {
      this.#fetching = undefined;
    });
    await this.#fetching;
  }

  async #fetch(fetch: FetchKeys): Promise<void> {
    this.#triedAt = this.clock.now();
    try {
      this.#keys = await filterJwks(await fetch());
      this.#fetchedAt = this.clock.now();
      this.#failure = undefined;
    } catch (error) {
      this.#failure = error;
    }
  }
}
