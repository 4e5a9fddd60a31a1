import { setImmediate as nextTurn } from 'node:timers/promises';
import { freezeJson, weighJson } from '../../model/large-json.js';
import type { Deadline } from '../../time/deadline.js';
import { parseRecords } from '../parse-records.js';
import type { LookupAnswer } from './lookup-cache.js';
import type { LookupRules } from './read-lookup.js';

/** Rows checked in one turn of the event loop. */
const ROWS_PER_TURN = 100;

/**
 * The frozen records of a lookup and their weight. A large answer is checked and frozen in several turns of the event loop.
 *
 * @throws {ExhibitorError} `malformed_response`, as {@link parseRecords}
 */
export async function prepareRecords(
  rows: readonly unknown[],
  { exhibitorSchema }: Pick<LookupRules, 'exhibitorSchema'>,
  tenant: string,
  deadline: Deadline,
): Promise<LookupAnswer> {
  const records: unknown[] = [];
  for (let first = 0; first < rows.length; first += ROWS_PER_TURN) {
    if (first > 0) {
      await nextTurn();
    }
    const some = rows.slice(first, first + ROWS_PER_TURN);
    const parsed = parseRecords(some, exhibitorSchema, { tenant, path: '', first });
    records.push(...(parsed instanceof Promise ? await deadline.race(parsed) : parsed));
  }
  const weight = await weighJson(rows);
  // The copy has no room for more rows, which `push` leaves: 128 bytes where there is one.
  const exact = records.slice();
  await freezeJson(exact);
  return { records: exact, weight };
}
