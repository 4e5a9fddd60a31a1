import { beforeAll, describe, expect, it } from '@jest/globals';
import type { TenantOptions } from '../../lib/index.js';
import { clockOf } from '../support/clock.js';
import { HOST_KINDS, type Host } from '../support/host.js';
import { CLIENT_ID, type LoginOverrides, type ScriptedProvider } from '../support/provider.js';
import { changes, type Claims } from '../support/provider-script.js';
import { Visitor, type Reply } from '../support/visitor.js';
import { withProvider, type Given } from './hosts.js';
import { copyOf, identityOf, logIn, pendingLogins, toHost, toProvider, type Start } from './journey.js';

const SITE = 'https://host.example.com';
const LANDING = `${SITE}/bye?from=portal`;
const END: LoginOverrides = { endSession: true, postLogoutRedirectUri: LANDING };

let provider: ScriptedProvider;
const startAt = withProvider((started) => (provider = started));
const start = (login: LoginOverrides = END, given: Given = {}): Promise<Host> => startAt({ login, ...given });

/** Logs in; `claims` change the ID token. Answers that ID token. */
async function loggedIn(visitor: Visitor, host: Start, claims: Claims = {}): Promise<string> {
  let idToken = '';
  const change = (all: Claims): void => void Object.assign(all, claims);
  const write = (_payload: string, token: string): string => (idToken = token);
  provider.script = { ...provider.script, backToken: { claims: change, write } };
  expect((await logIn(visitor, host)).status).toBe(303);
  provider.script = {};
  return idToken;
}

const logOut = (visitor: Visitor, { url }: Start, headers: Record<string, string> = {}): Promise<Reply> =>
  visitor.visit(`${url}/auth/logout`, { method: 'POST', headers });

/** Where a logout leads at the provider; `undefined` where the handler ran. */
function endSessionOf(reply: Reply): Record<string, string> | undefined {
  expect(reply.status).toBe(303);
  const url = new URL(reply.location ?? '');
  if (url.origin !== provider.url) {
    expect(url.pathname).toBe('/');
    return undefined;
  }
  expect(url.pathname).toBe('/connect/endsession');
  return Object.fromEntries(url.searchParams);
}

const WITHOUT_HINT = { client_id: CLIENT_ID, post_logout_redirect_uri: LANDING };

const isLoggedIn = async (visitor: Visitor, host: Start): Promise<boolean> =>
  (await identityOf(visitor, host)) !== undefined;

const namesOf = (visitor: Visitor, { url }: Start): string[] =>
  [...visitor.cookies(new URL(url).hostname).keys()].filter((name) => name.includes('exhibitor-'));

describe.each(HOST_KINDS)('a logout at the provider, from %s', (kind) => {
  let host: Host;
  beforeAll(async () => {
    host = await start(END, { kind });
  });

  it('ends the login here first, and sends the ID token of the login', async () => {
    const visitor = new Visitor();
    const idToken = await loggedIn(visitor, host);
    const copy = copyOf(visitor, host);
    const reply = await logOut(visitor, host);
    expect(endSessionOf(reply)).toEqual({ id_token_hint: idToken, post_logout_redirect_uri: LANDING });
    expect(reply.headers.get('cache-control')).toBe('no-store');
    expect(reply.headers.get('referrer-policy')).toBe('no-referrer');
    expect(namesOf(visitor, host)).toEqual([]);
    expect([await isLoggedIn(visitor, host), await isLoggedIn(copy, host)]).toEqual([false, false]);
    // Nobody is logged in now: the handler runs, also for a copy of the cookies.
    expect(endSessionOf(await logOut(visitor, host))).toBeUndefined();
    expect(endSessionOf(await logOut(copy, host))).toBeUndefined();
  });

  it('sends client_id where the ID token is too large', async () => {
    const visitor = new Visitor();
    await loggedIn(visitor, host);
    const idToken = await loggedIn(visitor, host);
    expect(endSessionOf(await logOut(copyOf(visitor, host), host))).toMatchObject({ id_token_hint: idToken });
    await loggedIn(visitor, host, { filler: 'x'.repeat(1_000) });
    expect(namesOf(visitor, host)).not.toContain('exhibitor-id-token');
    expect(endSessionOf(await logOut(visitor, host))).toEqual(WITHOUT_HINT);
    // That of an earlier login was removed.
    const later = await loggedIn(visitor, host);
    expect(endSessionOf(await logOut(visitor, host))).toMatchObject({ id_token_hint: later });
  });
});

