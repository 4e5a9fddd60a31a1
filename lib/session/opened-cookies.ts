import { digestOf } from '../model/digest.js';
import { freezeJson, weighJson } from '../model/json-values.js';
import type { Clock } from '../time/clock.js';
import { expiringCache, type ExpiringCache } from '../time/expiring-cache.js';
import type { IdentityData, Selections } from './stored-identity.js';

/** Estimated bytes of heap of all remembered cookies together. */
const MAX_BYTES = 16 * 1024 * 1024;

/** How long an opened cookie is remembered, in ms. */
const LONGEST = 60_000;

/** Bytes of an entry without its content. */
const ENTRY_WEIGHT = 512;

/** Content of a cookie that opened. Deeply frozen, since the requests of a user share it. */
export interface OpenedCookie {
  readonly identity: IdentityData;
  readonly selections: Selections;
  /** End of validity, ms since the epoch. */
  readonly until: number;
}

/**
 * Identity cookies that opened, so that one is opened once a minute and not at each request. They are found by the digest of
 * the sealed value: the memory of the process holds no cookie that could be used. Forged cookies do not open and take no place.
 * Only opening is remembered. Whoever reads an entry checks expiry, tenant and logout as if the cookie had just been opened.
 */
export class OpenedCookies {
  readonly #cookies: ExpiringCache<OpenedCookie>;
  readonly #clock: Clock;

  constructor(clock: Clock, maxBytes = MAX_BYTES) {
    this.#clock = clock;
    this.#cookies = expiringCache(clock, { max: maxBytes });
  }

  get(sealed: string): OpenedCookie | undefined {
    return this.#cookies.get(digestOf(sealed));
  }

  /** Freezes the content and remembers it until it expires, for a minute at most. */
  keep(sealed: string, opened: OpenedCookie): void {
    freezeJson(opened);
    const ttl = Math.min(LONGEST, opened.until - this.#clock.epochMs());
    if (ttl > 0) {
      const size = ENTRY_WEIGHT + weighJson(opened);
      this.#cookies.set(digestOf(sealed), opened, { ttl, size });
    }
  }

  forget(sealed: string): void {
    this.#cookies.delete(digestOf(sealed));
  }
}
