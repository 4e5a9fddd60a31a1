import type { ExhibitorSettings } from '../config/exhibitor-settings.js';
import { isRecord } from '../model/json-values.js';

/** Reads the id of a record; `undefined` where it has none. */
export type ExhibitorIdOf = (record: unknown) => string | undefined;

/** `id` of a record, else its `exhibitorId`: the service does not publish which one it sends. */
export function defaultExhibitorId(record: unknown): string | undefined {
  return isRecord(record) ? (idText(record['id']) ?? idText(record['exhibitorId'])) : undefined;
}

/** Largest id, in bytes of UTF-8, by which an exhibitor can be selected: a selection is stored in a cookie. */
const MAX_BYTES = 256;

/**
 * The id by which a record can be selected: that of the option `exhibitorId`, else {@link defaultExhibitorId}. `undefined`
 * for an id of more than 256 bytes.
 */
export function exhibitorIdOf({ exhibitorId }: Pick<ExhibitorSettings, 'exhibitorId'>): ExhibitorIdOf {
  const idOf = exhibitorId === undefined ? defaultExhibitorId : idBy(exhibitorId);
  return (record) => {
    const id = idOf(record);
    return id !== undefined && Buffer.byteLength(id) <= MAX_BYTES ? id : undefined;
  };
}

/** Reads ids by a function of the host. */
export function idBy<T>(read: (record: T) => unknown): (record: T) => string | undefined {
  return (record) => idText(read(record));
}

/** Text, or a safe integer: the parser of JSON has rounded a larger one, perhaps to the id of another exhibitor. */
function idText(value: unknown): string | undefined {
  if (typeof value === 'string') {
    return value.trim() === '' ? undefined : value;
  }
  const isNumber = typeof value === 'number' || typeof value === 'bigint';
  return isNumber && Number.isSafeInteger(Number(value)) ? String(value) : undefined;
}
