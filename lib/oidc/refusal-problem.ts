import type { JWTPayload } from 'jose';
import type { LoginFailureReason } from '../errors/login-failed.error.js';
import type { KeySource } from '../options/key-source.js';
import type { LoginSettings } from '../options/tenant-settings.js';
import type { OperatorProblem } from '../tenants/operator-log.service.js';
import { unverified } from './unverified-jwt.js';

/**
 * Who delivered a token: the provider, by a request of ours; or a browser or another client, which may have made it up.
 */
export type TokenDelivery = 'provider' | 'client';

/** A token that was refused. */
export interface RefusedToken {
  use: 'id_token' | 'access_token' | 'logout_token' | 'userinfo';
  delivery: TokenDelivery;
  token: string;
  /** Claims, where the signature is valid. */
  payload?: JWTPayload;
}

const NAMES = {
  id_token: 'ID token',
  access_token: 'access token',
  logout_token: 'logout token',
  userinfo: 'userinfo',
} as const;

/** What an operator may have to mend; `undefined` for refusals that no option causes. */
export function refusalProblem(
  reason: LoginFailureReason,
  refused: RefusedToken,
  login: LoginSettings,
): OperatorProblem | undefined {
  const values = valuesOf(reason, refused, login);
  if (values === undefined) {
    return undefined;
  }
  return {
    cause: `${refused.use} ${reason}`,
    message: `the ${NAMES[refused.use]} is refused (${reason})`,
    // Claims are read only after the signature was verified: only the provider can choose them.
    isUnverified: refused.delivery === 'client' && refused.payload === undefined,
    ...values,
  };
}

type Values = Pick<OperatorProblem, 'options' | 'expected' | 'received'>;

function valuesOf(
  reason: LoginFailureReason,
  { use, delivery, token, payload = {} }: RefusedToken,
  login: LoginSettings,
): Values | undefined {
  const { alg, kid } = unverified(token, 'header');
  switch (reason) {
    case 'issuer':
      return { options: ['login.issuer'], expected: login.issuer, received: text(payload.iss) };
    case 'audience':
      return audienceValues(use, payload, login);
    case 'algorithm':
      return {
        options: ['login.algorithms'],
        expected: `alg ${login.algorithms.join(', ')}`,
        received: `alg ${text(alg)}`,
      };
    case 'signature':
      return {
        options: [login.keys === undefined ? 'login.discovery' : 'login.keys'],
        expected: describeKeys(login.keys),
        received: `kid ${text(kid)}, alg ${text(alg)}`,
      };
    case 'issued':
    case 'expired':
      // Clients send expired tokens all the time.
      return delivery === 'client' ? undefined : timeValues(payload);
    case 'auth_time':
      return {
        options: ['login.maxAge'],
        expected: `auth_time at most ${login.maxAge} s ago`,
        received: `auth_time ${text(payload['auth_time'])}`,
      };
    default:
      return undefined;
  }
}

function audienceValues(use: RefusedToken['use'], payload: JWTPayload, login: LoginSettings): Values {
  const { audience, clientId, authorizedParties } = login;
  const party = text(payload['azp'] ?? payload['client_id']);
  const received = `aud ${text(payload.aud)}, azp ${party}`;
  if (use === 'access_token') {
    const expected = typeof audience === 'object' ? audience.accessToken : undefined;
    return {
      options: ['login.audience.accessToken', 'login.authorizedParties'],
      expected: `aud ${text(expected)}, azp ${text(authorizedParties)}`,
      received,
    };
  }
  if (use === 'logout_token') {
    return { options: ['login.clientId'], expected: `aud ${text(clientId)}`, received };
  }
  const option = typeof audience === 'string' ? audience : audience?.idToken;
  return {
    options: [audience === undefined ? 'login.clientId' : 'login.audience'],
    expected: `aud ${text(option ?? clientId)}, azp ${text(clientId)}`,
    received,
  };
}

function timeValues({ iat, nbf, exp }: JWTPayload): Values {
  return {
    options: ['login.clockTolerance'],
    expected: 'a token of now, by the clock of this host',
    received: `iat ${text(iat)}, nbf ${text(nbf)}, exp ${text(exp)}`,
  };
}

function describeKeys(keys: KeySource | undefined): string {
  switch (keys?.kind) {
    case undefined:
      return "a key of the provider's metadata";
    case 'pem':
      return `the ${keys.key.asymmetricKeyType ?? ''} key of the PEM`;
    case 'url':
      return `a key of ${keys.url}`;
    case 'jwks':
      return `kid ${text(keys.jwks.keys.map(({ kid }) => kid ?? 'none'))}`;
  }
}

/** A claim may have any type. */
function text(value: unknown): string {
  if (value === undefined) {
    return 'none';
  }
  if (Array.isArray(value)) {
    return value.slice(0, 10).map(text).join(' or ');
  }
  return typeof value === 'string' || typeof value === 'number' ? String(value) : typeof value;
}
