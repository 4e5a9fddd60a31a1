import type { ExhibitorSettings } from '../options/exhibitor-settings.js';
import { isRecord } from '../model/json-values.js';

/** Reads the id of a record; `undefined` where it has none. */
export type ExhibitorIdOf = (record: unknown) => string | undefined;

/** `id` of a record, else its `exhibitorId`: the service does not publish which one it sends. Numbers become text. */
export function defaultExhibitorId(record: unknown): string | undefined {
  return isRecord(record) ? (idText(record['id']) ?? idText(record['exhibitorId'])) : undefined;
}

/** The option `exhibitorId`, else {@link defaultExhibitorId}. */
export function exhibitorIdOf({ exhibitorId }: Pick<ExhibitorSettings, 'exhibitorId'>): ExhibitorIdOf {
  return exhibitorId === undefined ? defaultExhibitorId : (record) => idText(exhibitorId(record));
}

function idText(value: unknown): string | undefined {
  if (typeof value === 'string' && value !== '') {
    return value;
  }
  return typeof value === 'number' || typeof value === 'bigint' ? String(value) : undefined;
}
