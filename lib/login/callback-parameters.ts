import type { HttpContext } from '../http/http-context.js';
import { isRecord } from '../model/json-values.js';
import { isHybrid } from '../tenants/tenant.js';
import type { PendingLogin } from './pending-login.js';

/** Parameters of an authorization response (RFC 6749 §4.1.2, RFC 9207 §2, OIDC Core §3.3.2.5). */
export interface CallbackParameters {
  state: string;
  iss?: string;
  error?: string;
  errorDescription?: string;
  code?: string;
  idToken?: string;
  accessToken?: string;
}

const NAMES = ['state', 'iss', 'error', 'error_description', 'code', 'id_token', 'access_token'] as const;

/** Largest accepted parameter. A code or an ID token is much shorter. */
const MAX_LENGTH = 16_384;

/**
 * Reads the authorization response from the query of a GET or the form of a POST. `undefined` where a parameter is repeated
 * (RFC 6749 §3.1), is no string or is too long, or where `state` is missing.
 */
export function readCallback(http: HttpContext): CallbackParameters | undefined {
  const values = http.request.method === 'POST' ? fromForm(http.request.body) : fromQuery(http);
  if (values?.state === undefined) {
    return undefined;
  }
  const { state, iss, error, code, error_description: errorDescription } = values;
  const { id_token: idToken, access_token: accessToken } = values;
  return { state, iss, error, errorDescription, code, idToken, accessToken };
}

/**
 * True where a response has the method, the path and the parameters that the login asked for. Some providers send an error
 * in the query although a form was asked for.
 */
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
    (parameters.idToken !== undefined) === hybrid &&
    (parameters.accessToken !== undefined) === hasAccessToken
  );
}

type Values = Partial<Record<(typeof NAMES)[number], string>>;

function fromQuery(http: HttpContext): Values | undefined {
  const query = http.target.searchParams;
  if (NAMES.some((name) => query.getAll(name).length > 1)) {
    return undefined;
  }
  return pick((name) => query.get(name) ?? undefined);
}

function fromForm(body: unknown): Values | undefined {
  return isRecord(body) ? pick((name) => (Object.hasOwn(body, name) ? body[name] : undefined)) : undefined;
}

function pick(read: (name: string) => unknown): Values | undefined {
  const values: Values = {};
  for (const name of NAMES) {
    const value = read(name);
    if (value === undefined) {
      continue;
    }
    if (typeof value !== 'string' || value.length > MAX_LENGTH) {
      return undefined;
    }
    values[name] = value;
  }
  return values;
}
