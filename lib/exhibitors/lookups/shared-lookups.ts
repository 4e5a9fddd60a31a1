import { createHmac, createSecretKey, hkdfSync, type KeyObject } from 'node:crypto';
import * as v from 'valibot';
import type { ExhibitorSettings } from '../../options/exhibitor-settings.js';
import type { Generation } from '../../store/generations.service.js';
import type { SharedValues } from '../../store/shared-values.service.js';
import type { Clock } from '../../time/clock.js';
import type { Deadline } from '../../time/deadline.js';
import { withTimeout } from '../../time/with-timeout.js';
import type { LookupSubject } from './lookup-cache.js';

const KIND = 'lookup';

/** Largest answer that is shared, in estimated bytes of heap. A larger one would hold up the event loop and the store. */
const LARGEST_SHARED = 256 * 1024;

/**
 * What a lookup may wait for each operation of the store, as a share of the time it has left: two of them leave more than half
 * to the service.
 */
const STORE_SHARE = 1 / 4;

type LookupCacheSettings = Exclude<ExhibitorSettings['lookupCache'], false>;

export interface SharedLookup {
  /** As the service sent them. */
  readonly rows: readonly unknown[];
  /** Milliseconds for which it is fresh. 0 or less: it may only be used where the service fails. */
  readonly freshFor: number;
}

const storedLookup = v.object({
  generation: v.string(),
  /** Milliseconds since 1970, the only clock that processes share. */
  freshUntil: v.number(),
  rows: v.array(v.unknown()),
});

/**
 * Answers to lookups that the processes of a host share through its `store`, as the service sent them. They are sealed, and
 * named by an HMAC: without one of the `secrets` nobody can find out from the store whom an answer is about, not even by
 * guessing. The first secret names what is written. Answers under every secret are read, so that processes share them while
 * `secrets` are rotated.
 */
export class SharedLookups {
  readonly #keys: readonly KeyObject[];

  constructor(
    private readonly values: SharedValues,
    private readonly clock: Clock,
    private readonly limits: LookupCacheSettings,
    secrets: readonly string[],
  ) {
    this.#keys = secrets.map(hmacKeyOf);
  }

  /** The newest answer of this generation, where it is fresh or within `staleIfError`. */
  async find(subject: LookupSubject, generation: Generation): Promise<SharedLookup | undefined> {
    if (!generation.isKnown) {
      return undefined;
    }
    const answers = await Promise.all(this.#keys.map((key) => this.values.read(KIND, nameOf(key, subject))));
    const { ttl, staleIfError, maxRecords } = this.limits;
    const [newest] = answers
      .map((answer) => v.safeParse(storedLookup, answer?.value))
      .flatMap(({ success, output }) => (success ? [output] : []))
      .filter((stored) => stored.generation === generation.id && stored.rows.length <= maxRecords)
      .toSorted((one, other) => other.freshUntil - one.freshUntil);
    if (answers.some((answer) => answer !== undefined)) {
      this.values.publishOutcome(KIND, newest === undefined ? 'miss' : 'hit');
    }
    if (newest === undefined) {
      return undefined;
    }
    const freshFor = Math.min(ttl, newest.freshUntil - this.clock.epochMs());
    return freshFor > -staleIfError ? { rows: newest.rows, freshFor } : undefined;
  }

  /** Shares an answer of the service. One that is too large removes the former one. */
  async set(
    subject: LookupSubject,
    generation: Generation,
    rows: readonly unknown[],
    weight: number,
  ): Promise<void> {
    const [first] = this.#keys;
    if (first === undefined || !generation.isKnown) {
      return;
    }
    const name = nameOf(first, subject);
    if (weight > LARGEST_SHARED) {
      return this.values.delete(KIND, name);
    }
    const { ttl, staleIfError } = this.limits;
    const freshUntil = this.clock.epochMs() + ttl;
    await this.values.set(KIND, name, { generation: generation.id, freshUntil, rows }, ttl + staleIfError);
  }
}

/**
 * The result of work at the store. `undefined`, which is a miss, where the work fails or takes too much of the call's time.
 * Throws where the call is over.
 */
export function missUnlessSoon<T>(work: Promise<T>, deadline: Deadline): Promise<T | undefined> {
  const result = withTimeout(deadline.remaining() * STORE_SHARE, () => work);
  return deadline.race(result.catch(() => undefined));
}

function hmacKeyOf(secret: string): KeyObject {
  return createSecretKey(new Uint8Array(hkdfSync('sha256', secret, '', 'nestjs-exhibitor:store-keys', 32)));
}

/** Everything that an answer depends on. The base URL is that of the service; the tenant key may mean another one elsewhere. */
function nameOf(key: KeyObject, { tenant, eventId, contactEmail }: LookupSubject): string {
  const { baseUrl, key: tenantKey, tenantId, settings } = tenant;
  const name = JSON.stringify([baseUrl, tenantKey, tenantId, settings.clientId, eventId, contactEmail]);
  return createHmac('sha256', key).update(name).digest('base64url');
}
