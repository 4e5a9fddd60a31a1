import { SerialQueues } from '../../time/serial-queues.js';
import { ReplyTurns } from './reply-turns.js';

const MIB = 1024 * 1024;
/** Bytes that the unfinished replies of one tenant may hold. One reply alone may be as large as its own limit. */
const MOST_OF_PAYER = 64 * MIB;
/** Bytes that the unfinished replies of all tenants may hold. */
const MOST_OF_ALL = 512 * MIB;

/** A reply whose body is being read or decompressed. */
export interface UnfinishedReply {
  /** Key of its tenant, or of a document that several tenants wait for. */
  readonly payer: string;
  readonly limit: number;
  readonly bytes: number;
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
  readonly #byPayer = new Map<string, Set<UnfinishedReply>>();
  #bytes = 0;

  /** Counts further bytes of a reply, which it has added to its own. It may be the one that is given up for them. */
  hold(reply: UnfinishedReply, bytes: number): void {
    const ofPayer = this.#byPayer.get(reply.payer) ?? new Set();
    this.#byPayer.set(reply.payer, ofPayer.add(reply));
    this.#bytes += bytes;
    const bytesOfPayer = bytesOf(ofPayer);
    if (bytesOfPayer > MOST_OF_PAYER && ofPayer.size > 1) {
      const largest = largestOf(ofPayer);
      if (bytesOfPayer > largest.limit) {
        largest.giveUp(`the unfinished replies of this tenant hold more than ${MOST_OF_PAYER / MIB} MiB`);
      }
    }
    if (this.#bytes > MOST_OF_ALL) {
      const most = [...this.#byPayer.values()].reduce((a, b) => (bytesOf(b) > bytesOf(a) ? b : a));
      largestOf(most).giveUp(`the unfinished replies of all tenants hold more than ${MOST_OF_ALL / MIB} MiB`);
    }
  }

  release(reply: UnfinishedReply): void {
    const ofPayer = this.#byPayer.get(reply.payer);
    if (ofPayer?.delete(reply) === true) {
      this.#bytes -= reply.bytes;
      if (ofPayer.size === 0) {
        this.#byPayer.delete(reply.payer);
      }
    }
  }
}

function bytesOf(replies: ReadonlySet<UnfinishedReply>): number {
  let sum = 0;
  for (const { bytes } of replies) {
    sum += bytes;
  }
  return sum;
}

function largestOf(replies: ReadonlySet<UnfinishedReply>): UnfinishedReply {
  return [...replies].reduce((a, b) => (b.bytes > a.bytes ? b : a));
}
