import { Inject, Injectable } from '@nestjs/common';
import { publish, type StoreMessage } from '../diagnostics/channels.js';
import { digestOf } from '../model/digest.js';
import { isRecord } from '../model/json-values.js';
import type { SharedStore } from '../model/shared-store.interface.js';
import { CHECKED_OPTIONS, type CheckedOptions } from '../options/check-options.js';
import { STORE_ANSWERS_AGAIN, storeDown } from '../problems/host-problems.js';
import { ProblemLog } from '../problems/problem-log.service.js';
import { Clock } from '../time/clock.js';
import { withTimeout } from '../time/deadline.js';
import { Sealer } from './sealer.service.js';

const PREFIX = 'nestjs-exhibitor';

/** Version of the form of sealed values, which their keys name: another version of this package does not find them. */
const FORM = 1;

/** Time limit of one operation of the store, in ms. */
const MAX_WAIT = 1_000;

/** After a failure the store is not asked for this long, in ms. */
const REST = 5_000;

/** An answer of the store. `undefined` in place of it: there is no store, it failed, or it rests. */
interface StoreAnswer<R> {
  readonly answer: R;
}

interface WriteOptions {
  readonly ifAbsent?: true;
  /** Also while the store rests. */
  readonly evenAtRest?: boolean;
}

/**
 * The `store` of the host. Keys are digests, since names may contain an address. A store that fails or does not answer within a
 * second is a cache miss and a warning, never a failure of the call; then it rests for 5 s.
 */
@Injectable()
export class SharedValues {
  readonly #store: SharedStore | undefined;
  /** In ms of {@link Clock.now}. */
  #restsUntil = 0;
  /** A warning was logged since the store answered last. */
  #wasWarned = false;

  constructor(
    @Inject(CHECKED_OPTIONS) { settings }: CheckedOptions,
    @Inject(Sealer) private readonly sealer: Sealer,
    @Inject(Clock) private readonly clock: Clock,
    @Inject(ProblemLog) private readonly log: ProblemLog,
  ) {
    this.#store = settings.store;
  }

  /** True where the host configured a store. */
  get enabled(): boolean {
    return this.#store !== undefined;
  }

  /** The text of a name, `undefined` where there is none; no answer where the store is down. */
  async read(kind: string, name: string): Promise<StoreAnswer<string | undefined> | undefined> {
    const found = await this.#attempt(kind, (store) => store.get(keyOf(kind, name)));
    return found && { answer: typeof found.answer === 'string' ? found.answer : undefined };
  }

  /** Sets a text for `ttl` ms. Answers whether it was set; `undefined` where there is no store or it is down. */
  async write(
    kind: string,
    name: string,
    text: string,
    ttl: number,
    { evenAtRest = false, ...rules }: WriteOptions = {},
  ): Promise<boolean | undefined> {
    const options = { ttl: Math.ceil(ttl), ...rules };
    const write = (store: SharedStore): Promise<boolean> => store.set(keyOf(kind, name), text, options);
    return (await this.#attempt(kind, write, evenAtRest))?.answer;
  }

  /** The value that was sealed for this name; `undefined` where there is none, it does not open or the store is down. */
  async readSealed(kind: string, name: string): Promise<unknown> {
    const versioned = versionedName(name);
    const stored = await this.read(kind, versioned);
    const content = stored?.answer && (await this.sealer.open('store', stored.answer));
    // The key is sealed with the value: a value that was copied to another key of the store does not count.
    return isRecord(content) && content['key'] === keyOf(kind, versioned) ? content['value'] : undefined;
  }

  /** As {@link write}, for a JSON value that is sealed. */
  async writeSealed(kind: string, name: string, value: unknown, ttl: number): Promise<boolean | undefined> {
    const versioned = versionedName(name);
    const content = { key: keyOf(kind, versioned), value };
    return this.write(kind, versioned, await this.sealer.seal('store', content, ttl), ttl);
  }

  publishOutcome(kind: string, outcome: StoreMessage['outcome']): void {
    publish('store', () => ({ kind, outcome }));
  }

  async #attempt<R>(
    kind: string,
    operation: (store: SharedStore) => Promise<R>,
    evenAtRest = false,
  ): Promise<StoreAnswer<R> | undefined> {
    const store = this.#store;
    if (store === undefined) {
      return undefined;
    }
    if (evenAtRest || this.clock.now() >= this.#restsUntil) {
      try {
        const answer = await withTimeout(MAX_WAIT, () => operation(store));
        if (this.#wasWarned) {
          this.#wasWarned = false;
          this.log.info(STORE_ANSWERS_AGAIN);
        }
        return { answer };
      } catch (error) {
        this.#restsUntil = this.clock.now() + REST;
        this.#wasWarned = this.log.warn(storeDown(error), 'store') || this.#wasWarned;
      }
    }
    this.publishOutcome(kind, 'failed');
    return undefined;
  }
}

function keyOf(kind: string, name: string): string {
  return `${PREFIX}:${kind}:${digestOf(name)}`;
}

function versionedName(name: string): string {
  return `${FORM}:${name}`;
}
