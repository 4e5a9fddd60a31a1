import { ExhibitorError, PaginationDriftError } from '../../index.js';
import type { Exhibitor, ExhibitorsService } from '../../index.js';
import { shortDigestOf } from '../../model/digest.js';
import { isRecord } from '../../model/json-values.js';
import { checkEventId } from '../../model/path-parameters.js';

/** Readings of an event that changes while it is read. What they found is kept, so each has less to write. */
const MOST_READINGS = 5;
const LARGEST_BATCH = 10_000;

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
  /** Of the JSON of the exhibitor: 22 characters. Store it beside the exhibitor, and return it from `known`. */
  digest: string;
  /** The record as the service answers it, after `exhibitorSchema`. What has no form in JSON (`Map`, `Set`) is not compared. */
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
 * same database, tells which one is the newest. One for PostgreSQL: `docs/mirror.md`.
 */
export interface MirrorTarget<T = Exhibitor> {
  /** Raises the generation of the event, and returns it. It must survive a restart of every process. */
  begin(scope: MirrorScope): Promise<number>;
  /** Ids and digests of the rows of this event that this mirror wrote. */
  known(scope: MirrorScope): AsyncIterable<{ id: string; digest: string }>;
  /**
   * Writes a batch in one transaction, which locks the generation until it ends. Returns `false`, and changes nothing, where a
   * generation newer than that of the batch has begun.
   */
  apply(scope: MirrorScope, batch: MirrorBatch<T>): Promise<boolean>;
}

/** Options of {@link copyEvent}. */
export interface MirrorOptions {
  /** Most rows of a batch, 1–10 000. Default 200. */
  batch?: number;
  /**
   * Most rows that this copy may remove: a number, or a function of the number of rows known when it began. If more would go, none
   * does. Default: 10 rows or a tenth of those known, whichever is more.
   */
  maxRemovals?: number | ((known: number) => number);
  /** Ends the copy. What was written stays, and the next copy finishes it. */
  signal?: AbortSignal;
}

/** What a copy did. */
export interface MirrorResult {
  /** Exhibitors of the event, as it was read. */
  rows: number;
  added: number;
  changed: number;
  removed: number;
  /** Rows that the event has no longer, and that were kept: more than `maxRemovals`, or all of them. Absent: none. */
  held?: number;
  /** Whether a newer copy of the event began meanwhile. This one then ended early. */
  superseded: boolean;
}

/**
 * Copies an event into the host's own database: adds and changes rows while it reads the event, and removes rows after it has read
 * all of it. Call it again and again, by a queue, a scheduler or a script. An event that reads as empty removes nothing, whatever
 * `maxRemovals` is. It holds ids and digests in memory, no records.
 *
 * @throws {ExhibitorError} as `iteratePages`; `pagination_drift` also where the event changed during each of five readings or has an
 * id twice; `malformed_response` where an exhibitor has no id; `invalid_argument` for an option; `aborted` by the signal. What the
 * target throws is thrown as it is
 * @example
 * const { held } = await copyEvent(exhibitors, new BoothTable(pool), { tenant: 'acme', eventId: 'world-2026' });
 */
