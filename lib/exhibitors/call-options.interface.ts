/** Options of every call to the service. */
export interface CallOptions {
  /** Key of the tenant to ask for. Default: the only tenant; with several it is required, here or by `forTenant`. */
  tenant?: string;
  /** Aborts the call, on the wire too, with `aborted`. */
  signal?: AbortSignal;
  /** Milliseconds one request may take, its token, retries and waits included. Default: `http.deadline` (10 000). */
  deadline?: number;
}

/** Options of {@link ExhibitorsService.list}. */
export interface ListOptions extends CallOptions {
  /** Number of the page, from 1. Default 1. */
  page?: number;
  /** Exhibitors a page, 1–50. Default 50. */
  itemsPerPage?: number;
}

/** Options of `pages`, `stream` and `iterate`. The `deadline` is each page's own; `signal` bounds the whole. */
export interface StreamOptions extends CallOptions {
  /** Exhibitors a page, 1–50. Default 50. A service that answers with fewer is followed. */
  itemsPerPage?: number;
  /** Number of the first page to read, from 1. Default 1. Resumes what failed after page `startPage - 1`. */
  startPage?: number;
  /** Completes after this many pages. Default: all. */
  maxPages?: number;
  /** Pages under way or waiting behind the one being read, 1–16. Default 4. */
  prefetch?: number;
  /**
   * What a page does that contradicts the first one. `error` (default): fails the stream with `pagination_drift`.
   * `ignore`: each breach is published on the diagnostics channel `nestjs-exhibitor:drift` and the stream goes on, over
   * as many pages as the first one told: exhibitors may then be missing or come twice.
   */
  onDrift?: 'error' | 'ignore';
}

/** Options of {@link ExhibitorsService.snapshot}. */
export interface SnapshotOptions extends CallOptions {
  /** Exhibitors a page, 1–50. Default 50. */
  itemsPerPage?: number;
  /** Pages under way or waiting behind the one being read, 1–16. Default 4. */
  prefetch?: number;
  /** How often the event is read at most until it holds still, 1–100. Default 3. */
  attempts?: number;
}

/** Options of {@link ExhibitorsService.lookup}. */
export interface LookupOptions extends CallOptions {
  /** Asks the service even if the answer is cached, and caches the new one. Default false. */
  fresh?: boolean;
}

/** Which cached lookups to forget; what is left out stands for all. */
export interface LookupFilter {
  /** Key of the tenant. */
  tenant?: string;
  eventId?: string;
  /** Byte for byte as it was looked up. */
  contactEmail?: string;
}
