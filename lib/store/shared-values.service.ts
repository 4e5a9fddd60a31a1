import { createHmac } from 'node:crypto';
import { setTimeout as pause } from 'node:timers/promises';
import { Inject, Injectable, type BeforeApplicationShutdown } from '@nestjs/common';
import { publish, type StoreMessage } from '../call/channels.js';
import { digestOf } from '../model/digest.js';
import { isRecord } from '../model/json-values.js';
import type { SharedStore } from '../model/shared-store.interface.js';
import { CHECKED_OPTIONS, type CheckedOptions } from '../config/check-options.js';
import { storeDown } from '../config/problems/host-problems.js';
import { ProblemLog } from '../config/problems/problem-log.service.js';
import { Clock, withTimeout } from '../call/clock.js';
import { Rests } from '../call/partner.js';
import { createCache, type ExpiringCache } from '../call/expiring-cache.js';
import { Sealer } from './sealer.service.js';

const PREFIX = 'nestjs-exhibitor';

/** Version of the form of sealed values, which their keys name: another version of this package does not find them. */
const FORM = 1;

/** Time limit of one operation of the store, in ms. */
const MAX_WAIT = 1_000;

/** Wait before the second attempt to write a logout, in ms. */
const WRITE_AGAIN_AFTER = 1_000;

/** Logouts that wait for the store. The oldest gives way to a further one. */
const MAX_WAITING = 1_000;

interface WriteOptions {
  readonly ifAbsent?: true;
  /** Also while the store rests. */
  readonly evenAtRest?: boolean;
}

/**
 * The `store` of the host. Keys are digests, since names may contain an address. A store that fails or does not answer within a
 * second is a cache miss and a warning; then it rests for 5 s.
 */
@Injectable()
export class SharedValues implements BeforeApplicationShutdown {
  /** True where the host configured a store. */
  readonly enabled: boolean;
  readonly #store: SharedStore | undefined;
  /**
   * The secret that names are made with: the order of `secrets`, which differs during a rotation, does not count. A process that lacks one
   * of them may make other names, and requests a token more.
   */
  readonly #naming: string;
  /** A warning was logged since the store answered last. */
  #wasWarned = false;
  /** Attempts to write a logout, by its name: one that is repeated takes one place. */
  readonly #waiting: ExpiringCache<() => Promise<boolean>>;

  constructor(
    @Inject(CHECKED_OPTIONS) { settings }: CheckedOptions,
    @Inject(Sealer) private readonly sealer: Sealer,
    @Inject(Clock) clock: Clock,
    @Inject(Rests) private readonly rests: Rests,
    @Inject(ProblemLog) private readonly log: ProblemLog,
  ) {
    this.#store = settings.store;
    this.enabled = settings.store !== undefined;
    this.#naming = settings.secrets.toSorted()[0] ?? '';
    this.#waiting = createCache(clock, { max: MAX_WAITING });
  }

