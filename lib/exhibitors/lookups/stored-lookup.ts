import { isRecord } from '../../model/json-values.js';

/** Largest answer that is shared, in estimated bytes of heap. A larger one would hold up the event loop and the store. */
const LARGEST_SHARED = 256 * 1024;

/** An answer in the store. */
export interface StoredLookup {
  /** Differs from that of any other answer. */
  id: string;
  /** Generations that it belongs to. */
  stamp: string;
  /** Milliseconds since 1970, the only clock that processes share. */
  freshUntil: number;
  /** The rows as JSON; `undefined` where they are too large to be shared. */
  rows?: string;
}

/** The rows as JSON; `undefined` where they are too large, or nested so deeply that `JSON.stringify` fails. */
export function encodeRows(rows: readonly unknown[], weight: number): string | undefined {
  if (weight > LARGEST_SHARED) {
    return undefined;
  }
  try {
    return JSON.stringify(rows);
  } catch {
    return undefined;
  }
}

export function rowsOf(json: string): readonly unknown[] | undefined {
  const rows: unknown = JSON.parse(json);
  return Array.isArray(rows) ? rows : undefined;
}

/** The stored answer, where it belongs to these generations; as a list, since there may be none. */
export function parseStored(value: unknown, stamp: string): StoredLookup[] {
  if (!isRecord(value) || value['stamp'] !== stamp) {
    return [];
  }
  const { id, freshUntil, rows } = value;
  if (typeof id !== 'string' || typeof freshUntil !== 'number') {
    return [];
  }
  return [{ id, stamp, freshUntil, rows: typeof rows === 'string' ? rows : undefined }];
}

export function newest(stored: readonly StoredLookup[]): StoredLookup | undefined {
  return stored.toSorted((a, b) => b.freshUntil - a.freshUntil)[0];
}
