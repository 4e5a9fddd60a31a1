/** Largest page of the service (service specification, Limits). */
export const MAX_ITEMS_PER_PAGE = 50;

/** One page in the collection wrapper of the service; beyond the last page, an empty one. */
export function pageOf<T>(items: readonly T[], currentPage: number, itemsPerPage: number) {
  const totalPages = Math.ceil(items.length / itemsPerPage);
  return {
    paginationMetadata: {
      currentPage,
      totalCount: items.length,
      totalPages,
      hasPreviousPage: currentPage > 1 && totalPages > 0,
      hasNextPage: currentPage < totalPages,
      itemsPerPage,
    },
    data: items.slice((currentPage - 1) * itemsPerPage, currentPage * itemsPerPage),
  };
}
