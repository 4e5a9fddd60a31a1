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

/** One page of an event's exhibitors, as on the wire: members the service adds are kept. */
export interface ExhibitorPage<T> {
  paginationMetadata: PaginationMetadata;
  /** Exhibitors of this page; with an `exhibitorSchema`, what it made of them. */
  data: T[];
}

/** All exhibitors of an event in one state. */
export interface ExhibitorSnapshot<T> {
  exhibitors: T[];
  totalCount: number;
  /** When the reading began that found the event at rest. */
  takenAt: Date;
  /** How often the event changed while it was read, so that the reading started over. */
  restarts: number;
}
