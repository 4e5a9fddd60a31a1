import type { StandardSchemaV1 } from '@standard-schema/spec';
import { ExhibitorError } from '../errors/exhibitor.error.js';
import { foreignText } from '../model/foreign-text.js';
import { isRecord } from '../model/json-values.js';

/** Position of records in a reply, for errors that must not show the records. */
export interface RecordsOrigin {
  tenant: string;
  /** Path of the list, `data`; empty where the reply is the list. */
  path: string;
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
  if (schema === undefined) {
    return plainRecords(rows, origin) as T[];
  }
  const results = rows.map((row, index) => validate(schema, row, index, origin));
  return results.some(isPromise) ? (Promise.all(results) as Promise<T[]>) : (results as T[]);
}

/** Restores the type of cached records that {@link parseRecords} created. */
export function parsedRecords<T>(records: readonly unknown[]): readonly T[] {
  return records as readonly T[];
}

function plainRecords(rows: readonly unknown[], origin: RecordsOrigin): readonly unknown[] {
  const invalid = rows.findIndex((row) => !isRecord(row));
  if (invalid === -1) {
    return rows;
  }
  throw refusal('is not an object', [invalid], origin);
}

function validate(schema: StandardSchemaV1, row: unknown, index: number, origin: RecordsOrigin): unknown {
  const accept = (result: StandardSchemaV1.Result<unknown>): unknown => {
    if (!result.issues) {
      return result.value;
    }
    const path = (result.issues[0]?.path ?? []).map((part) => (typeof part === 'object' ? part.key : part));
    throw refusal('does not fit exhibitorSchema', [index, ...path], origin);
  };
  const fail = (cause: unknown): never => {
    throw refusal('made exhibitorSchema throw', [index], origin, cause);
  };
  const result = attempt(() => schema['~standard'].validate(row), fail);
  if (!isPromise(result)) {
    return accept(result);
  }
  const checked = result.catch(fail).then(accept);
  // When an earlier row fails, this promise is not awaited any more.
  checked.catch(() => {});
  return checked;
}

function attempt<R>(work: () => R, fail: (cause: unknown) => never): R {
  try {
    return work();
  } catch (error) {
    return fail(error);
  }
}

function isPromise<R>(result: R): result is R & Promise<Awaited<R>> {
  return result instanceof Promise;
}

function refusal(
  problem: string,
  path: readonly [index: number, ...inner: PropertyKey[]],
  origin: RecordsOrigin,
  cause?: unknown,
): ExhibitorError {
  const [index, ...inner] = path;
  const shown = [origin.path, String(index), ...inner.map(segment)].filter(Boolean).join('.');
  return new ExhibitorError('malformed_response', `${foreignText(shown)} ${problem}`, {
    tenant: origin.tenant,
    cause,
  });
}

/** A key of a record may itself be confidential, such as an e-mail address. */
function segment(key: PropertyKey): string {
  const text = String(key);
  return /^[\w$-]{1,64}$/.test(text) ? text : '*';
}
