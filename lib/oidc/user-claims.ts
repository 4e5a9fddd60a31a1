export type Claims = Record<string, unknown>;

/** Claims that describe the token, not the user (RFC 7519 §4.1, OIDC Core §2). */
const PROTOCOL_CLAIMS = new Set([
  'iss',
  'aud',
  'exp',
  'iat',
  'nbf',
  'jti',
  'nonce',
  'azp',
  'at_hash',
  'c_hash',
  's_hash',
  'sid',
]);

/** Claims about one authentication. Only the ID token is bound to it. */
const AUTHENTICATION_CLAIMS = ['auth_time', 'acr', 'amr'];

/**
 * Claims of the user. Those of the token, which is signed, take precedence over userinfo; those about the authentication are
 * taken from it alone. `email_verified` is only taken from a source whose `email` is taken.
 */
export function userClaims(token: Claims, userinfo: Claims | undefined): Claims {
  const { email_verified: _ofSomeSource, ...merged }: Claims = { ...aboutPerson(userinfo), ...token };
  const flag = [token, userinfo].find(
    (claims) => claims?.['email'] === merged['email'] && claims?.['email_verified'] !== undefined,
  )?.['email_verified'];
  const claims = flag === undefined ? merged : { ...merged, email_verified: flag };
  return Object.fromEntries(Object.entries(claims).filter(([name]) => !PROTOCOL_CLAIMS.has(name)));
}

function aboutPerson(userinfo: Claims = {}): Claims {
  return Object.fromEntries(
    Object.entries(userinfo).filter(([name]) => !AUTHENTICATION_CLAIMS.includes(name)),
  );
}
