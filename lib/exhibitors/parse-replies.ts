/** Parsers of the two REST replies and of their records. None shows a value of the reply in an error. */
import type { StandardSchemaV1 } from '@standard-schema/spec';
import { ExhibitorError } from '../errors/exhibitor.error.js';
import { untrustedText } from '../model/untrusted-text.js';
import { isEmptyObject, isRecord } from '../model/json-values.js';
import type { ProblemLog } from '../config/problems/problem-log.service.js';
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
  throw new ExhibitorError('malformed_response', `not a page of exhibitors: ${problem}`, { tenant });
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
  const count = COUNTS.find((name) => !Number.isSafeInteger(metadata[name]) || Number(metadata[name]) < 0);
  if (count !== undefined) {
    return `paginationMetadata.${count} is not a whole number of 0 or more`;
  }
  const flag = FLAGS.find((name) => typeof (metadata[name] ?? false) !== 'boolean');
  return flag === undefined ? undefined : `paginationMetadata.${flag} is not true or false`;
}

/**
 * The exhibitors in the reply to a lookup. The service does not document whether it wraps them, or its reply where there is
 * none. Accepted are an array, the paginated wrapper and one object; `null`, `{}`, `[]`, and the status 204 or 404, are no
 * exhibitor. Some services answer 200 with a message, or with a wrapper of other names: one object is an exhibitor only where it has an id.
 *
 * @param body `undefined` after 204 and 404
 *
 * @param idOf absent where `exhibitorSchema` decides whether one object is an exhibitor
 * @throws {ExhibitorError} `malformed_response` for anything else
 */
export function parseLookup(body: unknown, tenant: string, idOf?: ExhibitorIdOf): readonly unknown[] {
  if (body === undefined || body === null) {
    return [];
  }
  if (Array.isArray(body)) {
    return body;
  }
  if (!isRecord(body)) {
    throw malformedLookup('the reply is neither an object nor an array', tenant);
  }
  if (Object.keys(body).length === 0) {
    return [];
  }
  if (isWrapper(body)) {
    return rowsOf(body, tenant);
  }
  if (idOf !== undefined && !hasId(body, idOf)) {
    throw malformedLookup(`one object, without an id (option exhibitorId); ${membersOf(body)}`, tenant);
  }
  return [body];
}

/** An id that a function of the host makes of an empty object as well, such as `undefined-undefined`, is none. */
function hasId(body: Record<string, unknown>, idOf: ExhibitorIdOf): boolean {
  const [id, none] = [body, {}].map((record) => {
    try {
      return idOf(record);
    } catch {
      return undefined;
    }
  });
  return id !== undefined && id !== none;
}

/** What came instead of an exhibitor, for the log: names alone, of which one may be a value. */
export function membersOf(body: object): string {
  return `its members: ${untrustedText(Object.keys(body).map(segment).join(', '), 200)}`;
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
  throw malformedLookup('data is not an array', tenant);
}

export function malformedLookup(problem: string, tenant: string): ExhibitorError {
  return new ExhibitorError('malformed_response', `not the exhibitors of a contact: ${problem}`, { tenant });
}

/** Position of records in a reply, for errors that must not show the records. */
export interface RecordsOrigin {
  tenant: string;
  /** Told what the schema throws. */
  log: ProblemLog;
  /** Path of the list, `data`; empty where the reply is the list. */
  path: string;
  /** Said after the problem. */
  note?: string | undefined;
}

/**
 * The records of a reply: the output of `exhibitorSchema`, or the rows as they are. Synchronous unless the schema is
 * asynchronous, so that a page does not need one promise per record.
 *
 * @throws {ExhibitorError} `malformed_response` with the path of the first issue, without values; an error thrown by the
 * schema is its `cause`
 */
export function parseRecords<T>(
  rows: readonly unknown[],
  schema: StandardSchemaV1 | undefined,
  origin: RecordsOrigin,
): T[] | Promise<T[]> {
  const empty = rows.findIndex(isEmptyObject);
  if (empty !== -1) {
    throw malformed(problemAt('is an empty object', [empty], origin), origin);
  }
  if (schema === undefined) {
    return plainRecords(rows, origin) as T[];
  }
  const results = rows.map((row, index) => validate(schema, row, index, origin));
  return results.some((result) => result instanceof Promise)
    ? (Promise.all(results) as Promise<T[]>)
    : (results as T[]);
}

/** Restores the type of cached records that {@link parseRecords} created. */
export function parsedRecords<T>(records: readonly unknown[]): readonly T[] {
  return records as readonly T[];
}

function plainRecords(rows: readonly unknown[], origin: RecordsOrigin): readonly unknown[] {
  const invalid = rows.findIndex((row) => !isRecord(row));
  if (invalid !== -1) {
    throw malformed(problemAt('is not an object', [invalid], origin), origin);
  }
  return rows;
}

function validate(schema: StandardSchemaV1, row: unknown, index: number, origin: RecordsOrigin): unknown {
  const accept = (result: StandardSchemaV1.Result<unknown>): unknown => {
    if (!result.issues) {
      // A schema may drop each member.
      if ((result.value ?? undefined) === undefined || isEmptyObject(result.value)) {
        throw malformed(problemAt('is made nothing by exhibitorSchema', [index], origin), origin);
      }
      return result.value;
    }
    const path = (result.issues[0]?.path ?? []).map((part) => (typeof part === 'object' ? part.key : part));
    throw malformed(problemAt('does not fit exhibitorSchema', [index, ...path], origin), origin);
  };
  const fail = (thrown: unknown): never => {
    const { log, tenant } = origin;
    const message = problemAt('made exhibitorSchema throw', [index], origin);
    const place = { option: 'exhibitorSchema', key: tenant };
    throw log.hostError(place, thrown, { code: 'malformed_response', message });
  };
  let result;
  try {
    result = schema['~standard'].validate(row);
  } catch (error) {
    return fail(error);
  }
  if (!(result instanceof Promise)) {
    return accept(result);
  }
  const checked = result.then(accept, fail);
  // When an earlier row fails, this promise is not awaited any more.
  checked.catch(() => {});
  return checked;
}

function malformed(message: string, { tenant }: RecordsOrigin): ExhibitorError {
  return new ExhibitorError('malformed_response', message, { tenant });
}

function problemAt(
  problem: string,
  [index, ...inner]: readonly [index: number, ...inner: PropertyKey[]],
  { path, note }: RecordsOrigin,
): string {
  const shown = [path, String(index), ...inner.map(segment)].filter(Boolean).join('.');
  return [`${untrustedText(shown)} ${problem}`, note].filter(Boolean).join('; ');
}

/** A key of a record may itself be confidential, such as an e-mail address. */
function segment(key: PropertyKey): string {
  const text = String(key);
  return /^[\w$-]{1,64}$/.test(text) ? text : '*';
}
