/** Operations on parsed JSON. They recurse: replies that are nested more than 100 levels deep are refused before. */

/** True for an object that is neither `null` nor an array. */
export function isRecord(value: unknown): value is Record<string, unknown> {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}

/** True for text that is not empty. */
export function isText(value: unknown): value is string {
  return typeof value === 'string' && value !== '';
}

/** True for an object without members. Instances of classes may hold something that is none. */
export function isEmptyObject(value: unknown): boolean {
  if (!isRecord(value)) {
    return false;
  }
  // Each record of a page is asked, so without a list of its members.
  for (const name in value) {
    if (Object.hasOwn(value, name)) {
      return false;
    }
  }
  return isPlain(value);
}

/**
 * Freezes every array and plain object in a value, which may refer to itself. Instances of classes (`Date`, `Map`), which an
 * `exhibitorSchema` may create, are left as they are.
 */
export function freezeJson(value: unknown, seen = new Set<object>()): void {
  // Of what a host has frozen, the members may be open.
  if (isPlain(value) && !seen.has(value)) {
    seen.add(value);
    Object.values(Object.freeze(value)).forEach((member) => freezeJson(member, seen));
  }
}

/** A copy, frozen as {@link freezeJson} does. `structuredClone` takes a quarter of a guard's time for it. */
export function frozenCopy(record: object): Record<string, unknown> {
  // V8 keeps an object that was made by spread and frozen until a full collection. But `Object.assign` would make a member `__proto__`
  // the prototype.
  const copy: Record<string, unknown> = Object.hasOwn(record, '__proto__')
    ? { ...record }
    : Object.assign<Record<string, unknown>, object>({}, record);
  for (const name of Object.keys(copy)) {
    copy[name] = frozenMember(copy[name]);
  }
  return Object.freeze(copy);
}

function frozenMember(value: unknown): unknown {
  if (Array.isArray(value)) {
    return Object.freeze(value.map(frozenMember));
  }
  return isPlain(value) ? frozenCopy(value) : value;
}

/** True for an array and for an object without a class, also of another realm: the prototype of plain objects is another there. */
function isPlain(value: unknown): value is object {
  if (typeof value !== 'object' || value === null) {
    return false;
  }
  const prototype: unknown = Object.getPrototypeOf(value);
  return Array.isArray(value) || prototype === null || Object.getPrototypeOf(prototype) === null;
}
