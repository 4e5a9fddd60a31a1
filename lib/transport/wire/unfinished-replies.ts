const MIB = 1024 * 1024;
/** Bytes that the unfinished replies of one tenant may hold. One reply alone may be as large as its own limit. */
const MOST_OF_TENANT = 64 * MIB;
/** Bytes that the unfinished replies of all tenants may hold. */
const MOST_OF_ALL = 512 * MIB;

/** A reply whose body is being read or decompressed. */
export interface UnfinishedReply {
  /** Key of its tenant. */
  readonly tenant: string;
  /** Largest body in bytes. */
  readonly limit: number;
  /** Bytes that it holds. */
  readonly held: number;
  /** Ends it: it takes memory that others need. */
  giveUp(why: string): void;
}

/** The unfinished replies of one tenant. */
class RepliesOfTenant {
  readonly replies = new Set<UnfinishedReply>();
  held = 0;

  get isTooLarge(): boolean {
    return this.held > MOST_OF_TENANT && this.replies.size > 1 && this.held > (this.largest?.limit ?? 0);
  }

  get largest(): UnfinishedReply | undefined {
    return mostOf(this.replies);
  }
}

/**
 * Limits the memory of replies under way, which a slow service keeps until the deadline. Beyond a limit, the tenant that holds
 * most loses its largest reply.
 */
export class UnfinishedReplies {
  readonly #ofTenants = new Map<string, RepliesOfTenant>();
  #held = 0;

  /** Counts further bytes of a reply. It may be the one that is given up for them. */
  hold(reply: UnfinishedReply, bytes: number): void {
    const own = this.#ofTenants.get(reply.tenant) ?? new RepliesOfTenant();
    this.#ofTenants.set(reply.tenant, own);
    own.replies.add(reply);
    own.held += bytes;
    this.#held += bytes;
    if (own.isTooLarge) {
      own.largest?.giveUp(`the unfinished replies of this tenant hold more than ${MOST_OF_TENANT / MIB} MiB`);
    } else if (this.#held > MOST_OF_ALL) {
      const largest = mostOf(this.#ofTenants.values())?.largest;
      largest?.giveUp(`the unfinished replies of all tenants hold more than ${MOST_OF_ALL / MIB} MiB`);
    }
  }

  /** The reply has ended. */
  release(reply: UnfinishedReply): void {
    const own = this.#ofTenants.get(reply.tenant);
    if (own?.replies.delete(reply) !== true) {
      return;
    }
    own.held -= reply.held;
    this.#held -= reply.held;
    if (own.replies.size === 0) {
      this.#ofTenants.delete(reply.tenant);
    }
  }
}

function mostOf<T extends { readonly held: number }>(all: Iterable<T>): T | undefined {
  let most: T | undefined;
  for (const one of all) {
    if (most === undefined || one.held > most.held) {
      most = one;
    }
  }
  return most;
}
