import { Turns } from '../../time/turns.js';

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

/**
 * Limits the memory of replies under way, which a slow service keeps until the deadline. Beyond a limit, the tenant that holds
 * most loses its largest reply.
 */
export class UnfinishedReplies {
  /** A tenant decompresses one reply at a time: each takes a thread of four, and one of Brotli 16 MiB that are not counted. */
  readonly decompressions = new Turns<string>();
  readonly #byTenant = new Map<string, Set<UnfinishedReply>>();
  #held = 0;

  /** Counts further bytes of a reply, which it has added to its own. It may be the one that is given up for them. */
  hold(reply: UnfinishedReply, bytes: number): void {
    const ofTenant = this.#byTenant.get(reply.tenant) ?? new Set();
    this.#byTenant.set(reply.tenant, ofTenant.add(reply));
    this.#held += bytes;
    const heldByTenant = bytesOf(ofTenant);
    if (heldByTenant > MOST_OF_TENANT && ofTenant.size > 1) {
      const largest = largestOf(ofTenant);
      if (heldByTenant > largest.limit) {
        largest.giveUp(`the unfinished replies of this tenant hold more than ${MOST_OF_TENANT / MIB} MiB`);
      }
    }
    if (this.#held > MOST_OF_ALL) {
      const most = [...this.#byTenant.values()].reduce((a, b) => (bytesOf(b) > bytesOf(a) ? b : a));
      largestOf(most).giveUp(`the unfinished replies of all tenants hold more than ${MOST_OF_ALL / MIB} MiB`);
    }
  }

  /** The reply has ended. */
  release(reply: UnfinishedReply): void {
    const ofTenant = this.#byTenant.get(reply.tenant);
    if (ofTenant?.delete(reply) === true) {
      this.#held -= reply.held;
      if (ofTenant.size === 0) {
        this.#byTenant.delete(reply.tenant);
      }
    }
  }
}

function bytesOf(replies: ReadonlySet<UnfinishedReply>): number {
  let sum = 0;
  for (const { held } of replies) {
    sum += held;
  }
  return sum;
}

function largestOf(replies: ReadonlySet<UnfinishedReply>): UnfinishedReply {
  return [...replies].reduce((a, b) => (b.held > a.held ? b : a));
}