export async function copyEvent<T = Exhibitor>(
  exhibitors: ExhibitorsService<T>,
  target: MirrorTarget<T>,
  scope: MirrorScope,
  { batch: size = 200, maxRemovals, signal }: MirrorOptions = {},
): Promise<MirrorResult> {
  checkEventId(scope.eventId);
  if (!Number.isInteger(size) || size < 1 || size > LARGEST_BATCH) {
    throw new ExhibitorError('invalid_argument', `batch must be a whole number from 1 to ${LARGEST_BATCH}`);
  }
  if (typeof maxRemovals !== 'function') {
    checkRemovals(maxRemovals ?? 0);
  }
  const stopIfAborted = (): void => {
    if (signal?.aborted === true) {
      throw new ExhibitorError('aborted', 'the copy was aborted', { tenant: scope.tenant });
    }
  };
  // Before the generation is raised, which ends a copy that is under way.
  stopIfAborted();
  const generation = await target.begin(scope);
  /** Digests of the rows of the mirror, by id. */
  const known = new Map<string, string>();
  for await (const { id, digest } of target.known(scope)) {
    known.set(id, digest);
  }
  const most = mostRemovals(maxRemovals, known.size);
  const read = new Set<string>();
  const gone = () => [...known.keys()].filter((id) => !read.has(id));

  async function* changes(): AsyncGenerator<Omit<MirrorBatch<T>, 'generation'>> {
    for await (const rows of changedRows(exhibitors, scope, { size, signal }, known, read)) {
      const isKnown = ({ id }: Row<T>) => known.has(id);
      yield { added: rows.filter((row) => !isKnown(row)), changed: rows.filter(isKnown), removed: [] };
    }
    const left = gone();
    const removed = left.length > most || read.size === 0 ? [] : left;
    while (removed.length > 0) {
      yield { added: [], changed: [], removed: removed.splice(0, size) };
    }
  }

  const counts = { added: 0, changed: 0, removed: 0 };
  for await (const change of changes()) {
    stopIfAborted();
    if (!(await target.apply(scope, { generation, ...change }))) {
      return { rows: read.size, ...counts, superseded: true };
    }
    const { added, changed, removed } = change;
    [...added, ...changed].forEach(({ id, digest }) => known.set(id, digest));
    removed.forEach((id) => known.delete(id));
    counts.added += added.length;
    counts.changed += changed.length;
    counts.removed += removed.length;
  }
  const held = gone().length;
  return { rows: read.size, ...counts, ...(held > 0 && { held }), superseded: false };
}

function mostRemovals(given: MirrorOptions['maxRemovals'], known: number): number {
  return typeof given === 'function'
    ? checkRemovals(given(known))
    : (given ?? Math.max(10, Math.floor(known / 10)));
}

function checkRemovals(most: number): number {
  if (!(most >= 0)) {
    throw new ExhibitorError('invalid_argument', 'maxRemovals must be a number from 0');
  }
  return most;
}

/** Reads the event, again where it changes meanwhile. Yields rows that differ from `known`, and fills `read` with all ids. */
async function* changedRows<T>(
  exhibitors: ExhibitorsService<T>,
  { tenant, eventId }: MirrorScope,
  { size, signal }: { size: number; signal: AbortSignal | undefined },
  known: ReadonlyMap<string, string>,
  read: Set<string>,
): AsyncGenerator<Row<T>[]> {
  for (let reading = 1; ; reading += 1) {
    const rows: Row<T>[] = [];
    read.clear();
    try {
      for await (const { data, paginationMetadata } of exhibitors.iteratePages(eventId, { tenant, signal })) {
        for (const exhibitor of data) {
          const id = newId(exhibitors.idOf(exhibitor), read, tenant, paginationMetadata.currentPage);
          const digest = shortDigestOf(canonicalJson(exhibitor));
          read.add(id);
          if (known.get(id) !== digest) {
            rows.push({ id, digest, exhibitor });
          }
          if (rows.length === size) {
            yield rows.splice(0);
          }
        }
      }
      if (rows.length > 0) {
        yield rows;
      }
      return;
    } catch (error) {
      if (!(error instanceof PaginationDriftError) || reading === MOST_READINGS) {
        throw error;
      }
    }
  }
}

/** The id of an exhibitor, which none before it had. */
function newId(id: string | undefined, read: ReadonlySet<string>, tenant: string, page: number): string {
  if (id === undefined) {
    const message = 'an exhibitor has no id, or one above 256 bytes or 2^53: set the option exhibitorId';
    throw new ExhibitorError('malformed_response', message, { tenant });
  }
  if (read.has(id)) {
    // A row moved to the next page, since the event changed and kept its size. If it is always so, the copy fails.
    const breach = { field: 'an exhibitor id', expected: 'unique', seen: 'repeated', page };
    throw new PaginationDriftError(breach, page - 1, { tenant });
  }
  return id;
}

/** The JSON of a value, whatever the order of the members of its objects. */
function canonicalJson(value: unknown): string {
  return JSON.stringify(value, (_name, member: unknown) =>
    isRecord(member)
      ? Object.fromEntries(Object.entries(member).toSorted(([a], [b]) => (a < b ? -1 : 1)))
      : member,
  );
}
