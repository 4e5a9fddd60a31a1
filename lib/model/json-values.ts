/** Operations on parsed JSON. They recurse: replies that are nested more than 100 levels deep are refused before. */

/** True for an object that is neither `null` nor an array. */
export function isRecord(value: unknown): value is Record<string, unknown> {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}

/**
 * Freezes every array and plain object in a value, which may refer to itself. Instances of classes (`Date`, `Map`), which an
 * `exhibitorSchema` may create, are left as they are.
 */
export function freezeJson(value: unknown): void {
  if (!isPlain(value) || Object.isFrozen(value)) {
    return;
  }
  for (const member of Object.values(Object.freeze(value))) {
    freezeJson(member);
  }
}

/** A copy, frozen as {@link freezeJson} does. The object and what it contains stay as they are. */
export function frozenCopy(record: Readonly<Record<string, unknown>>): Record<string, unknown> {
  const copy = copyMembers(record);
  freezeJson(copy);
  return copy;
}

/** Copies every array and plain object in a value. Instances of classes stay the same. */
export function copyJson(value: unknown): unknown {
  if (Array.isArray(value)) {
    return value.map(copyJson);
  }
  return isPlain(value) ? copyMembers(value) : value;
}

function copyMembers(value: object): Record<string, unknown> {
  const copy: Record<string, unknown> = { ...value };
  for (const [name, member] of Object.entries(copy)) {
    if (typeof member === 'object') {
      copy[name] = copyJson(member);
    }
  }
  return copy;
}

/** True for an array and for an object without a class, also of another realm: the prototype of plain objects is another there. */
function isPlain(value: unknown): value is object {
  if (typeof value !== 'object' || value === null) {
    return false;
  }
  const prototype: unknown = Object.getPrototypeOf(value);
  return Array.isArray(value) || prototype === null || Object.getPrototypeOf(prototype) === null;
}
