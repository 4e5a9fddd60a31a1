import { isPlain } from '../model/json-values.js';

/** Copies every array and plain object in a value, as those of this realm. Anything else, such as a `Date` or bytes, is kept. */
export function copyJson<V>(value: V): V;
export function copyJson(value: unknown): unknown {
  if (Array.isArray(value)) {
    return Array.from(value, (member: unknown) => copyJson(member));
  }
  const members = isPlain(value) ? Object.entries(value) : undefined;
  return members ? Object.fromEntries(members.map(([name, member]) => [name, copyJson(member)])) : value;
}