  /** Names what is secret. By a mere digest, whoever lists the keys of the store could try guesses. */
  secretName(text: string): string {
    return createHmac('sha256', this.#naming).update(text).digest('base64url');
  }

  /** The text that is stored for a name, `undefined` where there is none; `null` where there is no store or it is down. */
  async read(kind: string, name: string, evenAtRest = false): Promise<string | undefined | null> {
    const read = async (store: SharedStore): Promise<string | undefined> => {
      const found: unknown = await store.get(keyOf(kind, name));
      if (found === undefined || found === null) {
        return undefined;
      }
      // Clients of a store can be set to return Buffers, or to parse what is JSON.
      return found instanceof Uint8Array ? Buffer.from(found).toString() : String(found);
    };
    return this.#attempt(kind, read, evenAtRest);
  }

  /** Sets a text for `ttl` ms. Returns whether it was set; `null` where there is no store or it is down. */
  async write(
    kind: string,
    name: string,
    text: string,
    ttl: number,
    { evenAtRest = false, ...rules }: WriteOptions = {},
  ): Promise<boolean | null> {
    const options = { ttl: Math.ceil(ttl), ...rules };
    const write = (store: SharedStore): Promise<boolean> => store.set(keyOf(kind, name), text, options);
    return this.#attempt(kind, write, evenAtRest);
  }

  /**
   * Writes the end of a login or a logout at once, even while the store rests. What the store does not take is written once more after a
   * second, and at the close of the application. With `ifAbsent`, a text that is there counts as written.
   */
  async writeSoon(
    kind: string,
    name: string,
    text: string,
    ttl: number,
    rules: Pick<WriteOptions, 'ifAbsent'> = {},
  ): Promise<void> {
    const attempt = async (): Promise<boolean> => {
      const written = await this.write(kind, name, text, ttl, { evenAtRest: true, ...rules });
      if (written !== false || rules.ifAbsent !== true) {
        return written === true;
      }
      // A store that is full returns false, too.
      return typeof (await this.read(kind, name, true)) === 'string';
    };
    if (!(await attempt())) {
      this.#waiting.set(name, attempt, { ttl });
      const line =
        `${this.#waiting.size} logout(s) could not be written to the shared store; they are tried once more after a second, and at ` +
        'close. Until then other processes accept these identities';
      this.log.warn(line, 'unwritten logouts');
      void this.#writeAgain(name, attempt);
    }
  }

  /** The last attempts. Each takes a second at most. */
  async beforeApplicationShutdown(): Promise<void> {
    const attempts = [...this.#waiting.values()];
    this.#waiting.clear();
    await Promise.all(attempts.map((attempt) => attempt()));
  }

  /** The value that was sealed for this name; `undefined` where there is none, it does not open or the store is down. */
  async readSealed(kind: string, name: string): Promise<unknown> {
    const versioned = versionedName(name);
    const stored = await this.read(kind, versioned);
    const content = typeof stored === 'string' ? await this.sealer.open('store', stored) : undefined;
    // The key is sealed with the value: a value that was copied to another key of the store does not count.
    return isRecord(content) && content['key'] === keyOf(kind, versioned) ? content['value'] : undefined;
  }

  /** As {@link write}, for a JSON value that is sealed. */
  async writeSealed(kind: string, name: string, value: unknown, ttl: number): Promise<boolean | null> {
    const versioned = versionedName(name);
    const content = { key: keyOf(kind, versioned), value };
    return this.write(kind, versioned, await this.sealer.seal('store', content, ttl), ttl);
  }

  publishOutcome(kind: string, outcome: StoreMessage['outcome']): void {
    publish('store', () => ({ kind, outcome }));
  }

  async #writeAgain(name: string, attempt: () => Promise<boolean>): Promise<void> {
    // What waits must not delay the exit of the process.
    await pause(WRITE_AGAIN_AFTER, undefined, { ref: false });
    const isWaiting = (): boolean => this.#waiting.get(name) === attempt;
    // Meanwhile a newer write of this name may have failed, which then waits in the place of this one.
    if (isWaiting() && (await attempt()) && isWaiting()) {
      this.#waiting.delete(name);
    }
  }

  /** The result of the store; `null` where there is no store, it failed, or it rests. */
  async #attempt<R>(
    kind: string,
    operation: (store: SharedStore) => Promise<R>,
    evenAtRest = false,
  ): Promise<R | null> {
    const store = this.#store;
    if (store === undefined) {
      return null;
    }
    if (evenAtRest || this.rests.left(['store']) === 0) {
      try {
        const result = await withTimeout(MAX_WAIT, () => operation(store));
        if (this.#wasWarned) {
          this.#wasWarned = false;
          this.log.info('the shared store answers again');
        }
        return result;
      } catch (error) {
        this.rests.begin(['store']);
        this.#wasWarned = this.log.warn(storeDown(error), 'store') || this.#wasWarned;
      }
    }
    this.publishOutcome(kind, 'failed');
    return null;
  }
}

function keyOf(kind: string, name: string): string {
  return `${PREFIX}:${kind}:${digestOf(name)}`;
}

function versionedName(name: string): string {
  return `${FORM}:${name}`;
}
