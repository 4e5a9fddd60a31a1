import { ConfigurationError, ExhibitorError, PaginationDriftError } from '../index.js';
import type { Exhibitor, ExhibitorsService } from '../index.js';
import { shortDigestOf } from '../model/digest.js';
import { canonicalJson } from '../model/json-values.js';
import type { MirrorLog } from '../problems/mirror-log.js';
import type { MirrorSettings } from './mirror-settings.js';
import { scopeKey, type MirrorStore, type OnPage } from './mirror-store.js';
import type { MirrorScope, Row } from './mirror-target.interface.js';

/** Readings of an event that changes while it is read. What they found is kept, so each has less to write. */
const MOST_READINGS = 5;

/** What the options of a mirror become. */
export interface MirrorParts {
  settings: MirrorSettings;
  log: MirrorLog;
  store: MirrorStore;
}

export interface CopyContext extends MirrorParts {
  scope: MirrorScope;
  exhibitors: ExhibitorsService;
  /** The copy fails with its reason. */
  signal: AbortSignal;
  onPage: OnPage;
}

/** What a copy ends with that is no longer the newest. */
export const SUPERSEDED = Symbol('superseded');

/** Whether removals are held back: too many of the rows that were known when the copy began, or all. */
export function areHeld(known: number, read: number, removed: number, limits: MirrorSettings['removals']) {
  return removed > 0 && (read === 0 || (removed > limits.rows && removed > known * limits.share));
}

/** A copy of an event. It holds ids and digests only. Rows are removed after a complete reading, all else while reading. */
export class EventCopy {
  readonly counts = { rows: 0, pages: 0, added: 0, changed: 0, removed: 0, held: 0 };
  /** Digests of the rows of the mirror, by id. */
  readonly #digests = new Map<string, string>();
  #generation = 0;

  constructor(private readonly context: CopyContext) {}

  async run(): Promise<void> {
    const { scope, settings, store, signal } = this.context;
    const { target, batch, removals } = settings;
    this.#generation = await target.begin(scope);
    for await (const { id, digest } of target.known(scope)) {
      signal.throwIfAborted();
      this.#digests.set(id, digest);
    }
    const known = this.#digests.size;
    const read = await this.#readAll();
    const gone = [...this.#digests.keys()].filter((id) => !read.has(id));
    const approved = Number((await store.all('approved'))[scopeKey(scope)] ?? 0);
    if (approved > 0) {
      // Once, and before it is used: a copy that ends half-way must not leave it to the next one.
      await store.set('approved', { [scopeKey(scope)]: '0' });
    }
    if (areHeld(known, read.size, gone.length, removals) && gone.length > approved) {
      this.counts.held = gone.length;
      return;
    }
    for (let from = 0; from < gone.length; from += batch) {
      await this.#apply([], [], gone.slice(from, from + batch));
    }
  }

  async #readAll(): Promise<ReadonlySet<string>> {
    for (let reading = 1; ; reading += 1) {
      try {
        return await this.#read();
      } catch (error) {
        if (!(error instanceof PaginationDriftError) || reading === MOST_READINGS) {
          throw error;
        }
      }
    }
  }

  /** Reads the event once, adds and changes rows, and answers the ids. */
  async #read(): Promise<ReadonlySet<string>> {
    const { scope, settings, exhibitors, signal, onPage } = this.context;
    const options = { tenant: scope.tenant, signal };
    const read = new Set<string>();
    let rows: Row[] = [];
    this.counts.pages = 0;
    for await (const { data, paginationMetadata } of exhibitors.iteratePages(scope.eventId, options)) {
      for (const exhibitor of data) {
        const id = this.#idOf(exhibitor, read, paginationMetadata.currentPage);
        const digest = shortDigestOf(canonicalJson(exhibitor));
        read.add(id);
        if (this.#digests.get(id) !== digest) {
          rows.push({ id, digest, exhibitor });
        }
        if (rows.length === settings.batch) {
          await this.#write(rows);
          rows = [];
        }
      }
      this.counts.rows = read.size;
      this.counts.pages += 1;
      onPage({ ...this.counts });
    }
    await this.#write(rows);
    return read;
  }

  #idOf(exhibitor: Exhibitor, read: ReadonlySet<string>, page: number): string {
    const { tenant } = this.context.scope;
    const id = this.context.exhibitors.idOf(exhibitor);
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

  async #write(rows: readonly Row[]): Promise<void> {
    if (rows.length > 0) {
      const added = rows.filter(({ id }) => !this.#digests.has(id));
      const changed = rows.filter(({ id }) => this.#digests.has(id));
      await this.#apply(added, changed, []);
      rows.forEach(({ id, digest }) => this.#digests.set(id, digest));
    }
  }

  async #apply(added: Row[], changed: Row[], removed: string[]): Promise<void> {
    const { scope, settings, signal } = this.context;
    signal.throwIfAborted();
    const batch = { generation: this.#generation, added, changed, removed };
    const isNewest: unknown = await settings.target.apply(scope, batch);
    if (typeof isNewest !== 'boolean') {
      throw new ConfigurationError([{ path: 'target.apply', expected: 'must answer true or false' }]);
    }
    if (!isNewest) {
      throw SUPERSEDED;
    }
    this.counts.added += added.length;
    this.counts.changed += changed.length;
    this.counts.removed += removed.length;
  }
}
