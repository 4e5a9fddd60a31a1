import { SerialQueues } from '../../time/serial-queues.js';
import { ReplyTurns } from './reply-turns.js';

const MIB = 1024 * 1024;
/** Bytes that the unfinished replies of one tenant may hold. One reply alone may be as large as its own limit. */
const MOST_OF_SHARE = 64 * MIB;
/** Bytes that the unfinished replies of all tenants may hold. */
const MOST_OF_ALL = 512 * MIB;

/** A reply whose body is being read or decompressed. */
export interface UnfinishedReply {
  /** Key of its tenant, or of a document that several tenants wait for. */
  readonly share: string;
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
  readonly decompressions = new SerialQueues<string>();
  readonly turns = new ReplyTurns();
  readonly #byShare = new Map<string, Set<UnfinishedReply>>();
  #held = 0;

  /** Counts further bytes of a reply, which it has added to its own. It may be the one that is given up for them. */
  hold(reply: UnfinishedReply, bytes: number): void {
    const ofShare = this.#byShare.get(reply.share) ?? new Set();
    this.#byShare.set(reply.share, ofShare.add(reply));
    this.#held += bytes;
    const heldByShare = bytesOf(ofShare);
    if (heldByShare > MOST_OF_SHARE && ofShare.size > 1) {
      const largest = largestOf(ofShare);
      if (heldByShare > largest.limit) {
        largest.giveUp(`the unfinished replies of this tenant hold more than ${MOST_OF_SHARE / MIB} MiB`);
      }
    }
    if (this.#held > MOST_OF_ALL) {
      const most = [...this.#byShare.values()].reduce((a, b) => (bytesOf(b) > bytesOf(a) ? b : a));
      largestOf(most).giveUp(`the unfinished replies of all tenants hold more than ${MOST_OF_ALL / MIB} MiB`);
    }
  }

  /** The reply has ended. */
  release(reply: UnfinishedReply): void {
    const ofShare = this.#byShare.get(reply.share);
    if (ofShare?.delete(reply) === true) {
      this.#held -= reply.held;
      if (ofShare.size === 0) {
        this.#byShare.delete(reply.share);
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
