import { randomBytes } from 'node:crypto';
import { Inject, Injectable } from '@nestjs/common';
import { CHECKED_OPTIONS, type CheckedOptions } from '../../options/check-options.js';
import { FleetWork } from '../../store/fleet-work.service.js';
import type { Stamp } from '../../store/generations.service.js';
import { PrivateValues } from '../../store/private-values.service.js';
import { SharedValues } from '../../store/shared-values.service.js';
import { Clock } from '../../time/clock.js';
import type { Deadline } from '../../time/deadline.js';
import type { LookupSubject } from './lookup-cache.js';
import { LookupSearch, type FoundLookup, type LookupSteps, type SharingLimits } from './lookup-search.js';
import { encodeRows, newest, parseStored, type StoredLookup } from './stored-lookup.js';

const KIND = 'lookup';

/** Shortest `ttl` in ms with a lease. A lease lives for a second; the next answer must not wait for that of the last one. */
const SHORTEST_LEASED = 2_000;

/**
 * Answers to lookups that the processes of a host share through its `store`: sealed, under an HMAC of everything that the
 * answer depends on, as the service sent them. Where there is none, one process of the fleet asks and the others wait for it.
 */
@Injectable()
export class SharedLookups {
  readonly #values: PrivateValues;
  readonly #shared: SharedValues;
  readonly #fleet: FleetWork;
  readonly #clock: Clock;
  /** `undefined`: nothing is shared. */
  readonly #limits: SharingLimits | undefined;

  constructor(
    @Inject(CHECKED_OPTIONS) { settings }: CheckedOptions,
    @Inject(PrivateValues) values: PrivateValues,
    @Inject(SharedValues) shared: SharedValues,
    @Inject(FleetWork) fleet: FleetWork,
    @Inject(Clock) clock: Clock,
  ) {
    const { lookupCache } = settings;
    this.#values = values;
    this.#shared = shared;
    this.#fleet = fleet;
    this.#clock = clock;
    this.#limits = lookupCache === false || !values.enabled ? undefined : lookupCache;
  }

  /** The answer of another process, or of the service. */
  async find(
    subject: LookupSubject,
    stamp: Stamp,
    steps: LookupSteps,
    deadline: Deadline,
  ): Promise<FoundLookup> {
    const limits = this.#limits;
    if (limits === undefined || !stamp.isKnown) {
      return this.ask(subject, stamp, steps);
    }
    const search = new LookupSearch(this.#clock, limits, steps);
    const name = nameOf(subject);
    const look = async (): Promise<FoundLookup | 'too-large' | undefined> => {
      const found = await this.#values.find(KIND, name);
      return search.examine(newest((found ?? []).flatMap((one) => parseStored(one, stamp.text))));
    };
    const ask = (): Promise<FoundLookup> => this.ask(subject, stamp, steps);
    const result = await this.#run(JSON.stringify([name, stamp.text]), { find: look, ask }, deadline);
    return result === 'too-large' ? ask() : result;
  }

  /** The answer of the service, which other processes may then use. */
  async ask(subject: LookupSubject, stamp: Stamp, { ask }: LookupSteps): Promise<FoundLookup> {
    const { rows, answer } = await ask();
    const limits = this.#limits;
    if (limits === undefined) {
      return { answer, freshFor: Number.POSITIVE_INFINITY, isShared: false };
    }
    if (stamp.isKnown) {
      const stored: StoredLookup = {
        id: randomBytes(9).toString('base64url'),
        stamp: stamp.text,
        freshUntil: this.#clock.epochMs() + limits.ttl,
        rows: encodeRows(rows, answer.weight),
      };
      await this.#values.set(KIND, nameOf(subject), stored, limits.ttl + limits.staleIfError);
    }
    return { answer, freshFor: limits.ttl, isShared: false };
  }

  async #run<T>(
    name: string,
    work: { find(): Promise<T | undefined>; ask(): Promise<T> },
    deadline: Deadline,
  ): Promise<T> {
    if (this.#limits !== undefined && this.#limits.ttl < SHORTEST_LEASED) {
      return (await work.find()) ?? work.ask();
    }
    const lease = this.#values.digestOf(KIND, name);
    const { value, source } = await this.#fleet.run({ kind: KIND, name: lease, ...work }, deadline);
    if (source !== 'waited') {
      this.#shared.tell(KIND, source === 'found' ? 'hit' : 'miss');
    }
    return value;
  }
}

/** Everything that an answer depends on. The base URL is that of the service; the tenant key may mean another one elsewhere. */
function nameOf({ tenant, eventId, contactEmail }: LookupSubject): string {
  const { baseUrl, key, tenantId, clientId } = tenant;
  return JSON.stringify([baseUrl, key, tenantId, clientId, eventId, contactEmail]);
}
