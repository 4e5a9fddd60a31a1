/**
 * Freezes a value and everything plain in it. Instances of classes, which a schema may make (`Date`, `Map`), are left
 * alone: freezing them would not protect what they hold. Takes no stack, since a reply may be nested without end.
 */
export function deepFreeze<T>(value: T): T {
  const left: unknown[] = [value];
  while (left.length > 0) {
    const next = left.pop();
    if (!isPlain(next) || Object.isFrozen(next)) {
      continue;
    }
    for (const inner of Object.values(Object.freeze(next))) {
      left.push(inner);
    }
  }
  return value;
}

function isPlain(value: unknown): value is object {
  if (typeof value !== 'object' || value === null) {
    return false;
  }
  if (Array.isArray(value)) {
    return true;
  }
  const prototype: unknown = Object.getPrototypeOf(value);
  return prototype === null || Object.getPrototypeOf(prototype) === null;
}
