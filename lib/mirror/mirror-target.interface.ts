import type { Exhibitor } from '../index.js';

/** One event of one tenant. */
export interface MirrorScope {
  /** Key of the tenant; `default` is that of the option `tenant`. */
  tenant: string;
  eventId: string;
}

/** A row of the mirror. */
export interface Row<T = Exhibitor> {
  /** The id of the exhibitor, by the option `exhibitorId` of the module. Unique within its event. */
  id: string;
  /** Stands for the content: 22 characters. Store it beside the exhibitor, and answer it from `known`. */
  digest: string;
  /** The record as the service answers it, after `exhibitorSchema`. */
  exhibitor: T;
}

/** What one transaction writes. No id is in two of the lists; together they have at most `batch` rows. */
export interface MirrorBatch<T = Exhibitor> {
  /** The generation of the copy that writes. */
  generation: number;
  /** Rows that the mirror did not have when the copy began. Another copy may have added them since: upsert them. */
  added: Row<T>[];
  changed: Row<T>[];
  /** Ids of rows that the event has no longer. */
  removed: string[];
}

/**
 * The host's own database. A copy calls `begin`, reads `known` to its end, and then calls `apply` for each batch, one after the
 * other. Copies of one event can overlap, since a process that was believed dead may wake up; the generation, a number in the
 * same database, tells which one is the newest. `docs/mirror.md` has a target for PostgreSQL.
 */
export interface MirrorTarget<T = Exhibitor> {
  /** Raises the generation of the event, and answers it. It must survive a restart of every process. */
  begin(scope: MirrorScope): Promise<number>;
  /** Ids and digests of the rows of this event that this mirror wrote. */
  known(scope: MirrorScope): AsyncIterable<{ id: string; digest: string }>;
  /**
   * Writes a batch in one transaction, which locks the generation until it ends. Answers `false`, and changes nothing, where a
   * generation newer than that of the batch has begun.
   */
  apply(scope: MirrorScope, batch: MirrorBatch<T>): Promise<boolean>;
}
