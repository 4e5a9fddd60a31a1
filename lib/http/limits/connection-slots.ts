import type { Clock } from '../../call/clock.js';
import type { Call } from '../../call/call.js';
import { queued, type Queue } from '../../call/semaphore.js';

/** For how long an origin counts as shared after a second tenant used it, in ms. */
const SHARED_FOR = 60_000;

/** Where several tenants use an origin, one of them has this part of its slots. */
const PART = 4;

/** Requests that take connections in common: those of one purpose of a tenant, or for one published document. */
export interface ConnectionUser {
  /** Key of the tenant; `undefined` for published documents. */
  readonly tenant: string | undefined;
  /** Connections that it has. */
  held: number;
}

/**
 * Limits the connections of the process to one origin, over all tenants: each request under way has one at most. Without it, tenants
 * whose partner is silent take the file descriptors that the host accepts connections with (25 tenants: 1,601 sockets, measured).
 *
 * The agent of undici has such a limit, but sees the end of a call in its queue only once a connection is free.
 */
export class ConnectionSlots {
  #active = 0;
  /** Connections of each tenant that has one. */
  readonly #held = new Map<string | undefined, number>();
  /** Waiting requests. The first user that may have a slot is the next; then it is the last. */
  readonly #queues = new Map<ConnectionUser, Queue>();
  #lastTenant: string | undefined;
  #sharedUntil = 0;

  constructor(
    private readonly slots: number,
    private readonly clock: Clock,
  ) {}

  /**
   * Takes a slot, waiting for it if necessary: as long as it takes, since the slots of the tenant limit how many wait. No promise where
   * one is free.
   */
  enter(user: ConnectionUser, call: Call): 'entered' | Promise<'entered' | 'over'> {
    this.#notice(user.tenant);
    const waiting = this.#queues.get(user);
    if (waiting === undefined && this.#isFreeFor(user)) {
      this.#take(user);
      return 'entered';
    }
    return this.#wait(user, waiting ?? new Set(), call);
  }

  async #wait(user: ConnectionUser, queue: Queue, call: Call): Promise<'entered' | 'over'> {
    this.#queues.set(user, queue);
    const entering = queued(queue, call);
    // The time in which the origin counts as shared may have ended since the others began to wait.
    this.#serve();
    const entry = await entering;
    if (queue.size === 0 && this.#queues.get(user) === queue) {
      this.#queues.delete(user);
    }
    return entry;
  }

  /** Returns a slot. */
  leave(user: ConnectionUser): void {
    const { tenant } = user;
    user.held -= 1;
    const held = (this.#held.get(tenant) ?? 1) - 1;
    if (held === 0) {
      this.#held.delete(tenant);
    } else {
      this.#held.set(tenant, held);
    }
    this.#active -= 1;
    this.#serve();
  }

  /** Gives what is free to those that wait, in turn. */
  #serve(): void {
    // A user that is set again stands last, and this loop reaches it again.
    for (const [user, queue] of this.#queues) {
      if (this.#active >= this.slots) {
        return;
      }
      const [takesSlot] = queue;
      if (this.#isFreeFor(user)) {
        this.#queues.delete(user);
        if (queue.size > 1) {
          this.#queues.set(user, queue);
        }
        if (takesSlot?.() === true) {
          this.#take(user);
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

  /**
   * The first connection of each purpose does not count against the tenant's quarter, so that slow lists or forged codes do not delay
   * its guards.
   */
  #isFreeFor({ tenant, held }: ConnectionUser): boolean {
    const isFirst = tenant !== undefined && held === 0;
    return this.#active < this.slots && (isFirst || (this.#held.get(tenant) ?? 0) < this.#most);
  }

  /** Slots of one tenant. */
  get #most(): number {
    const isShared = this.clock.now() < this.#sharedUntil;
    return isShared ? Math.max(1, Math.floor(this.slots / PART)) : this.slots;
  }

  #take(user: ConnectionUser): void {
    this.#active += 1;
    user.held += 1;
    this.#held.set(user.tenant, (this.#held.get(user.tenant) ?? 0) + 1);
  }
}
