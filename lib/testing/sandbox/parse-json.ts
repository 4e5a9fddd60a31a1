import * as v from 'valibot';
import { problemsOf } from '../../options/option-schemas.js';

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
  const problems = problemsOf(parsed.issues).slice(0, MOST_PROBLEMS);
  const lines = problems.map(({ path, expected }) => (path ? `${path}: ${expected}` : expected));
  throw new Error(`${source}: ${lines.join('\n  ')}`);
}
