/** Options of every call to the service. */
export interface CallOptions {
  /** Key of the tenant. Default: the only tenant. With several tenants it is required, here or by `forTenant`. */
  tenant?: string | undefined;
  /** Aborts the call and its request, with `aborted`. */
  signal?: AbortSignal | undefined;
  /** Time limit of one request in milliseconds, including token, retries and waits. Default: `http.deadline` (10 000). */
  deadline?: number | undefined;
}

/** Options of {@link ExhibitorsService.list}. */
export interface ListOptions extends CallOptions {
  /** Number of the page, from 1. Default 1. */
  page?: number | undefined;
  /** Exhibitors per page, 1–50. Default 50. */
  itemsPerPage?: number | undefined;
}

/**
 * Options of `pages`, `stream`, `iterate` and `iteratePages`. The `deadline` applies to each page; use `signal` to limit the
 * whole.
 */
export interface StreamOptions extends CallOptions {
  /** Exhibitors per page, 1–50. Default 50. If the service uses smaller pages, those are read. */
  itemsPerPage?: number | undefined;
  /**
   * Number of the first page to read, from 1. Default 1. Resumes a reading that ended after page `startPage - 1`; give it the
   * size that the event had, as `expect`. Beyond the end of the event, the reading completes without a page.
   */
  startPage?: number | undefined;
  /**
   * Size that the event must have: the `paginationMetadata` of the first page of the reading that is resumed. Where the event
   * has another size, the reading fails with `pagination_drift` at its first page, also with `onDrift: 'ignore'`: read the
   * event again from page 1. Default: any size.
   */
  expect?:
    | {
        /** Exhibitors of the event. */
        totalCount: number;
        /** Exhibitors per page. Default: any number. */
        itemsPerPage?: number | undefined;
      }
    | undefined;
  /** Completes after this many pages. Default: all. */
  maxPages?: number | undefined;
  /** Pages fetched ahead of the one being read, 1–16. Default 4. */
  prefetch?: number | undefined;
  /**
   * Reaction to a page that contradicts the first one. `error` (default): the stream fails with `pagination_drift`.
   * `ignore`: each breach is published on the diagnostics channel `nestjs-exhibitor:drift`, and the stream continues for the
   * number of pages that the first page names. Exhibitors may then be missing or occur twice.
   */
  onDrift?: 'error' | 'ignore' | undefined;
}

/** Options of {@link ExhibitorsService.snapshot}. */
export interface SnapshotOptions extends CallOptions {
  /** Exhibitors per page, 1–50. Default 50. */
  itemsPerPage?: number | undefined;
  /** Pages fetched ahead of the one being read, 1–16. Default 4. */
  prefetch?: number | undefined;
  /** Largest number of readings, 1–100, until the event does not change during one. Default 3. */
  attempts?: number | undefined;
}

/** Options of {@link ExhibitorsService.lookup}. */
export interface LookupOptions extends CallOptions {
  /** Asks the service even if the answer is cached, and caches the new answer. Default false. */
  fresh?: boolean | undefined;
}

/** Selects cached lookups. An omitted member selects all. */
export interface LookupFilter {
  /** Key of the tenant. */
  tenant?: string | undefined;
  /** Id of the event. */
  eventId?: string | undefined;
  /** Exactly as it was looked up, byte for byte. */
  contactEmail?: string | undefined;
}
