import type { HttpContext } from '../http/http-context.js';
import type { PendingLogin } from './pending-login.js';

/** Parameters of an authorization response (RFC 6749 §4.1.2, RFC 9207 §2, OIDC Core §3.3.2.5). */
export interface CallbackParameters {
  state: string;
  iss?: string;
  error?: string;
  code?: string;
  idToken?: string;
  accessToken?: string;
}

const NAMES = ['state', 'iss', 'error', 'code', 'id_token', 'access_token'] as const;

/** Largest parameter worth a look; a code or an ID token is far below. */
const MAX_LENGTH = 16_384;

/**
 * Reads the response of the provider, from the query of a GET or the form of a POST. `undefined` where a parameter
 * is repeated (RFC 6749 §3.1), not a string or too long, or where `state` is missing.
 */
export function readCallback(http: HttpContext): CallbackParameters | undefined {
  const values = http.request.method === 'POST' ? fromForm(http.request.body) : fromQuery(http);
  if (values === undefined) {
    return undefined;
  }
  const { state, iss, error, code, id_token: idToken, access_token: accessToken } = values;
  if (state === undefined) {
    return undefined;
  }
  return { state, iss, error, code, idToken, accessToken };
}

/** Whether a response has the form this login asked for: its method, its path, and all it needs to go on. */
export function fitsLogin(
  parameters: CallbackParameters,
  login: PendingLogin,
  method: string,
  path: string,
): boolean {
  const hybrid = login.responseType !== 'code';
  if (method !== (hybrid ? 'POST' : 'GET')) {
    return false;
  }
  if (path !== new URL(login.redirectUri).pathname) {
    return false;
  }
  if (parameters.error !== undefined) {
    return true;
  }
  if (parameters.code === undefined) {
    return false;
  }
  if (hybrid !== (parameters.idToken !== undefined)) {
    return false;
  }
  return (login.responseType === 'code token id_token') === (parameters.accessToken !== undefined);
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
  if (typeof body !== 'object' || body === null) {
    return undefined;
  }
  return pick((name) => (Object.hasOwn(body, name) ? Reflect.get(body, name) : undefined));
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
