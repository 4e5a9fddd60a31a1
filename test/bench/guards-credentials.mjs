/** The users of `guards.mjs` and what their requests carry, as one header line each. */
import { createPrivateKey, sign } from 'node:crypto';
import { readFileSync } from 'node:fs';
import { Sealer } from '../../dist/store/sealer.service.js';
import { Clock } from '../../dist/time/clock.js';

export const ISSUER = 'http://127.0.0.1/provider';
export const SECRET = 'a secret of the benchmark, of 32 characters or more';
export const PRIVATE_KEY = createPrivateKey(
  readFileSync(new URL('../support/keys/provider.pem', import.meta.url)),
);

const DAY = 86_400_000;
const sealer = new Sealer({ settings: { secrets: [SECRET] } }, new Clock());

/** Its cookie has 1.4 kB, as that of a provider with the usual claims. */
export function identityOf(user) {
  return {
    id: `login-${user}`.padEnd(43, '0'),
    issuer: ISSUER,
    subject: `subject-of-user-${user}`,
    email: 'ada.lovelace@example.com',
    claims: {
      name: 'Ada Lovelace',
      given_name: 'Ada',
      family_name: 'Lovelace',
      preferred_username: `ada-${user}`,
      organisation: 'Analytical Engines of London, Limited',
      roles: Array.from({ length: 12 }, (_, index) => `exhibitor:booth-staff:${index}`),
      auth_time: Math.floor(Date.now() / 1000),
    },
    tenant: 'default',
    tenantId: 'bench-tenant',
    clientId: 'bench-web',
    expiresAt: Date.now() + DAY,
  };
}

const headers = {
  host: (user) => `X-User: ${user}`,
  bearer: (user) => `Authorization: Bearer ${accessToken(user)}`,
  cookie: async (user) => {
    const content = { identity: identityOf(user), selections: [] };
    return `Cookie: exhibitor-identity=${await sealer.seal('identity', content, DAY)}`;
  },
  /** The host's own session: its login route sets the cookie. */
  async session(user, port) {
    const reply = await fetch(`http://127.0.0.1:${port}/login?user=${user}`);
    const cookies = reply.headers.getSetCookie().map((cookie) => cookie.split(';', 1)[0]);
    return `Cookie: ${cookies.join('; ')}`;
  },
};

/** Header lines of users `from` to `from + count`. */
export function credentials(kind, from, count, port) {
  return Promise.all(Array.from({ length: count }, (_, index) => headers[kind](from + index, port)));
}

function accessToken(user) {
  const now = Math.floor(Date.now() / 1000);
  const { subject, email, claims } = identityOf(user);
  const names = { iss: ISSUER, sub: subject, aud: 'bench-api', client_id: 'bench-web', email };
  return signedToken('at+jwt', { ...claims, ...names, iat: now, exp: now + DAY / 1000 });
}

export function signedToken(typ, claims) {
  const parts = [{ alg: 'RS256', typ }, claims];
  const signed = parts.map((part) => Buffer.from(JSON.stringify(part)).toString('base64url')).join('.');
  return `${signed}.${sign('sha256', Buffer.from(signed), PRIVATE_KEY).toString('base64url')}`;
}
