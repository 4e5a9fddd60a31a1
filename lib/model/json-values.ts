/** Operations on parsed JSON. They recurse: replies that are nested more than 100 levels deep are refused before. */

/** Bytes of heap that a value takes on average, and the name of a member. Measured on Node 20, as is {@link weighJson}. */
const VALUE_WEIGHT = 72;

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

/**
 * Bytes of heap that parsed JSON takes, estimated from the number and the length of its values and names. Small objects take
 * far more than their text: `{}` has 2 bytes of text and takes 64 of heap. Records of one shape share their names and take
 * about half of the estimate.
 */
export function weighJson(value: unknown): number {
  if (typeof value === 'string') {
    const isWide = /[\u0100-\uffff]/.test(value);
    return VALUE_WEIGHT + value.length * (isWide ? 2 : 1);
  }
  if (typeof value !== 'object' || value === null) {
    return VALUE_WEIGHT;
  }
  let weight = VALUE_WEIGHT;
  for (const member of Object.values(value)) {
    weight += weighJson(member);
  }
  // A name of 16 KiB is kept as a text of 16 KiB is.
  const names = Array.isArray(value) ? [] : Object.keys(value);
  return names.reduce((sum, name) => sum + weighJson(name), weight);
}

/** Bytes of heap of a cache entry for a value: its texts and names, and 512 for the entry itself. */
export function weighEntry(value: unknown): number {
  return 512 + weighJson(value);
}

/** True for an array and for an object without a class, also of another realm: the prototype of plain objects is another there. */
export function isPlain(value: unknown): value is object {
  if (typeof value !== 'object' || value === null) {
    return false;
  }
  const prototype: unknown = Object.getPrototypeOf(value);
  return Array.isArray(value) || prototype === null || Object.getPrototypeOf(prototype) === null;
}
