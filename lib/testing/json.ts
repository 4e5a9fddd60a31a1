import * as v from 'valibot';
import { isPlain } from '../model/json-values.js';

/** Problems that an error names. */
const MOST_PROBLEMS = 10;

/**
 * Parses JSON that a person wrote.
 *
 * @param source of the JSON, for the error
 * @throws Error that names each wrong field, and what is expected there.
 */
export function parseJson<Schema extends v.GenericSchema>(
  schema: Schema,
  json: string,
  source: string,
): v.InferOutput<Schema> {
  const parsed = v.safeParse(v.pipe(v.string(), v.parseJson(undefined, 'must be JSON'), schema), json);
  if (parsed.success) {
    return parsed.output;
  }
  const [first, ...others] = parsed.issues;
  throw new Error(`${source}:\n${v.summarize([first, ...others.slice(0, MOST_PROBLEMS - 1)])}`);
}

/** Copies every array and plain object in a value, as those of this realm. Anything else, such as a `Date` or bytes, is kept. */
export function copyJson<V>(value: V): V;
export function copyJson(value: unknown): unknown {
  if (Array.isArray(value)) {
    return Array.from(value, (member: unknown) => copyJson(member));
  }
  const members = isPlain(value) ? Object.entries(value) : undefined;
  return members ? Object.fromEntries(members.map(([name, member]) => [name, copyJson(member)])) : value;
}
