import { beforeAll, describe, expect, it } from '@jest/globals';
import type { TenantOptions } from '../../lib/index.js';
import { clockOf } from '../support/clock.js';
import { HOST_KINDS, type Host } from '../support/host.js';
import { CLIENT_ID, type LoginOverrides, type ScriptedProvider } from '../support/provider.js';
import { says, set, type Claims } from '../support/provider-script.js';
import { Visitor, type Reply } from '../support/visitor.js';
import { withProvider, type Given } from './hosts.js';
import { copyOf, enter, expectRefusal, isLoggedIn, logIn, logOut, type Start } from './journey.js';

const SITE = 'https://host.example.com';
const LANDING = `${SITE}/bye?from=portal`;
const END: LoginOverrides = { endSession: true, postLogoutRedirectUri: LANDING };
const ID_TOKEN = 'exhibitor-id-token';

let provider: ScriptedProvider;
const startAt = withProvider((started) => (provider = started));
const start = (login: LoginOverrides = END, given: Given = {}): Promise<Host> => startAt({ login, ...given });

/** Logs in, with these claims of the ID token. Answers that ID token. */
async function loggedIn(visitor: Visitor, host: Start, claims: Claims = {}): Promise<string> {
  let idToken = '';
  const write = (_payload: string, token: string): string => (idToken = token);
  provider.script = { ...provider.script, backToken: { ...set(claims), write } };
  await enter(host, undefined, visitor);
  provider.script = {};
  return idToken;
}

/** A browser that is logged in, and its ID token. */
async function arriveAt(host: Start): Promise<{ visitor: Visitor; idToken: string }> {
  const visitor = new Visitor();
  return { visitor, idToken: await loggedIn(visitor, host) };
}

/** Where a logout leads at the provider; `undefined` where the handler ran. */
function endSessionOf(reply: Reply): Record<string, string> | undefined {
  expect(reply.status).toBe(303);
  const { origin, pathname, searchParams } = new URL(reply.location ?? '');
  const isAtProvider = origin === provider.url;
  expect(pathname).toBe(isAtProvider ? '/connect/endsession' : '/');
  return isAtProvider ? Object.fromEntries(searchParams) : undefined;
}

const leave = async (visitor: Visitor, host: Start, headers?: Record<string, string>): Promise<unknown> =>
  endSessionOf(await logOut(visitor, host, headers));

const withHint = (idToken: string) => ({ id_token_hint: idToken, post_logout_redirect_uri: LANDING });
const WITHOUT_HINT = { client_id: CLIENT_ID, post_logout_redirect_uri: LANDING };

const namesOf = (visitor: Visitor, { url }: Start): string[] =>
  [...visitor.cookies(new URL(url).hostname).keys()].filter((name) => name.includes('exhibitor-')).toSorted();

describe.each(HOST_KINDS)('a logout at the provider, from %s', (kind) => {
  it('ends the login here first, and sends the ID token of the login, or client_id where that is too large', async () => {
    const host = await start(END, { kind });
    const { visitor, idToken } = await arriveAt(host);
    const [copy, ended] = [copyOf(visitor, host), copyOf(visitor, host)];
    const reply = await logOut(visitor, host);
    expect(endSessionOf(reply)).toEqual(withHint(idToken));
    expect(reply.headers.get('cache-control')).toBe('private, no-store');
    expect(reply.headers.get('referrer-policy')).toBe('no-referrer');
    expect(namesOf(visitor, host)).toEqual([]);
    // Nobody is logged in now: the handler runs, also for a copy of the cookies.
    for (const each of [visitor, copy]) {
      expect(await isLoggedIn(each, host)).toBe(false);
      expect(await leave(each, host)).toBeUndefined();
    }
    // The ended login still tells the origin of this host, where a proxy changes `Host`.
    const again = await logOut(copyOf(ended, host), host, { origin: host.url, host: 'internal' });
    expect(again.status).toBe(303);
    const foreign = await logOut(ended, host, { origin: 'https://evil.example', host: 'evil.example' });
    expect(foreign.status).toBe(400);
    await loggedIn(visitor, host);
    // Identity, ID token and selection are 5,700 bytes at most.
    for (let filler = 100; visitor.cookies().has(ID_TOKEN); filler += 100) {
      expect(visitor.cookies().get(ID_TOKEN)?.length).toBeLessThanOrEqual(2_000);
      await loggedIn(visitor, host, { filler: 'x'.repeat(filler) });
    }
    expect(namesOf(visitor, host)).not.toContain(ID_TOKEN);
    expect(await leave(visitor, host)).toEqual(WITHOUT_HINT);
  });
});

