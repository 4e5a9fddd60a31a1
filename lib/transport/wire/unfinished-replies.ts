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
  readonly #replies = new Set<UnfinishedReply>();
  readonly #heldBy = new Map<string, number>();
  /** A tenant decompresses one reply at a time: each takes a thread of four, and one of Brotli 16 MiB that are not counted. */
  readonly decompressions = new Turns<string>();
  #held = 0;

  /** Counts further bytes of a reply. It may be the one that is given up for them. */
  hold(reply: UnfinishedReply, bytes: number): void {
    this.#replies.add(reply);
    this.#count(reply.tenant, bytes);
    const ofTenant = this.#heldBy.get(reply.tenant) ?? 0;
    if (ofTenant > MOST_OF_TENANT) {
      const [largest, second] = this.#largestOf(reply.tenant);
      if (second !== undefined && ofTenant > (largest?.limit ?? 0)) {
        largest?.giveUp(`the unfinished replies of this tenant hold more than ${MOST_OF_TENANT / MIB} MiB`);
      }
    }
    if (this.#held > MOST_OF_ALL) {
      const [most] = [...this.#heldBy].toSorted(([, a], [, b]) => b - a);
      const [largest] = this.#largestOf(most?.[0]);
      largest?.giveUp(`the unfinished replies of all tenants hold more than ${MOST_OF_ALL / MIB} MiB`);
    }
  }

  /** The reply has ended. */
  release(reply: UnfinishedReply): void {
    if (this.#replies.delete(reply)) {
      this.#count(reply.tenant, -reply.held);
    }
  }

  #count(tenant: string, bytes: number): void {
    this.#held += bytes;
    this.#heldBy.set(tenant, (this.#heldBy.get(tenant) ?? 0) + bytes);
    if (this.#heldBy.get(tenant) === 0) {
      this.#heldBy.delete(tenant);
    }
  }

  #largestOf(tenant: string | undefined): UnfinishedReply[] {
    return [...this.#replies].filter((reply) => reply.tenant === tenant).toSorted((a, b) => b.held - a.held);
  }
}
