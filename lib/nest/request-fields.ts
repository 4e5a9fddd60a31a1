/** What a request says in its path, its query or its form. */
import type { HttpContext } from '../browser/http-context.js';
import { isRecord } from '../model/json-values.js';
import { normalizeReturnTo, safeReturnTo } from '../login/return-to.js';

/** A parameter of a request. One that is empty, or given more than once, counts as none. */
export function textOf(value: unknown): string | undefined {
  return typeof value === 'string' && value !== '' ? value : undefined;
}

/** What a request of `choose` or of the logout says, in its form or JSON by POST, else in its query. */
export function fieldOf({ request }: HttpContext, name: string): string | undefined {
  const fields = request.method === 'POST' ? request.body : request.query;
  return isRecord(fields) ? textOf(fields[name]) : undefined;
}

/** Where a request wants to go on, as browsers request it. */
export function returnToOf(value: unknown): string | undefined {
  const returnTo = safeReturnTo(value);
  return returnTo === undefined ? undefined : normalizeReturnTo(returnTo);
}
