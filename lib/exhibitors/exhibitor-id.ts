import type { ExhibitorSettings } from '../options/exhibitor-settings.js';

/** Id of a record; `undefined` where it has none. */
export type ExhibitorIdOf = (record: unknown) => string | undefined;

/** `id` of a record, else its `exhibitorId`; the service does not publish which one it sends. Numbers become text. */
export function defaultExhibitorId(record: unknown): string | undefined {
  if (typeof record !== 'object' || record === null) {
    return undefined;
  }
  return idText(Reflect.get(record, 'id')) ?? idText(Reflect.get(record, 'exhibitorId'));
}

/** How this host's exhibitors are told apart: its option `exhibitorId`, else {@link defaultExhibitorId}. */
export function exhibitorIdOf(settings: Pick<ExhibitorSettings, 'exhibitorId'>): ExhibitorIdOf {
  const { exhibitorId } = settings;
  if (exhibitorId === undefined) {
    return defaultExhibitorId;
  }
  // The host typed its function for the records its schema makes, and is given no others.
  return (record) => idText(Reflect.apply(exhibitorId, undefined, [record]));
}

function idText(value: unknown): string | undefined {
  if (typeof value === 'string' && value !== '') {
    return value;
  }
  return typeof value === 'number' || typeof value === 'bigint' ? String(value) : undefined;
}