describe('a logout at the provider', () => {
  let host: Host;
  beforeAll(async () => {
    host = await start();
  });

  it('is none without endSession, and no ID token is kept', async () => {
    const plain = await start({ postLogoutRedirectUri: LANDING });
    const visitor = new Visitor();
    await loggedIn(visitor, plain);
    expect(namesOf(visitor, plain)).toEqual(['exhibitor-identity']);
    expect(endSessionOf(await logOut(visitor, plain))).toBeUndefined();
    expect(await isLoggedIn(visitor, plain)).toBe(false);
  });

  it('keeps no ID token of a login that fails, as one whose identity is too large', async () => {
    const visitor = new Visitor();
    const change = (all: Claims): void => void Object.assign(all, { sub: 'x'.repeat(5_000) });
    provider.script = { backToken: { claims: change } };
    const small = { jti: 'x' };
    expect((await logIn(visitor, host)).status).toBe(401);
    expect(namesOf(visitor, host)).toEqual([]);
    await loggedIn(visitor, host, small);
    expect(namesOf(visitor, host)).toContain('exhibitor-id-token');
  });

  it('needs no page to return to', async () => {
    const plain = await start({ endSession: true });
    const visitor = new Visitor();
    const idToken = await loggedIn(visitor, plain);
    expect(endSessionOf(await logOut(visitor, plain))).toEqual({ id_token_hint: idToken });
  });

  it('uses the end-session endpoint of the tenant, with its own parameters', async () => {
    const endpoints = { endSession: `${provider.url}/logout?realm=fairs` };
    const elsewhere = await startAt({}, (callback) => ({
      tenant: { ...provider.tenantOptions(callback, END), endpoints },
    }));
    const visitor = new Visitor();
    const idToken = await loggedIn(visitor, elsewhere);
    const { location = '' } = await logOut(visitor, elsewhere);
    expect(new URL(location).pathname).toBe('/logout');
    expect(Object.fromEntries(new URL(location).searchParams)).toEqual({
      realm: 'fairs',
      id_token_hint: idToken,
      post_logout_redirect_uri: LANDING,
    });
  });

  it('never sends the ID token of another login', async () => {
    const [one, two] = [new Visitor(), new Visitor()];
    await loggedIn(one, host);
    await loggedIn(two, host);
    const cookies = one.cookies('127.0.0.1');
    cookies.set('exhibitor-id-token', two.cookies('127.0.0.1').get('exhibitor-id-token') ?? '');
    expect(endSessionOf(await logOut(one, host))).toEqual(WITHOUT_HINT);
  });

  it.each(['', 'x', 'a.b.c.d.e', 'identity'])('ignores a cookie that does not open: %j', async (value) => {
    const visitor = new Visitor();
    await loggedIn(visitor, host);
    const cookies = visitor.cookies('127.0.0.1');
    // A value that was sealed for another purpose does not open either.
    cookies.set(
      'exhibitor-id-token',
      value === 'identity' ? (cookies.get('exhibitor-identity') ?? '') : value,
    );
    expect(endSessionOf(await logOut(visitor, host))).toEqual(WITHOUT_HINT);
  });

  it('is none for an identity that has expired, or that belongs to a former tenant or client', async () => {
    const visitor = new Visitor();
    await loggedIn(visitor, host);
    const other = await start({ ...END, clientId: 'other-web' }, { redirectUri: host.callback });
    expect(endSessionOf(await logOut(copyOf(visitor, host), other))).toBeUndefined();
    const own = await start(END, { redirectUri: host.callback });
    clockOf(own.app).skip(28_800_000);
    expect(endSessionOf(await logOut(copyOf(visitor, host), own))).toBeUndefined();
  });

  it('is not caused by another site', async () => {
    const visitor = new Visitor();
    await loggedIn(visitor, host);
    const headers: Record<string, string>[] = [
      { 'sec-fetch-site': 'cross-site' },
      { origin: 'https://evil.example' },
    ];
    for (const each of headers) {
      const reply = await logOut(visitor, host, each);
      expect([reply.status, reply.location, reply.setCookies]).toEqual([400, undefined, []]);
    }
    expect(await isLoggedIn(visitor, host)).toBe(true);
  });

  it('behind TLS has its cookie with __Host-, and takes none without', async () => {
    const behind = await start(END, { redirectUri: `${SITE}/auth/callback` });
    const [site, visitor] = [{ url: SITE }, new Visitor({ [SITE]: behind.url })];
    const idToken = await loggedIn(visitor, site);
    expect(namesOf(visitor, site).toSorted()).toEqual([
      '__Host-exhibitor-id-token',
      '__Host-exhibitor-identity',
    ]);
    const planted = copyOf(visitor, site, { [SITE]: behind.url });
    const cookies = planted.cookies('host.example.com');
    cookies.set('exhibitor-id-token', cookies.get('__Host-exhibitor-id-token') ?? '');
    cookies.delete('__Host-exhibitor-id-token');
    const another = copyOf(visitor, site, { [SITE]: behind.url });
    expect(endSessionOf(await logOut(planted, site))).toEqual(WITHOUT_HINT);
    expect(endSessionOf(await logOut(another, site))).toBeUndefined();
    const later = await loggedIn(another, site);
    expect(later).not.toBe(idToken);
    expect(endSessionOf(await logOut(another, site))).toMatchObject({ id_token_hint: later });
  });

  it('does not prevent the logout here where the tenant cannot be found', async () => {
    let find: (options: TenantOptions) => TenantOptions | undefined = (options) => options;
    const failing = await startAt({}, (callback) => ({
      tenants: { find: () => find(provider.tenantOptions(callback, END)) },
      allowedOrigins: () => true,
      resolveTenant: ({ url }) => (url.includes('/auth/login') ? 'acme' : undefined),
      tenantCache: { ttl: 1, staleIfError: 0 },
    }));
    const [visitor, later] = [new Visitor(), new Visitor()];
    const idToken = await loggedIn(visitor, failing);
    await loggedIn(later, failing);
    const copy = copyOf(later, failing);
    find = () => {
      throw new Error('the database is down');
    };
    // Its last options are known here, and serve.
    clockOf(failing.app).skip(1_000);
    const own = { 'sec-fetch-site': 'same-origin' };
    expect(endSessionOf(await logOut(visitor, failing, own))).toMatchObject({ id_token_hint: idToken });
    // In a process that never read them, the handler runs.
    const fresh = await startAt({}, () => ({
      tenants: { find: () => Promise.reject(new Error('the database is down')) },
      allowedOrigins: () => true,
    }));
    expect(endSessionOf(await logOut(later, fresh, own))).toBeUndefined();
    expect(namesOf(later, fresh)).toEqual([]);
    expect((await copy.visit(`${fresh.url}/me`)).status).not.toBe(200);
  });

  it('keeps all cookies below 7,000 bytes: the ID token goes before the newest login', async () => {
    const crowded = await start({ ...END, keepClaims: ['biography'] });
    const visitor = new Visitor();
    const bytes = (): number =>
      [...visitor.cookies('127.0.0.1')]
        .filter(([name]) => name.includes('exhibitor-'))
        .reduce((sum, [name, value]) => sum + Buffer.byteLength(`${name}=${value}; `), 0);
    provider.script = { email: 'userinfo', userinfo: changes({ biography: 'x'.repeat(1_690) }) };
    await loggedIn(visitor, crowded, { filler: 'x'.repeat(640) });
    const kept = visitor.cookies('127.0.0.1').get('exhibitor-id-token') ?? '';
    expect(kept.length).toBeGreaterThan(2_000);
    expect(bytes()).toBeGreaterThan(5_000);
    // A small login fits beside it, a large one does not.
    await toProvider(visitor, crowded);
    expect(namesOf(visitor, crowded)).toContain('exhibitor-id-token');
    const large = { returnTo: `/${'x'.repeat(510)}`, eventId: '"'.repeat(128) };
    const arrival = await toProvider(visitor, crowded, `?${new URLSearchParams(large)}`);
    expect(bytes()).toBeLessThan(7_000);
    expect(namesOf(visitor, crowded)).not.toContain('exhibitor-id-token');
    expect(pendingLogins(visitor, crowded).length).toBeGreaterThanOrEqual(1);
    const other = copyOf(visitor, crowded);
    expect(endSessionOf(await logOut(other, crowded))).toEqual(WITHOUT_HINT);
    expect((await toHost(visitor, arrival)).status).toBe(303);
    expect(bytes()).toBeLessThan(7_000);
  });
});

describe('the option postLogoutRedirectUri', () => {
  it.each(['http://host.example.com/', '/bye', 'https://host.example.com/#bye', 7])(
    'refuses %j',
    async (value) => {
      await expect(start({ endSession: true, postLogoutRedirectUri: value as string })).rejects.toThrow(
        'tenant.login.postLogoutRedirectUri',
      );
    },
  );
});
