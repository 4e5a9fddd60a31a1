import { ExhibitorError } from '../errors/exhibitor.error.js';
import type { ExhibitorPage, PaginationMetadata } from './pages/exhibitor-page.interface.js';

const COUNTS = ['currentPage', 'totalCount', 'totalPages', 'itemsPerPage'] as const;
const FLAGS = ['hasPreviousPage', 'hasNextPage'] as const;

/**
 * Reads the paginated collection wrapper. Members beyond the documented ones are kept, the two booleans may be missing.
 *
 * @throws {ExhibitorError} `malformed_response` where it is not the documented shape
 */
export function parsePage(body: unknown, tenant: string): ExhibitorPage<unknown> {
  const problem = problemOf(body);
  if (problem === undefined) {
    return body as ExhibitorPage<unknown>;
  }
  throw new ExhibitorError('malformed_response', `not a page of exhibitors: ${problem}`, { tenant });
}

function problemOf(body: unknown): string | undefined {
  if (!isRecord(body)) {
    return 'the reply is not an object';
  }
  if (!isRecord(body.paginationMetadata)) {
    return 'paginationMetadata is not an object';
  }
  if (!Array.isArray(body.data)) {
    return 'data is not an array';
  }
  return metadataProblem(body.paginationMetadata);
}

function metadataProblem(metadata: Partial<Record<keyof PaginationMetadata, unknown>>): string | undefined {
  const count = COUNTS.find((name) => !isCount(metadata[name]));
  if (count !== undefined) {
    return `paginationMetadata.${count} is not a whole number of 0 or more`;
  }
  const flag = FLAGS.find((name) => typeof (metadata[name] ?? false) !== 'boolean');
  return flag === undefined ? undefined : `paginationMetadata.${flag} is not true or false`;
}

function isCount(value: unknown): boolean {
  return Number.isSafeInteger(value) && Number(value) >= 0;
}

function isRecord(value: unknown): value is Record<string, unknown> {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}
