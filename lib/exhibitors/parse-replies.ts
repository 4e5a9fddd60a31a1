/** Parsers of the two REST replies. None shows a value of the reply in an error. */
import { ExhibitorError } from '../errors/exhibitor.error.js';
import { isRecord } from '../model/json-values.js';
import type { ExhibitorIdOf } from './exhibitor-id.js';
import type { ExhibitorPage, PaginationMetadata } from './pages/exhibitor-page.interface.js';

const COUNTS = ['currentPage', 'totalCount', 'totalPages', 'itemsPerPage'] as const;
const FLAGS = ['hasPreviousPage', 'hasNextPage'] as const;

/**
 * Parses the paginated collection wrapper. Additional members are kept; the two booleans may be missing.
 *
 * @throws {ExhibitorError} `malformed_response` where it has another form
 */
export function parsePage(body: unknown, tenant: string): ExhibitorPage<unknown> {
  const problem = problemOf(body);
  if (problem === undefined) {
    return body as ExhibitorPage<unknown>;
  }
  throw malformed(`not a page of exhibitors: ${problem}`, tenant);
}

function problemOf(body: unknown): string | undefined {
  if (!isRecord(body)) {
    return 'the reply is not an object';
  }
  if (!isRecord(body['paginationMetadata'])) {
    return 'paginationMetadata is not an object';
  }
  if (!Array.isArray(body['data'])) {
    return 'data is not an array';
  }
  return metadataProblem(body['paginationMetadata']);
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

/**
 * The exhibitors in the reply to a lookup. The service does not document whether it wraps them, or its reply where there is
 * none. Accepted are an array, the paginated wrapper and one object; `null`, `{}`, `[]` and no body are no exhibitor. Some
 * services answer errors with status 200: one object without an id that looks like an error is refused.
 *
 * @throws {ExhibitorError} `malformed_response` for anything else
 */
export function parseLookup(body: unknown, tenant: string, idOf: ExhibitorIdOf): readonly unknown[] {
  if (body === undefined || body === null) {
    return [];
  }
  if (Array.isArray(body)) {
    return body;
  }
  if (!isRecord(body)) {
    throw malformed('not the exhibitors of a contact: the reply is neither an object nor an array', tenant);
  }
  if (Object.keys(body).length === 0) {
    return [];
  }
  if (isWrapper(body)) {
    return rowsOf(body, tenant);
  }
  if (looksLikeError(body) && !hasId(body, idOf)) {
    throw malformed('not the exhibitors of a contact: the reply looks like an error', tenant);
  }
  return [body];
}

function looksLikeError(body: Record<string, unknown>): boolean {
  const has = (name: string): boolean => Object.hasOwn(body, name);
  return has('message') || has('error') || has('errors') || (has('title') && has('status'));
}

function hasId(body: Record<string, unknown>, idOf: ExhibitorIdOf): boolean {
  try {
    return idOf(body) !== undefined;
  } catch {
    // The function of the host expects an exhibitor.
    return false;
  }
}

/** An exhibitor may have a member `data`: only the paging information, or `data` as the only member, makes a wrapper. */
function isWrapper(body: Record<string, unknown>): boolean {
  return 'paginationMetadata' in body || (Array.isArray(body['data']) && Object.keys(body).length === 1);
}

function rowsOf({ data }: Record<string, unknown>, tenant: string): readonly unknown[] {
  if (data === null) {
    return [];
  }
  if (Array.isArray(data)) {
    return data;
  }
  throw malformed('not the exhibitors of a contact: data is not an array', tenant);
}

function malformed(message: string, tenant: string): ExhibitorError {
  return new ExhibitorError('malformed_response', message, { tenant });
}
