import type { ConnectionOptions } from 'bullmq';
import type { Exhibitor } from '../index.js';
import type { ExhibitorMirrorTarget, MirrorScope } from './mirror-target.interface.js';

/** An event that is copied again and again. */
export interface MirroredEvent extends MirrorScope {
  /** Time between two copies of this event, in ms; not less than between two listings of `events`. Default: the option `every`. */
  every?: number | undefined;
}

type MirroredEvents = Iterable<MirroredEvent> | AsyncIterable<MirroredEvent>;

/** Options of {@link ExhibitorMirrorModule}. */
export interface ExhibitorMirrorOptions<T = Exhibitor> {
  /**
   * The events to copy, or a function that answers them. They are listed every tenth of `every`, from 1 s to 60 s, so they may
   * change at run time; the rows of an event that left are kept. A generator lists once only: pass the function that creates it.
   */
  events: MirroredEvents | (() => MirroredEvents | Promise<MirroredEvents>);
  /** The host's own database. */
  target: ExhibitorMirrorTarget<T>;
  /** Redis of the queue. Default: that of the host's `BullModule.forRoot()`; without either, only `copy()` copies. */
  connection?: ConnectionOptions | undefined;
  /** Before every key of the queue. Default: that of `BullModule.forRoot()`, else `bull`. */
  prefix?: string | undefined;
  /** Whether this process copies. Default true; `false` for processes that only serve. */
  worker?: boolean | undefined;
  /** Time between two copies of an event, in ms. Default 900 000. */
  every?: number | undefined;
  /** Copies are spread over this share (0–1) of `every`, at random. Default 0.2. */
  jitter?: number | undefined;
  /** Most copies at once in a process. Default 4. */
  concurrency?: number | undefined;
  /** Most copies of one tenant at once in a process. Default 2. */
  perTenant?: number | undefined;
  /** Most rows of a batch, 1–10 000. Default 200. */
  batch?: number | undefined;
  /**
   * Removals are held back, until `ExhibitorMirror.approve`, where more than `rows` rows **and** more than `share` (0–1) of those
   * of the event would go, and always where none would be left. The rest is applied. Default `{ rows: 10, share: 0.1 }`.
   */
  removals?: { rows?: number | undefined; share?: number | undefined } | undefined;
}

/** State of the mirror of an event. */
export interface MirrorStatus extends MirrorScope {
  /** When the last complete copy ended. Absent: there was none. */
  completedAt?: Date;
  /** Exhibitors of the event in that copy. */
  rows?: number;
  /** Removals that this copy held back, see the option `removals`. Absent: none. */
  held?: number;
}
