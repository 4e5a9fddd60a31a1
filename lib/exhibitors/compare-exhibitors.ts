import { isDeepStrictEqual } from 'node:util';
import { ExhibitorError } from '../errors/exhibitor.error.js';
import { defaultExhibitorId, idBy } from './exhibitor-id.js';

/** Differences between two readings of an event. */
export interface ExhibitorChanges<T> {
  /** Only in `after`, in its order. */
  added: T[];
  /** Only in `before`, in its order. */
  removed: T[];
  /** In both, with different content. */
  changed: { before: T; after: T }[];
  /** In both and equal, as in `after`. */
  unchanged: T[];
}

/**
 * Compares two readings of an event, exhibitor by exhibitor. The service sends no notifications, so hosts poll: take a
 * `snapshot` from time to time and compare it with the previous one.
 *
 * Content is compared deeply; the order of members and of exhibitors does not matter. Exhibitors with the same id are
 * paired in order.
 *
 * @param id reads the id of an exhibitor: text, or a safe integer. Default: `exhibitor.id`, else `exhibitor.exhibitorId`
 * @throws {ExhibitorError} `invalid_argument` where an exhibitor has no id
 *
 * @example
 * const { exhibitors } = await firstValueFrom(service.snapshot('world-2026'));
 * const { added, removed, changed } = compareExhibitors(await readPrevious(), exhibitors);
 */
export function compareExhibitors<T>(
  before: readonly T[],
  after: readonly T[],
  id: (exhibitor: T) => string | number | undefined = defaultExhibitorId,
): ExhibitorChanges<T> {
  const idOf = idBy(id);
  const left = groupById(before, idOf);
  const changes: ExhibitorChanges<T> = { added: [], removed: [], changed: [], unchanged: [] };
  for (const exhibitor of after) {
    const earlier = left.get(requireId(exhibitor, idOf))?.shift();
    if (earlier === undefined) {
      changes.added.push(exhibitor);
    } else if (isDeepStrictEqual(earlier, exhibitor)) {
      changes.unchanged.push(exhibitor);
    } else {
      changes.changed.push({ before: earlier, after: exhibitor });
    }
  }
  changes.removed = [...left.values()].flat();
  return changes;
}

function groupById<T>(exhibitors: readonly T[], id: (exhibitor: T) => string | undefined): Map<string, T[]> {
  const groups = new Map<string, T[]>();
  for (const exhibitor of exhibitors) {
    const key = requireId(exhibitor, id);
    const group = groups.get(key);
    if (group === undefined) {
      groups.set(key, [exhibitor]);
    } else {
      group.push(exhibitor);
    }
  }
  return groups;
}

function requireId<T>(exhibitor: T, id: (exhibitor: T) => string | undefined): string {
  const found = id(exhibitor);
  if (found !== undefined) {
    return found;
  }
  throw new ExhibitorError('invalid_argument', 'an exhibitor has no id: pass a function that reads it');
}
