import type { Clock } from '../../call/clock.js';
import type { Call } from '../../call/call.js';
import { offerSlot, queued, type Queue } from '../../call/calls.service.js';

/** For how long an origin counts as shared after requests of two tenants, in ms. */
const SHARED_FOR = 60_000;

/** The most that one tenant holds of the slots of a shared origin. */
const SHARE = 0.25;

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
  /** Waiting requests of each user. The users are in the order of their turns. */
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
    this.#noteTenant(user.tenant);
    if (!this.#queues.has(user) && this.#active < this.slots && this.#mayHoldMore(user)) {
      this.#count(user, 1);
      return 'entered';
    }
    return this.#wait(user, call);
  }

  async #wait(user: ConnectionUser, call: Call): Promise<'entered' | 'over'> {
    const queue: Queue = this.#queues.get(user) ?? new Set();
    this.#queues.set(user, queue);
    const entering = queued(queue, call);
    // The time in which the origin counts as shared may have ended since the others began to wait.
    this.#serve();
    const entry = await entering;
    // A user keeps no turn where its last request has left the queue.
    if (this.#queues.get(user)?.size === 0) {
      this.#queues.delete(user);
    }
    return entry;
  }

  /** Returns a slot. */
  leave(user: ConnectionUser): void {
    this.#count(user, -1);
    if (this.#queues.size > 0) {
      this.#serve();
    }
  }

  /** Gives the free slots to users that wait, one at each turn. */
  #serve(): void {
    for (const [user, queue] of this.#queues) {
      if (this.#active === this.slots) {
        return;
      }
      if (!this.#mayHoldMore(user)) {
        continue;
      }
      if (offerSlot(queue)) {
        this.#count(user, 1);
      }
      this.#queues.delete(user);
      if (queue.size > 0) {
        // Its next turn is after those of all others, still in this loop.
        this.#queues.set(user, queue);
      }
    }
  }

  /** A second tenant makes the origin a shared one. */
  #noteTenant(tenant: string | undefined): void {
    if (tenant === undefined || tenant === this.#lastTenant) {
      return;
    }
    if (this.#lastTenant !== undefined) {
      this.#sharedUntil = this.clock.now() + SHARED_FOR;
    }
    this.#lastTenant = tenant;
  }

  /** True where a free slot may go to this user: its first one, or one within the share of its tenant. */
  #mayHoldMore({ tenant, held }: ConnectionUser): boolean {
    // Each purpose of a tenant may have one, so that slow lists or forged codes do not delay the guards of the tenant.
    if (tenant !== undefined && held === 0) {
      return true;
    }
    const isShared = this.clock.now() < this.#sharedUntil;
    return !isShared || (this.#held.get(tenant) ?? 0) < Math.max(1, Math.floor(this.slots * SHARE));
  }

  #count(user: ConnectionUser, change: 1 | -1): void {
    this.#active += change;
    user.held += change;
    const held = (this.#held.get(user.tenant) ?? 0) + change;
    if (held === 0) {
      this.#held.delete(user.tenant);
    } else {
      this.#held.set(user.tenant, held);
    }
  }
}
