import { untrustedText } from '../model/untrusted-text.js';
import type { Problem } from './problem.interface.js';
import { describeFailure, type OAuthFailure } from './token-endpoint-problems.js';

/** Values of a list that are shown: audiences, names of claims. */
const MOST_SHOWN = 10;

/** Neither the token nor userinfo has an address: the provider sends none to this client, or this account has none. */
export function missingEmail(emailClaim: string, claims: readonly string[]): Problem {
  return {
    cause: 'email_missing',
    options: ['login.scope', 'login.emailClaim'],
    message:
      'a user is refused (email_missing): neither the token nor userinfo has an address that can be looked up',
    expected: `claim ${emailClaim}, which the provider sends to this client`,
    received: `claims ${claims.slice(0, MOST_SHOWN).join(' or ')}`,
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
