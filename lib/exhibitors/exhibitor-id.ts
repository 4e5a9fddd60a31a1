import type { ExhibitorSettings } from '../options/exhibitor-settings.js';
import { isRecord } from '../model/json-values.js';

/** Reads the id of a record; `undefined` where it has none. */
export type ExhibitorIdOf = (record: unknown) => string | undefined;

/** `id` of a record, else its `exhibitorId`: the service does not publish which one it sends. Numbers become text. */
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
  const idOf =
    exhibitorId === undefined ? defaultExhibitorId : (record: unknown) => idText(exhibitorId(record));
  return (record) => {
    const id = idOf(record);
    return id !== undefined && Buffer.byteLength(id) <= MAX_BYTES ? id : undefined;
  };
}

function idText(value: unknown): string | undefined {
  if (typeof value === 'string' && value !== '') {
    return value;
  }
  return typeof value === 'number' || typeof value === 'bigint' ? String(value) : undefined;
}
