import type { Clock } from '../../call/clock.js';
import type { Deadline } from '../../call/deadline.js';
import { queued } from './semaphore.js';

/** For how long an origin counts as shared after a second tenant used it, in ms. */
const SHARED_FOR = 60_000;

/** Where several tenants use an origin, one of them has this part of its slots. */
const PART = 4;

/**
 * Limits the connections of the process to one origin, over all tenants: each request under way has one at most. Without it, tenants
 * whose partner is silent take the file descriptors that the host accepts connections with (25 tenants: 1,601 sockets, measured).
 *
 * The agent of undici has such a limit, but sees the end of a call in its queue only once a connection is free.
 */
export class ConnectionSlots {
  #active = 0;
  /** Of each tenant that has one. Requests for published documents are of no tenant: `undefined`. */
  readonly #held = new Map<string | undefined, number>();
  /** Waiting requests by tenant. The first tenant that may have a slot is the next; then it is the last. */
  readonly #queues = new Map<string | undefined, Set<() => void>>();
  #lastTenant: string | undefined;
  #sharedUntil = 0;

  constructor(
    private readonly slots: number,
    private readonly clock: Clock,
  ) {}

  /** Takes a slot, waiting for it if necessary: as long as it takes, since the slots of the tenant limit how many wait. */
  async enter(tenant: string | undefined, deadline: Deadline): Promise<'entered' | 'over'> {
    this.#notice(tenant);
    const waiting = this.#queues.get(tenant);
    if (waiting === undefined && this.#isFreeFor(tenant)) {
      this.#take(tenant);
      return 'entered';
    }
    const queue = waiting ?? new Set();
    this.#queues.set(tenant, queue);
    const entry = await queued(queue, deadline);
    if (queue.size === 0 && this.#queues.get(tenant) === queue) {
      this.#queues.delete(tenant);
    }
    return entry;
  }

  /** Returns a slot of the tenant. */
  leave(tenant: string | undefined): void {
    const held = (this.#held.get(tenant) ?? 1) - 1;
    if (held === 0) {
      this.#held.delete(tenant);
    } else {
      this.#held.set(tenant, held);
    }
    this.#active -= 1;
    this.#serve();
  }

  /** Gives what is free to the tenants that wait, in turn. */
  #serve(): void {
    // One that is set again stands last, and is reached again.
    for (const [tenant, queue] of this.#queues) {
      if (this.#active >= this.slots) {
        return;
      }
      const [start] = queue;
      if (this.#isFreeFor(tenant)) {
        this.#queues.delete(tenant);
        if (queue.size > 1) {
          this.#queues.set(tenant, queue);
        }
        if (start !== undefined) {
          this.#take(tenant);
          start();
        }
      }
    }
  }

  #notice(tenant: string | undefined): void {
    if (tenant === undefined || tenant === this.#lastTenant) {
      return;
    }
    if (this.#lastTenant !== undefined) {
      this.#sharedUntil = this.clock.now() + SHARED_FOR;
    }
    this.#lastTenant = tenant;
  }

  #isFreeFor(tenant: string | undefined): boolean {
    const isShared = this.clock.now() < this.#sharedUntil;
    const most = isShared ? Math.max(1, Math.floor(this.slots / PART)) : this.slots;
    return this.#active < this.slots && (this.#held.get(tenant) ?? 0) < most;
  }

  #take(tenant: string | undefined): void {
    this.#active += 1;
    this.#held.set(tenant, (this.#held.get(tenant) ?? 0) + 1);
  }
}
