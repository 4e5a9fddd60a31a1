import * as v from 'valibot';
import type { HttpContext } from '../http/http-context.js';
import { isHybrid } from '../tenants/tenant.js';
import type { PendingLogin } from './pending-login.js';

/** Largest accepted parameter. A code or an ID token is much shorter. */
const MAX_LENGTH = 16_384;

const required = v.pipe(v.string(), v.maxLength(MAX_LENGTH));
const optional = v.optional(required);
const response = v.object({
  state: required,
  iss: optional,
  error: optional,
  error_description: optional,
  code: optional,
  id_token: optional,
  access_token: optional,
});

/** Parameters of an authorization response (RFC 6749 §4.1.2, RFC 9207 §2, OIDC Core §3.3.2.5). */
export type CallbackParameters = v.InferOutput<typeof response>;

/**
 * Reads the authorization response from the query of a GET or the form of a POST. `undefined` where a parameter is repeated
 * (RFC 6749 §3.1), is no string or is too long, or where `state` is missing.
 */
export function readCallback({ request, target }: HttpContext): CallbackParameters | undefined {
  const query = target.searchParams;
  const isRepeated = Object.keys(response.entries).some((name) => query.getAll(name).length > 1);
  const given = request.method === 'POST' ? request.body : !isRepeated && Object.fromEntries(query);
  const { success, output } = v.safeParse(response, given);
  return success ? output : undefined;
}

/** True where a response is as the login asked for it. Some providers send an error in the query although a form was asked for. */
export function fitsLogin(
  parameters: CallbackParameters,
  login: PendingLogin,
  method: string,
  path: string,
): boolean {
  const hybrid = isHybrid(login);
  const isExpected = method === (hybrid ? 'POST' : 'GET');
  if (path !== new URL(login.redirectUri).pathname) {
    return false;
  }
  if (parameters.error !== undefined) {
    return isExpected || method === 'GET';
  }
  const hasAccessToken = login.responseType === 'code token id_token';
  return (
    isExpected &&
    parameters.code !== undefined &&
    (parameters.id_token !== undefined) === hybrid &&
    (parameters.access_token !== undefined) === hasAccessToken
  );
}
