import { ConfigurationError, ExhibitorError, PaginationDriftError } from '../index.js';
import type { Exhibitor, ExhibitorsService } from '../index.js';
import { shortDigestOf } from '../model/digest.js';
import { checkEventId } from '../model/path-parameters.js';
import type { MirrorScope, MirrorTarget, Row } from './mirror-target.interface.js';

/** Readings of an event that changes while it is read. What they found is kept, so each has less to write. */
const MOST_READINGS = 5;
const LARGEST_BATCH = 10_000;

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
      this.#throwIfAborted();
      this.#digests.set(id, digest);
    }
    const mostRemovals = this.#mostRemovals(this.#digests.size);
    const read = new Set<string>();
    if (!(await this.#readAll(read))) {
      return { rows: read.size, ...this.#counts, superseded: true };
    }
    const gone = [...this.#digests.keys()].filter((id) => !read.has(id));
    if (gone.length > mostRemovals || (gone.length > 0 && read.size === 0)) {
      return { rows: read.size, ...this.#counts, held: gone.length, superseded: false };
    }
    const superseded = !(await this.#remove(gone));
    return { rows: read.size, ...this.#counts, superseded };
  }

  async #remove(gone: readonly string[]): Promise<boolean> {
    for (let from = 0; from < gone.length; from += this.#batch) {
      if (!(await this.#apply([], [], gone.slice(from, from + this.#batch)))) {
        return false;
      }
    }
    return true;
  }

  #mostRemovals(known: number): number {
    const { maxRemovals = Math.max(10, Math.floor(known / 10)) } = this.options;
    const most = typeof maxRemovals === 'function' ? maxRemovals(known) : maxRemovals;
    if (!(most >= 0)) {
      throw new ExhibitorError('invalid_argument', 'maxRemovals must be a number from 0');
    }
    return most;
  }

  /** Fills `read` with the ids of the event. `false` where a newer copy has begun. */
  async #readAll(read: Set<string>): Promise<boolean> {
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

  async #readOnce(read: Set<string>): Promise<boolean> {
    const { tenant, eventId } = this.scope;
    const { signal } = this.options;
    let rows: Row<T>[] = [];
    for await (const page of this.exhibitors.iteratePages(eventId, { tenant, signal })) {
      for (const exhibitor of page.data) {
        const id = this.#idOf(exhibitor, read, page.paginationMetadata.currentPage);
        const digest = shortDigestOf(canonicalJson(exhibitor));
        read.add(id);
        if (this.#digests.get(id) !== digest) {
          rows.push({ id, digest, exhibitor });
        }
        if (rows.length === this.#batch) {
          if (!(await this.#write(rows))) {
            return false;
          }
          rows = [];
        }
      }
    }
    return rows.length === 0 || this.#write(rows);
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

  async #write(rows: readonly Row<T>[]): Promise<boolean> {
    const added = rows.filter(({ id }) => !this.#digests.has(id));
    const changed = rows.filter(({ id }) => this.#digests.has(id));
    const isNewest = await this.#apply(added, changed, []);
    rows.forEach(({ id, digest }) => this.#digests.set(id, digest));
    return isNewest;
  }

  /** `false`, and nothing is written, where a newer copy has begun. */
  async #apply(added: Row<T>[], changed: Row<T>[], removed: string[]): Promise<boolean> {
    this.#throwIfAborted();
    const batch = { generation: this.#generation, added, changed, removed };
    const isNewest: unknown = await this.target.apply(this.scope, batch);
    if (typeof isNewest !== 'boolean') {
      throw new ConfigurationError([{ path: 'target.apply', expected: 'must answer true or false' }]);
    }
    if (isNewest) {
      this.#counts.added += added.length;
      this.#counts.changed += changed.length;
      this.#counts.removed += removed.length;
    }
    return isNewest;
  }

  #throwIfAborted(): void {
    if (this.options.signal?.aborted === true) {
      throw new ExhibitorError('aborted', 'the copy was aborted', { tenant: this.scope.tenant });
    }
  }
}

/**
 * The JSON of a value, whatever the order of the members of its objects. Also tells apart what a schema may make of a record
 * and JSON has no form for: `Map`, `Set` and `bigint`.
 */
function canonicalJson(value: unknown): string {
  return JSON.stringify(value, (_name, member: unknown) => {
    if (typeof member === 'bigint') {
      return `${member}n`;
    }
    if (member instanceof Map || member instanceof Set) {
      return [...member];
    }
    return typeof member === 'object' && member !== null && !Array.isArray(member)
      ? Object.fromEntries(Object.entries(member).toSorted(([a], [b]) => (a < b ? -1 : 1)))
      : member;
  });
}
