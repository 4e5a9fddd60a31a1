import * as v from 'valibot';

/**
 * Parses JSON that a person wrote.
 *
 * @throws Error that names the source, each wrong field, and what is expected there.
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
  throw new Error(`${source}:\n${v.summarize(parsed.issues)}`);
}
