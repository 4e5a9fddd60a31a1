import type { StandardSchemaV1 } from '@standard-schema/spec';
import type { ExhibitorSettings } from '../../options/exhibitor-settings.js';
import { exhibitorIdOf } from '../exhibitor-id.js';

/**
 * True for an object that looks like an error and not like an exhibitor: some services answer errors with status 200. An
 * object with the id of an exhibitor, or with any field of `exhibitorSchema`, is an exhibitor.
 */
export function isErrorShaped(
  body: Record<string, unknown>,
  settings: Pick<ExhibitorSettings, 'exhibitorId' | 'exhibitorSchema'>,
): boolean {
  const { exhibitorSchema } = settings;
  return (
    looksLikeError(body) &&
    !hasId(body, settings) &&
    (exhibitorSchema === undefined || !fieldsOf(exhibitorSchema).some((name) => Object.hasOwn(body, name)))
  );
}

function looksLikeError(body: Record<string, unknown>): boolean {
  const has = (name: string): boolean => Object.hasOwn(body, name);
  return has('message') || has('error') || has('errors') || (has('title') && has('status'));
}

function hasId(body: Record<string, unknown>, settings: Pick<ExhibitorSettings, 'exhibitorId'>): boolean {
  try {
    return exhibitorIdOf(settings)(body) !== undefined;
  } catch {
    // The function of the host expects an exhibitor.
    return false;
  }
}

/**
 * The members that a schema reads. A Standard Schema does not name its fields, so it validates an empty object that records
 * which members are read.
 */
function fieldsOf(schema: StandardSchemaV1): string[] {
  const fields = new Set<string>();
  const record = (name: string | symbol): undefined => {
    fields.add(String(name));
  };
  const probe = new Proxy(
    {},
    {
      get: (_target, name) => record(name),
      has: (_target, name) => record(name) !== undefined,
      getOwnPropertyDescriptor: (_target, name) => record(name),
    },
  );
  try {
    Promise.resolve(schema['~standard'].validate(probe)).catch(() => {});
  } catch {
    // A schema may throw for an object without members.
  }
  return [...fields];
}
