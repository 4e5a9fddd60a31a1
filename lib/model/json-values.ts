/** Operations on plain JSON values. None recurses: a reply of the service may be nested to any depth. */
import { isDeepStrictEqual } from 'node:util';

/** True for an object that is neither `null` nor an array. */
export function isRecord(value: unknown): value is Record<string, unknown> {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}

/**
 * True where two values are equal; the order of members does not matter. Arrays and plain objects are compared member by
 * member, everything else (also instances of classes, which an `exhibitorSchema` may create) by `isDeepStrictEqual`.
 *
 * Stops at the first difference. `isDeepStrictEqual` alone recurses, and takes ten times as long on the pages of an event.
 * Records of a schema may refer to themselves: each pair of objects is compared once.
 */
export function isSameJson(one: unknown, other: unknown): boolean {
  const pending: [unknown, unknown][] = [[one, other]];
  const compared = new Map<object, Set<object>>();
  for (let pair = pending.pop(); pair !== undefined; pair = pending.pop()) {
    const [a, b] = pair;
    if (Object.is(a, b)) {
      continue;
    }
    if (!isPlain(a) || !isPlain(b)) {
      if (isDeepStrictEqual(a, b)) {
        continue;
      }
      return false;
    }
    const comparedWithA = compared.get(a) ?? new Set();
    if (comparedWithA.has(b)) {
      continue;
    }
    compared.set(a, comparedWithA.add(b));
    const names = Object.keys(a);
    if (Array.isArray(a) !== Array.isArray(b) || names.length !== Object.keys(b).length) {
      return false;
    }
    for (const name of names) {
      const [inner, counterpart] = [a[name], b[name]];
      if (!Object.hasOwn(b, name) || isScalarDifference(inner, counterpart)) {
        return false;
      }
      pending.push([inner, counterpart]);
    }
  }
  return true;
}

function isScalarDifference(one: unknown, other: unknown): boolean {
  const isScalar = typeof one !== 'object' || typeof other !== 'object';
  return isScalar && !Object.is(one, other);
}

/** True for an array and for an object of no class. */
export function isPlain(value: unknown): value is Record<string, unknown> {
  if (typeof value !== 'object' || value === null) {
    return false;
  }
  if (Array.isArray(value)) {
    return true;
  }
  const prototype: unknown = Object.getPrototypeOf(value);
  return prototype === null || Object.getPrototypeOf(prototype) === null;
}
