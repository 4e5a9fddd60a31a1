import { ExhibitorError } from '../errors/exhibitor.error.js';

/**
 * Exhibitors in the reply to a lookup. The service does not say whether it wraps them, or what it answers where there is
 * none: an array, the paginated wrapper, one object, and `null`, `{}`, `[]` or no body at all are understood. Of a
 * wrapper with several pages these are the exhibitors of the page it gave; there is no parameter to ask for another.
 *
 * @throws {ExhibitorError} `malformed_response` for anything else
 */
export function parseLookup(body: unknown, tenant: string): readonly unknown[] {
  if (body === undefined || body === null) {
    return [];
  }
  if (Array.isArray(body)) {
    return body;
  }
  if (typeof body !== 'object') {
    throw malformed('the reply is neither an object nor an array', tenant);
  }
  if (Object.keys(body).length === 0) {
    return [];
  }
  return isWrapper(body) ? wrapped(body, tenant) : [body];
}

// An exhibitor may have a member `data` of its own: only the paging information, or nothing else beside it, makes a wrapper.
function isWrapper(body: object): body is { data?: unknown } {
  if ('paginationMetadata' in body) {
    return true;
  }
  return 'data' in body && Array.isArray(body.data) && Object.keys(body).length === 1;
}

function wrapped(body: { data?: unknown }, tenant: string): readonly unknown[] {
  if (body.data === null) {
    return [];
  }
  if (Array.isArray(body.data)) {
    return body.data;
  }
  throw malformed('data is not an array', tenant);
}

function malformed(problem: string, tenant: string): ExhibitorError {
  return new ExhibitorError('malformed_response', `not the exhibitors of a contact: ${problem}`, { tenant });
}