describe.each(HOST_KINDS)('a logout at the provider, from %s, of a user who was idle', (kind) => {
  const ttl = 60_000;
  /** Of the module, or of the session of the host. */
  const forgetIdentity = (visitor: Visitor): void =>
    ['exhibitor-identity', 'connect.sid', 'sessionId'].forEach((name) => visitor.cookies().delete(name));
  let host: Host;
  beforeAll(async () => {
    const absoluteTtl = kind.includes('session') ? ttl : 10 * ttl;
    host = await start(END, { kind, cookies: { identityTtl: ttl, absoluteTtl } });
  });

  it.each<[what: string, become: (visitor: Visitor) => void, hasIdToken: boolean]>([
    ['whose identity has expired', () => clockOf(host.app).skip(2 * ttl), true],
    [
      'whose identity has expired, without an ID token',
      (visitor) => {
        clockOf(host.app).skip(2 * ttl);
        visitor.cookies().delete(ID_TOKEN);
      },
      false,
    ],
    ['of whom only the ID token is left', forgetIdentity, true],
  ])('%s, ends the session there too, and is caused by no other site', async (_what, become, hasIdToken) => {
    const { visitor, idToken } = await arriveAt(host);
    become(visitor);
    expect(await isLoggedIn(visitor, host)).toBe(false);
    for (const [name, value] of [
      ['origin', 'https://evil.example'],
      ['sec-fetch-site', 'cross-site'],
    ] as const) {
      const refused = await logOut(visitor, host, { [name]: value });
      expect([refused.status, refused.location]).toEqual([400, undefined]);
    }
    // Behind a proxy that changes `Host`, the origin is that of the redirectUri.
    const reply = await leave(visitor, host, { origin: host.url, host: 'internal' });
    expect(reply).toEqual(hasIdToken ? withHint(idToken) : WITHOUT_HINT);
    expect(namesOf(visitor, host).filter((name) => name.startsWith('exhibitor'))).toEqual([]);
    clockOf(host.app).back();
  });

  it('sends nothing without either, or with a copy of the ID token of a login that was logged out', async () => {
    expect(await leave(new Visitor(), host)).toBeUndefined();
    const { visitor } = await arriveAt(host);
    const [copy, rest] = [copyOf(visitor, host), copyOf(visitor, host)];
    forgetIdentity(rest);
    expect(await leave(rest, host)).toBeDefined();
    // It ended the login, although it brought no identity.
    expect(await isLoggedIn(copy, host)).toBe(false);
    forgetIdentity(visitor);
    expect(await leave(visitor, host)).toBeUndefined();
  });
});

