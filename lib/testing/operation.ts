import { JWKS_PATH, LOGIN_PATH } from './identity-provider.js';

/** What a request to the sandbox is about. `resume` is the provider's own step between sign-in and callback. */
export type SandboxOperation =
  | 'token'
  | 'list'
  | 'lookup'
  | 'authorize'
  | 'resume'
  | 'login'
  | 'userinfo'
  | 'keys'
  | 'discovery'
  | 'other';

/** Where a request goes. The REST parameters are percent-decoded. */
export interface Route {
  readonly operation: SandboxOperation;
  readonly eventId?: string;
  readonly contactEmail?: string;
  /** The path holds a broken percent-encoding. */
  readonly malformed?: true;
}

const REST = /^\/api\/v1\/exhibitor\/event\/([^/]+)(?:\/contactEmail\/([^/]+))?$/;

const FIXED: Readonly<Record<string, SandboxOperation>> = {
  '/connect/token': 'token',
  '/connect/authorize': 'authorize',
  '/connect/userinfo': 'userinfo',
  [JWKS_PATH]: 'keys',
  '/.well-known/openid-configuration': 'discovery',
  '/.well-known/oauth-authorization-server': 'discovery',
};

/** Reads the path of a request as it arrived: nothing is normalised, so `..` is an event id as any other. */
export function routeOf(path: string): Route {
  const rest = REST.exec(path);
  if (rest) {
    const [, eventId, contactEmail] = rest;
    const operation = contactEmail === undefined ? 'list' : 'lookup';
    try {
      return {
        operation,
        eventId: decodeURIComponent(eventId ?? ''),
        ...(contactEmail !== undefined && { contactEmail: decodeURIComponent(contactEmail) }),
      };
    } catch {
      return { operation, malformed: true };
    }
  }
  if (path.startsWith(`${LOGIN_PATH}/`)) {
    return { operation: 'login' };
  }
  if (path.startsWith('/connect/authorize/')) {
    return { operation: 'resume' };
  }
  return { operation: FIXED[path] ?? 'other' };
}
