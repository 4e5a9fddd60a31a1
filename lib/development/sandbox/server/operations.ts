import { unescape } from 'node:querystring';

export const JWKS_PATH = '/connect/jwks';
/** Path of the logout (OpenID Connect RP-Initiated Logout 1.0). */
export const END_SESSION_PATH = '/connect/endsession';
/** Path of the login page, without the uid of the interaction. */
export const LOGIN_PATH = '/connect/login';

/** In the order of the page: what is failed most often stands first. */
export const OPERATIONS = [
  'list',
  'lookup',
  'token',
  'authorize',
  'resume',
  'login',
  'userinfo',
  'endsession',
  'keys',
  'discovery',
  'other',
] as const;

/**
 * The operation that a request calls. `login` is the login page, `resume` the redirect from the login page back into
 * the authorization endpoint, `endsession` the logout, `keys` the JWKS, `discovery` the provider metadata, `other` any other path.
 */
export type SandboxOperation = (typeof OPERATIONS)[number];

const REST_PATH = /^\/api\/v1\/exhibitor\/event\/([^/]+)(?:\/contactEmail\/([^/]+))?$/;

const OPERATION_BY_PATH: Readonly<Record<string, SandboxOperation>> = {
  '/connect/token': 'token',
  '/connect/authorize': 'authorize',
  '/connect/userinfo': 'userinfo',
  [END_SESSION_PATH]: 'endsession',
  [`${END_SESSION_PATH}/confirm`]: 'endsession',
  [`${END_SESSION_PATH}/success`]: 'endsession',
  [JWKS_PATH]: 'keys',
  '/.well-known/openid-configuration': 'discovery',
  '/.well-known/oauth-authorization-server': 'discovery',
};

/**
 * The operation of the raw path of a request, with the percent-decoded parameters of the REST API. The path is not normalised: `..`
 * is an event id like any other.
 */
export function parseRoute(path: string): {
  readonly operation: SandboxOperation;
  readonly eventId?: string;
  readonly contactEmail?: string;
} {
  const [, eventId, contactEmail] = REST_PATH.exec(path) ?? [];
  if (eventId !== undefined && contactEmail !== undefined) {
    return { operation: 'lookup', eventId: unescape(eventId), contactEmail: unescape(contactEmail) };
  }
  if (eventId !== undefined) {
    return { operation: 'list', eventId: unescape(eventId) };
  }
  if (path.startsWith(`${LOGIN_PATH}/`)) {
    return { operation: 'login' };
  }
  if (path.startsWith('/connect/authorize/')) {
    return { operation: 'resume' };
  }
  return { operation: OPERATION_BY_PATH[path] ?? 'other' };
}
