/** Operations on parsed JSON. They recurse: replies that are nested more than 100 levels deep are refused before. */

/** True for an object that is neither `null` nor an array. */
export function isRecord(value: unknown): value is Record<string, unknown> {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}

/** True for an object without members. Instances of classes may hold something that is none. */
export function isEmptyObject(value: unknown): boolean {
  return isRecord(value) && Object.keys(value).length === 0 && isPlain(value);
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
  return Object.freeze(copyMembers(record, Object.freeze));
}

/**
 * Copies every array and plain object in a value. Instances of classes stay the same.
 *
 * @param finish is called with each copy
 */
export function copyJson(value: unknown, finish: (copy: object) => object = (copy) => copy): unknown {
  if (Array.isArray(value)) {
    return finish(value.map((member) => (typeof member === 'object' ? copyJson(member, finish) : member)));
  }
  return isPlain(value) ? finish(copyMembers(value, finish)) : value;
}

function copyMembers(value: object, finish: (copy: object) => object): Record<string, unknown> {
  // To freeze an object made by spread takes ten times as long, and V8 keeps each one until a full collection. But `Object.assign` would
  // make a member `__proto__` the prototype.
  const copy: Record<string, unknown> = Object.hasOwn(value, '__proto__')
    ? { ...value }
    : Object.assign<Record<string, unknown>, object>({}, value);
  for (const name of Object.keys(copy)) {
    const member = copy[name];
    if (typeof member === 'object') {
      copy[name] = copyJson(member, finish);
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
