import * as v from 'valibot';

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
  const problems = parsed.issues.slice(0, MOST_PROBLEMS).map(problemOf);
  throw new Error(`${source}: ${problems.join('\n  ')}`);
}

/** In the words for wrong options. Their own function is in the chunk of the module, which requires Nest; the command does not. */
function problemOf(issue: v.BaseIssue<unknown>): string {
  const path = v.getDotPath(issue);
  if (path === null) {
    return issue.message;
  }
  if (issue.expected === 'never') {
    return `${path}: is not an option`;
  }
  return `${path}: ${issue.input === undefined ? 'is required' : issue.message}`;
}
