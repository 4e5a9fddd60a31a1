import { digestOf } from '../model/digest.js';
import { freezeJson } from '../model/json-values.js';
import type { Clock } from '../time/clock.js';
import { createCache, type ExpiringCache } from '../time/expiring-cache.js';
import type { IdentityData } from './stored-identity.js';
import type { Selections } from './stored-selections.js';

/** Content of a cookie that opened. Deeply frozen, since the requests of a user share it. */
export interface OpenedCookie {
  readonly identity: IdentityData;
  readonly selections: Selections;
  /** End of the login, ms since the epoch: no extension goes beyond it. */
  readonly endsAt: number;
}

/** Estimated bytes of heap of all remembered cookies together. One takes about three times its JSON. */
const MAX_REMEMBERED_BYTES = 16 * 1024 * 1024;

const LONGEST_REMEMBERED = 60_000;

/**
 * Identity cookies that opened, so that one is opened once a minute and not at each request. They are found by the digest of
 * the sealed value: the memory of the process holds no cookie that could be used. Forged cookies do not open and take no place.
 * Only opening is remembered. Whoever reads an entry checks expiry, tenant and logout as if the cookie had just been opened.
 */
export class OpenedCookies {
  readonly #cookies: ExpiringCache<OpenedCookie>;

  constructor(
    private readonly clock: Clock,
    maxSize = MAX_REMEMBERED_BYTES,
  ) {
    this.#cookies = createCache(clock, { maxSize });
  }

  get(sealed: string): OpenedCookie | undefined {
    return this.#cookies.get(digestOf(sealed));
  }

  /** Freezes the content and remembers it until it expires, for a minute at most. */
  keep(sealed: string, opened: OpenedCookie): void {
    freezeJson(opened);
    const ttl = Math.min(LONGEST_REMEMBERED, opened.endsAt - this.clock.epochMs());
    if (ttl > 0) {
      const size = 3 * Buffer.byteLength(JSON.stringify(opened));
      this.#cookies.set(digestOf(sealed), opened, { ttl, size });
    }
  }
}
