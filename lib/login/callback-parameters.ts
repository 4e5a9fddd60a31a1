import * as v from 'valibot';
import type { HttpContext } from '../browser/http-context.js';
import { UNREAD_FORM } from '../config/problems/host-problems.js';
import type { Refusal } from '../config/problems/problem.interface.js';
import { isHybrid } from '../config/tenant.js';
import type { OpenedLogin } from './started-login.js';

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
  const given = request.method === 'POST' ? request.body : parametersIn(target.searchParams);
  const { success, output } = v.safeParse(response, given);
  return success ? output : undefined;
}

/** The parameters of a query; `undefined` where one of a response is repeated. In a form, a repeated one is a list. */
function parametersIn(query: URLSearchParams): Record<string, string> | undefined {
  const isRepeated = Object.keys(response.entries).some((name) => query.getAll(name).length > 1);
  return isRepeated ? undefined : Object.fromEntries(query);
}

/**
 * What is wrong with a response that is not as its login asked for it; `undefined` where it is. Some providers send an error in the
 * query although a form was asked for.
 */
export function misfitOf(
  parameters: CallbackParameters,
  login: OpenedLogin,
  redirectUri: string,
  { method, path }: { method: string; path: string },
): Refusal | undefined {
  const hybrid = isHybrid(login);
  const expectedMethod = hybrid ? 'POST' : 'GET';
  const expectedPath = new URL(redirectUri).pathname;
  const isError = parameters.error !== undefined;
  if (path !== expectedPath || !(method === expectedMethod || (isError && method === 'GET'))) {
    return {
      reason: 'state',
      option: 'login.redirectUri',
      detail:
        'the path or the method is not that of the login. Behind a proxy that removes a prefix, override getCallbackPath',
      expected: `${expectedMethod} ${expectedPath}`,
      received: `${method} ${path}`,
    };
  }
  const hasAccessToken = login.responseType === 'code token id_token';
  const isComplete =
    parameters.code !== undefined &&
    (parameters.id_token !== undefined) === hybrid &&
    (parameters.access_token !== undefined) === hasAccessToken;
  return isError || isComplete
    ? undefined
    : {
        reason: 'state',
        option: 'login.responseType',
        detail: 'the parameters are not those of the response type',
        expected: login.responseType,
        received: Object.keys(parameters).join(' '),
      };
}

/** Why a callback is refused that has no `state`, or a parameter that is repeated or too long. A visit without parameters is not logged. */
export function refusalWithoutState(http: HttpContext): Refusal | undefined {
  const error = http.target.searchParams.get('error');
  if (http.request.method !== 'POST' && error === null) {
    return undefined;
  }
  const detail = http.isUnreadForm ? UNREAD_FORM : 'it has no state, or a parameter more than once';
  return { reason: 'state', detail, received: error === null ? undefined : `error ${error}` };
}

/** Causes: the login route is on another host than `redirectUri`, or the user changed the browser. */
export const NO_COOKIE =
  'no login cookie; the login was finished before, has expired, or started on another host or in another browser';

/** Why a callback is refused whose `state` opens, but which has no proof of its browser. */
export const WITHOUT_COOKIE: Refusal = {
  reason: 'state',
  option: 'login.redirectUri',
  detail: `it brought ${NO_COOKIE}`,
};
