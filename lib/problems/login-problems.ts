import type { JWTPayload } from 'jose';
import type { LoginFailureReason } from '../errors/login-failed.error.js';
import { untrustedText } from '../model/untrusted-text.js';
import type { KeySource } from '../options/key-source.js';
import type { LoginSettings } from '../options/tenant-settings.js';
import type { Problem } from './problem.interface.js';
import { describeFailure, type OAuthFailure } from './token-endpoint-problems.js';

/**
 * Who delivered a token: the provider, by a request of ours; or a browser or another client, which may have made it up.
 */
export type TokenDelivery = 'provider' | 'client';

export type TokenUse = 'id_token' | 'access_token' | 'logout_token';

export interface RefusedToken {
  use: TokenUse;
  delivery: TokenDelivery;
  /** Its header, which is not verified. */
  header: Record<string, unknown>;
  /** Claims, where the signature is valid. */
  payload?: JWTPayload | undefined;
}

/** Values of a list that are shown: audiences, names of claims. */
const MOST_SHOWN = 10;

const NAMES: Readonly<Record<TokenUse, string>> = {
  id_token: 'ID token',
  access_token: 'access token',
  logout_token: 'logout token',
};

/** A token is refused; `undefined` for refusals that no option causes. */
export function refusedToken(
  reason: LoginFailureReason,
  refused: RefusedToken,
  login: LoginSettings,
): Problem | undefined {
  const values = VALUES_BY_REASON[reason]?.(refused, login);
  if (values === undefined) {
    return undefined;
  }
  const { use, delivery, payload } = refused;
  return {
    cause: `${use} ${reason}`,
    message: `the ${NAMES[use]} is refused (${reason})`,
    // Claims are read only after the signature was verified: only the provider can choose them.
    isUnverified: delivery === 'client' && payload === undefined,
    ...values,
  };
}

type Values = Pick<Problem, 'options' | 'expected' | 'received'>;

const VALUES_BY_REASON: Readonly<
  Partial<Record<LoginFailureReason, (refused: RefusedToken, login: LoginSettings) => Values | undefined>>
> = {
  issuer: ({ payload }, { issuer }) => ({
    options: ['login.issuer'],
    expected: issuer,
    received: text(payload?.iss),
  }),
  audience: ({ use, payload = {} }, login) => ({
    ...AUDIENCE_BY_USE[use](login),
    received: `aud ${text(payload.aud)}, azp ${text(payload['azp'] ?? payload['client_id'])}`,
  }),
  algorithm: ({ header }, { algorithms }) => ({
    options: ['login.algorithms'],
    expected: `alg ${algorithms.join(', ')}`,
    received: `alg ${text(header['alg'])}`,
  }),
  signature: ({ header }, { keys }) => ({
    options: [keys === undefined ? 'login.discovery' : 'login.keys'],
    expected: describeKeys(keys),
    received: `kid ${text(header['kid'])}, alg ${text(header['alg'])}`,
  }),
  issued: timeValues,
  expired: timeValues,
  auth_time: ({ payload }, { maxAge }) => ({
    options: ['login.maxAge'],
    expected: `auth_time at most ${maxAge} s ago`,
    received: `auth_time ${text(payload?.['auth_time'])}`,
  }),
};

const ownAudience = ({ audience, clientId }: LoginSettings): Omit<Values, 'received'> => {
  const option = typeof audience === 'string' ? audience : audience?.idToken;
  return {
    options: [audience === undefined ? 'login.clientId' : 'login.audience'],
    expected: `aud ${text(option ?? clientId)}, azp ${text(clientId)}`,
  };
};

const AUDIENCE_BY_USE: Readonly<Record<TokenUse, (login: LoginSettings) => Omit<Values, 'received'>>> = {
  id_token: ownAudience,
  access_token: ({ audience, authorizedParties }) => ({
    options: ['login.audience.accessToken', 'login.authorizedParties'],
    expected: `aud ${text(typeof audience === 'object' ? audience.accessToken : undefined)}, azp ${text(authorizedParties)}`,
  }),
  logout_token: ({ clientId }) => ({ options: ['login.clientId'], expected: `aud ${text(clientId)}` }),
};

/** Clients send expired tokens all the time. */
function timeValues({ delivery, payload = {} }: RefusedToken): Values | undefined {
  if (delivery === 'client') {
    return undefined;
  }
  const { iat, nbf, exp } = payload;
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
    return value.slice(0, MOST_SHOWN).map(text).join(' or ');
  }
  return typeof value === 'string' || typeof value === 'number' ? String(value) : typeof value;
}

/** Neither the token nor userinfo has an address: the provider sends none to this client, or this account has none. */
export function missingEmail(emailClaim: string, claims: readonly string[]): Problem {
  return {
    cause: 'email_missing',
    options: ['login.scope', 'login.emailClaim'],
    message:
      'a user is refused (email_missing): neither the token nor userinfo has an address that can be looked up',
    expected: `claim ${emailClaim}, which the provider sends to this client`,
    received: `claims ${text(claims)}`,
  };
}

/** A callback without the cookie of any pending login. */
export function callbackWithoutCookie(): Problem {
  const message =
    'the callback is refused (state): it brought no login cookie; the login started on another host or in another browser, ' +
    'has expired or was finished before';
  return ofCallback('callback cookie', message, { options: ['login.redirectUri'] });
}

/** The parameter `iss` of an authorization response (RFC 9207) is missing or another one. */
export function wrongCallbackIssuer(issuer: string, received: string | undefined): Problem {
  return ofCallback('callback iss', 'the callback is refused (issuer): its parameter iss is not the issuer', {
    options: ['login.issuer'],
    expected: issuer,
    received: received ?? 'none',
  });
}

export function callbackError(failure: OAuthFailure): Problem {
  const message = `the callback received an error instead of a code: ${describeFailure(failure)}`;
  return ofCallback('callback error', message);
}

export function refusedCode(failure: OAuthFailure): Problem {
  return ofCallback('code', `the token endpoint refused a code: ${describeFailure(failure)}`);
}

/** A browser delivers a callback, so that anybody can cause these. */
function ofCallback(cause: string, message: string, values: Partial<Problem> = {}): Problem {
  return { cause, options: [], message, isUnverified: true, ...values };
}

/** The identity of a user is too large for its cookie, or for the memory of bearer tokens. The provider chooses the names of claims. */
export function claimsRemoved(tenantKey: string, claims: readonly string[]): string {
  const names = claims.slice(0, MOST_SHOWN).map((name) => untrustedText(name));
  const rest = claims.length - names.length;
  return (
    `tenant ${tenantKey}: the identity is too large to be kept; these claims were removed: ` +
    `${names.join(', ')}${rest > 0 ? ` and ${rest} more` : ''}. List the claims you need in login.keepClaims.`
  );
}
