/** Paging information of the service's collection wrapper. */
export interface PaginationMetadata {
  /** Page number returned. */
  currentPage: number;
  /** Number of exhibitors over all pages. */
  totalCount: number;
  /** Number of pages. */
  totalPages: number;
  /** Page size used. */
  itemsPerPage: number;
  hasPreviousPage?: boolean;
  hasNextPage?: boolean;
}

/** One page of the exhibitors of an event, as on the wire. Additional members are kept. */
export interface ExhibitorPage<T> {
  /** Which page this is, and of how many. */
  paginationMetadata: PaginationMetadata;
  /** Exhibitors of this page; with an `exhibitorSchema`, its output. */
  data: T[];
}

/** All exhibitors of an event, read while the event did not change. */
export interface ExhibitorSnapshot<T> {
  /** In the order of the service. */
  exhibitors: T[];
  /** Number of them. */
  totalCount: number;
  /** Start of the successful reading. */
  takenAt: Date;
  /** Number of readings that were repeated because the event changed. */
  restarts: number;
}
