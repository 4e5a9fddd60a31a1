import { ExhibitorError, PaginationDriftError } from '../index.js';
import type { Exhibitor, ExhibitorsService } from '../index.js';
import { shortDigestOf } from '../model/digest.js';
import { checkEventId } from '../model/path-parameters.js';

/** Readings of an event that changes while it is read. What they found is kept, so each has less to write. */
const MOST_READINGS = 5;
const LARGEST_BATCH = 10_000;

/** Ends a copy, and is not shown. */
const SUPERSEDED = new Error('a newer copy of the event has begun');

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
export function copyEvent<T = Exhibitor>(
  exhibitors: ExhibitorsService<T>,
  target: MirrorTarget<T>,
  scope: MirrorScope,
  options: MirrorOptions = {},
): Promise<MirrorResult> {
  return new EventCopy(exhibitors, target, scope, options).run();
}

class EventCopy<T> {
  readonly #counts = { added: 0, changed: 0, removed: 0 };
  /** Digests of the rows of the mirror, by id. */
  readonly #digests = new Map<string, string>();
  readonly #batch: number;
  #generation = 0;

  constructor(
    private readonly exhibitors: ExhibitorsService<T>,
    private readonly target: MirrorTarget<T>,
    private readonly scope: MirrorScope,
    private readonly options: MirrorOptions,
  ) {
    this.#batch = options.batch ?? 200;
  }

  async run(): Promise<MirrorResult> {
    checkEventId(this.scope.eventId);
    if (!Number.isInteger(this.#batch) || this.#batch < 1 || this.#batch > LARGEST_BATCH) {
      throw new ExhibitorError('invalid_argument', `batch must be a whole number from 1 to ${LARGEST_BATCH}`);
    }
    this.#generation = await this.target.begin(this.scope);
    for await (const { id, digest } of this.target.known(this.scope)) {
      this.#digests.set(id, digest);
    }
    const mostRemovals = this.#mostRemovals(this.#digests.size);
    const read = new Set<string>();
    try {
      await this.#readAll(read);
      const gone = [...this.#digests.keys()].filter((id) => !read.has(id));
      if (gone.length > mostRemovals || (gone.length > 0 && read.size === 0)) {
        return { rows: read.size, ...this.#counts, held: gone.length, superseded: false };
      }
      for (let from = 0; from < gone.length; from += this.#batch) {
        await this.#apply([], [], gone.slice(from, from + this.#batch));
      }
      return { rows: read.size, ...this.#counts, superseded: false };
    } catch (error) {
      if (error !== SUPERSEDED) {
        throw error;
      }
      return { rows: read.size, ...this.#counts, superseded: true };
    }
  }

  #mostRemovals(known: number): number {
    const { maxRemovals = Math.max(10, Math.floor(known / 10)) } = this.options;
    const most = typeof maxRemovals === 'function' ? maxRemovals(known) : maxRemovals;
    if (!(most >= 0)) {
      throw new ExhibitorError('invalid_argument', 'maxRemovals must be a number from 0');
    }
    return most;
  }

  /** Fills `read` with the ids of the event. */
  async #readAll(read: Set<string>): Promise<void> {
    for (let reading = 1; ; reading += 1) {
      try {
        read.clear();
        return await this.#readOnce(read);
      } catch (error) {
        if (!(error instanceof PaginationDriftError) || reading === MOST_READINGS) {
          throw error;
        }
      }
    }
  }

  async #readOnce(read: Set<string>): Promise<void> {
    const { tenant, eventId } = this.scope;
    const rows: Row<T>[] = [];
    for await (const page of this.exhibitors.iteratePages(eventId, { tenant, signal: this.options.signal })) {
      for (const exhibitor of page.data) {
        const id = this.#idOf(exhibitor, read, page.paginationMetadata.currentPage);
        const digest = shortDigestOf(canonicalJson(exhibitor));
        read.add(id);
        if (this.#digests.get(id) !== digest) {
          rows.push({ id, digest, exhibitor });
        }
        if (rows.length === this.#batch) {
          await this.#write(rows.splice(0));
        }
      }
    }
    if (rows.length > 0) {
      await this.#write(rows);
    }
  }

  #idOf(exhibitor: T, read: ReadonlySet<string>, page: number): string {
    const { tenant } = this.scope;
    const id = this.exhibitors.idOf(exhibitor);
    if (id === undefined) {
      const message = 'an exhibitor has no id, or one of more than 256 bytes: set the option exhibitorId';
      throw new ExhibitorError('malformed_response', message, { tenant });
    }
    if (!read.has(id)) {
      return id;
    }
    // A row moved to the next page, since the event changed and kept its size. If it is always so, the copy fails.
    const breach = { field: 'an exhibitor id', expected: 'unique', seen: 'repeated', page };
    throw new PaginationDriftError(breach, page - 1, { tenant });
  }

  async #write(rows: readonly Row<T>[]): Promise<void> {
    const added = rows.filter(({ id }) => !this.#digests.has(id));
    const changed = rows.filter(({ id }) => this.#digests.has(id));
    await this.#apply(added, changed, []);
    rows.forEach(({ id, digest }) => this.#digests.set(id, digest));
  }

  async #apply(added: Row<T>[], changed: Row<T>[], removed: string[]): Promise<void> {
    if (this.options.signal?.aborted === true) {
      throw new ExhibitorError('aborted', 'the copy was aborted', { tenant: this.scope.tenant });
    }
    const batch = { generation: this.#generation, added, changed, removed };
    if (!(await this.target.apply(this.scope, batch))) {
      throw SUPERSEDED;
    }
    this.#counts.added += added.length;
    this.#counts.changed += changed.length;
    this.#counts.removed += removed.length;
  }
}

/**
 * The JSON of a value, whatever the order of the members of its objects. Also tells apart what a schema may make of a record
 * and JSON has no form for: `Map`, `Set` and `bigint`.
 */
function canonicalJson(value: unknown): string {
  return JSON.stringify(value, (_name, member: unknown) => {
    if (member instanceof Map || member instanceof Set) {
      return [...member];
    }
    if (typeof member === 'bigint') {
      return `${member}n`;
    }
    return typeof member === 'object' && member !== null && !Array.isArray(member)
      ? Object.fromEntries(Object.entries(member).toSorted(([a], [b]) => (a < b ? -1 : 1)))
      : member;
  });
}