describe('a logout at the provider', () => {
  let host: Host;
  beforeAll(async () => {
    host = await start();
  });

  it('is none without endSession, and no ID token is kept', async () => {
    const plain = await start({ postLogoutRedirectUri: LANDING });
    const { visitor } = await arriveAt(plain);
    expect(namesOf(visitor, plain)).toEqual(['exhibitor-identity']);
    expect(await leave(visitor, plain)).toBeUndefined();
    expect(await isLoggedIn(visitor, plain)).toBe(false);
  });

  it('keeps no ID token of a login that fails, as one whose subject is too long for its cookie', async () => {
    const visitor = new Visitor();
    provider.script = says({ sub: 'x'.repeat(5_000) });
    expectRefusal(await logIn(visitor, host), 'provider');
    expect(namesOf(visitor, host)).toEqual([]);
  });

  it('needs no page to return to, and uses the end-session endpoint of the tenant with its own parameters', async () => {
    const plain = await start({ endSession: true });
    const { visitor: one, idToken: first } = await arriveAt(plain);
    expect(await leave(one, plain)).toEqual({ id_token_hint: first });
    const endpoints = { endSession: `${provider.url}/logout?realm=fairs` };
    const elsewhere = await startAt({}, (callback) => ({
      tenant: { ...provider.tenantOptions(callback, END), endpoints },
    }));
    const { visitor, idToken } = await arriveAt(elsewhere);
    const { pathname, searchParams } = new URL((await logOut(visitor, elsewhere)).location ?? '');
    const sent = { realm: 'fairs', ...withHint(idToken) };
    expect([pathname, Object.fromEntries(searchParams)]).toEqual(['/logout', sent]);
  });

  it('sends no ID token of another login, and ignores a cookie that does not open', async () => {
    const { visitor: other } = await arriveAt(host);
    const ofOther = other.cookies().get(ID_TOKEN) ?? '';
    // A value that was sealed for another purpose does not open either.
    const identity = other.cookies().get('exhibitor-identity') ?? '';
    for (const value of [ofOther, identity, '', 'x', 'a.b.c.d.e']) {
      const { visitor } = await arriveAt(host);
      visitor.cookies().set(ID_TOKEN, value);
      expect(await leave(visitor, host)).toEqual(WITHOUT_HINT);
    }
  });

  it('is none for an identity or an ID token that belongs to a former tenant or client', async () => {
    for (const isAlone of [false, true]) {
      const { visitor } = await arriveAt(host);
      visitor.cookies().delete(isAlone ? 'exhibitor-identity' : 'none');
      const other = await start({ ...END, clientId: 'other-web' }, { redirectUri: host.callback });
      expect(await leave(visitor, other)).toBeUndefined();
    }
  });

  it('behind TLS has its cookie with __Host-, and takes none without', async () => {
    const behind = await start(END, { redirectUri: `${SITE}/auth/callback` });
    const [site, origins] = [{ url: SITE }, { [SITE]: behind.url }];
    const visitor = new Visitor(origins);
    const idToken = await loggedIn(visitor, site);
    expect(namesOf(visitor, site)).toEqual([`__Host-${ID_TOKEN}`, '__Host-exhibitor-identity']);
    const planted = copyOf(visitor, site, origins);
    const cookies = planted.cookies('host.example.com');
    cookies.set(ID_TOKEN, cookies.get(`__Host-${ID_TOKEN}`) ?? '');
    cookies.delete(`__Host-${ID_TOKEN}`);
    expect(await leave(planted, site)).toEqual(WITHOUT_HINT);
    expect(await leave(visitor, site)).toBeUndefined();
    const later = await loggedIn(visitor, site);
    expect(later).not.toBe(idToken);
    expect(await leave(visitor, site)).toEqual(withHint(later));
  });

  it('does not prevent the logout here where the tenant cannot be found', async () => {
    const own = { 'sec-fetch-site': 'same-origin' };
    const down = (): never => {
      throw new Error('the database is down');
    };
    let find: (options: TenantOptions) => TenantOptions = (options) => options;
    const startWith = (tenants: (options: TenantOptions) => TenantOptions): Promise<Host> =>
      startAt({}, (callback) => ({
        tenants: { find: () => tenants(provider.tenantOptions(callback, END)) },
        allowedOrigins: () => true,
        resolveTenant: ({ url }) => (url.includes('/auth/login') ? 'acme' : undefined),
        tenantCache: { ttl: 1, staleIfError: 0 },
      }));
    const failing = await startWith((options) => find(options));
    const [{ visitor, idToken }, { visitor: later }] = [await arriveAt(failing), await arriveAt(failing)];
    find = down;
    // Its last options are known here, and serve.
    clockOf(failing.app).skip(1_000);
    expect(await leave(visitor, failing, own)).toEqual(withHint(idToken));
    // In a process that never read them, the handler runs.
    const fresh = await startWith(down);
    expect(await leave(later, fresh, own)).toBeUndefined();
    expect(namesOf(later, fresh)).toEqual([]);
  });

  it.each(['http://host.example.com/', '/bye', 'https://host.example.com/#bye', 7])(
    'leads to no page %j: the host does not start',
    async (page) => {
      const login = { endSession: true, postLogoutRedirectUri: page as string };
      await expect(start(login)).rejects.toThrow('tenant.login.postLogoutRedirectUri');
    },
  );
});
