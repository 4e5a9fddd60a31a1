import { randomUUID } from 'node:crypto';
import { afterAll, afterEach, beforeAll, describe, expect, it, jest } from '@jest/globals';
import { Logger } from '@nestjs/common';
import { ExhibitorLogins, TokenValidator, type LoginsToEnd } from '../../lib/index.js';
import { MemoryStore } from '../store/memory-store.js';
import { clockOf } from '../support/clock.js';
import type { Host, HostKind } from '../support/host.js';
import { OperatorLines } from '../support/operator-lines.js';
import { CLIENT_ID, ScriptedProvider } from '../support/provider.js';
import { hmacSigned, KEYS, sign, signingKey, unsigned } from '../support/provider-keys.js';
import type { Claims, TokenChange } from '../support/provider-script.js';
import { Visitor, type Reply, type VisitOptions } from '../support/visitor.js';
import { withProvider } from './hosts.js';
import { copyOf, expectRefusal, identityOf, logIn, toHost, toProvider } from './journey.js';

const EVENT = 'http://schemas.openid.net/event/backchannel-logout';
const now = (): number => Math.floor(Date.now() / 1000);

let provider: ScriptedProvider;
let other: ScriptedProvider;
const start = withProvider((started) => (provider = started));
beforeAll(async () => {
  other = await ScriptedProvider.start();
});
afterEach(() => void jest.restoreAllMocks());
afterAll(() => other?.stop());

/** A logout token of the provider for `pat`, changed as a login token of the hostile provider is. */
async function logoutToken(change: TokenChange = {}, of = provider): Promise<string> {
  const claims: Claims = {
    iss: of.url,
    aud: CLIENT_ID,
    sub: 'pat',
    iat: now(),
    exp: now() + 120,
    jti: randomUUID(),
    events: { [EVENT]: {} },
  };
  change.claims?.(claims);
  const { write, key = of.key, header } = change;
  const token = await sign(JSON.stringify(claims), key, { typ: 'logout+jwt', ...header });
  return (await write?.(JSON.stringify(claims), token)) ?? token;
}

const set = (claims: Claims): TokenChange => ({ claims: (all) => void Object.assign(all, claims) });
const without = (...names: string[]): TokenChange => ({
  claims: (all) => names.forEach((name) => Reflect.deleteProperty(all, name)),
});

const send = ({ url }: Host, token: string, options: VisitOptions = {}): Promise<Reply> =>
  new Visitor().visit(`${url}/auth/backchannel-logout`, { form: { logout_token: token }, ...options });

/** A visitor who is logged in, with these claims of the ID token. */
async function loggedIn(host: Host, claims: Claims = {}, from = provider): Promise<Visitor> {
  const visitor = new Visitor();
  from.script = { backToken: set(claims) };
  expect((await logIn(visitor, host)).status).toBe(303);
  from.script = {};
  return visitor;
}

const isLoggedIn = async (visitor: Visitor, host: Host): Promise<boolean> =>
  (await identityOf(visitor, host)) !== undefined;

function expectAnswered(reply: Reply, status: 200 | 400 | 503): void {
  expect([reply.status, reply.headers.get('cache-control')]).toEqual([status, 'no-store']);
  expect(reply.setCookies.filter((cookie) => cookie.startsWith('exhibitor'))).toEqual([]);
  if (status !== 400) {
    expect(reply.text).toBe('');
  } else {
    const body: unknown = JSON.parse(reply.text);
    expect(body).toEqual({ error: 'invalid_request', error_description: expect.any(String) });
  }
}

describe.each<HostKind>(['express', 'fastify + @fastify/session'])('a back-channel logout on %s', (kind) => {
  let host: Host;
  beforeAll(async () => {
    host = await start({ kind });
  });

  it('of a user ends every earlier login of this user, and no other', async () => {
    const first = await loggedIn(host, { iat: now() - 9, sid: 'one' });
    const second = await loggedIn(host);
    const stranger = await loggedIn(host, { sub: 'zoe' });
    expectAnswered(await send(host, await logoutToken()), 200);
    expect(await isLoggedIn(first, host)).toBe(false);
    expect(await isLoggedIn(second, host)).toBe(false);
    expect(await isLoggedIn(stranger, host)).toBe(true);
    // Nobody is locked out: the next login began after the logout.
    expect(await isLoggedIn(await loggedIn(host, { iat: now() + 1 }), host)).toBe(true);
  });

  it('of a session ends the logins of this session, and no other', async () => {
    const sub = randomUUID();
    const [one, two] = [await loggedIn(host, { sub, sid: 'a-1' }), await loggedIn(host, { sub, sid: 'a-2' })];
    expect(await identityOf(one, host)).toMatchObject({ sid: 'a-1', loggedInAt: expect.any(Number) });
    expectAnswered(await send(host, await logoutToken(set({ sub, sid: 'a-1' }))), 200);
    expect([await isLoggedIn(one, host), await isLoggedIn(two, host)]).toEqual([false, true]);
    expectAnswered(await send(host, await logoutToken(set({ sub: undefined, sid: 'a-2' }))), 200);
    expect(await isLoggedIn(two, host)).toBe(false);
    // A session at the provider does not begin again, whatever the time of its tokens.
    const again = await loggedIn(host, { sub, sid: 'a-1', iat: now() + 1 });
    expect(await isLoggedIn(again, host)).toBe(false);
    expect(await isLoggedIn(await loggedIn(host, { sub, sid: 'a-3' }), host)).toBe(true);
  });
});

describe('a back-channel logout', () => {
  let host: Host;
  beforeAll(async () => {
    host = await start();
  });

  it('of a session ends the logins of this user that name no session, and not those of others', async () => {
    const sub = randomUUID();
    const [sessionless, stranger] = [await loggedIn(host, { sub }), await loggedIn(host, { sub: 'zoe' })];
    expectAnswered(await send(host, await logoutToken(set({ sub, sid: 'unknown' }))), 200);
    expect([await isLoggedIn(sessionless, host), await isLoggedIn(stranger, host)]).toEqual([false, true]);
  });

  it('ends no login that began after it, in whatever order the tokens arrive', async () => {
    const sub = randomUUID();
    const began = now() - 10;
    const visitor = await loggedIn(host, { sub, iat: began });
    expectAnswered(await send(host, await logoutToken(set({ sub, iat: began - 1 }))), 200);
    expect(await isLoggedIn(visitor, host)).toBe(true);
    expectAnswered(await send(host, await logoutToken(set({ sub, iat: began }))), 200);
    expect(await isLoggedIn(visitor, host)).toBe(false);
    expectAnswered(await send(host, await logoutToken(set({ sub, iat: began - 10 }))), 200);
    expect(await isLoggedIn(visitor, host)).toBe(false);
  });

  it.each([
    ['the typ JWT', { header: { typ: 'JWT' } }],
    ['no typ', { header: { typ: undefined } }],
    ['the typ application/logout+jwt', { header: { typ: 'application/logout+jwt' } }],
    ['another listed algorithm', { key: KEYS.es256 }],
    ['a list of one audience', set({ aud: [CLIENT_ID] })],
    ['further members of the event', set({ events: { [EVENT]: { reason: 'x' }, 'https://other': {} } })],
    ['claims of its own', set({ trace: 'x', nbf: now() - 1 })],
  ] satisfies [string, TokenChange][])('accepts a token with %s', async (_what, change) => {
    expectAnswered(await send(host, await logoutToken(change)), 200);
  });

  it('is kept as long as an identity may be extended, and a date that is set back revives none', async () => {
    const ahead = await start({ cookies: { identityTtl: 3_600_000, absoluteTtl: 28_800_000 } });
    const [visitor, clock] = [await loggedIn(ahead), clockOf(ahead.app)];
    clock.skip(2_400_000);
    expect((await visitor.visit(`${ahead.url}/me`)).setCookies).toHaveLength(1);
    const at = now() + 2_400;
    expectAnswered(await send(ahead, await logoutToken(set({ iat: at, exp: at + 120 }))), 200);
    expect(await isLoggedIn(visitor, ahead)).toBe(false);
    clock.skip(28_800_000 - 2_460_000, ['now']);
    expect(await isLoggedIn(visitor, ahead)).toBe(false);
    clock.skip(120_000, ['now']);
    expect(await isLoggedIn(visitor, ahead)).toBe(false);
    clock.back();
  });

  it('answers 400 where the keys of the provider cannot be fetched, and accepts the token later', async () => {
    const fetching = await start({ login: { keys: `${provider.url}/connect/jwks` } });
    const token = await logoutToken();
    provider.script = { keys: (reply) => ({ ...reply, status: 404 }) };
    expectAnswered(await send(fetching, token), 400);
    provider.script = {};
    clockOf(fetching.app).skip(31_000, ['now']);
    expectAnswered(await send(fetching, token), 200);
  });
});

const HMAC_KEY = KEYS.rs256.pem;
const REFUSED: readonly [what: string, change: TokenChange][] = [
  ['another issuer', set({ iss: 'https://evil.example' })],
  ['no issuer', without('iss')],
  ['another audience', set({ aud: 'another-client' })],
  ['no audience', without('aud')],
  ['a second audience', set({ aud: [CLIENT_ID, 'another-client'] })],
  ['an empty list of audiences', set({ aud: [] })],
  ['no iat', without('iat')],
  ['iat as text', set({ iat: String(now()) })],
  ['iat in the future', set({ iat: now() + 120 })],
  ['nbf in the future', set({ nbf: now() + 120 })],
  ['no exp', without('exp')],
  ['exp long ago', set({ iat: now() - 300, exp: now() - 60 })],
  ['no jti', without('jti')],
  ['an empty jti', set({ jti: '' })],
  ['jti as a number', set({ jti: 7 })],
  ['no events', without('events')],
  ['events as a list', set({ events: [EVENT] })],
  ['events as text', set({ events: EVENT })],
  ['another event', set({ events: { 'https://schemas.openid.net/event/backchannel-logout': {} } })],
  ['the event as text', set({ events: { [EVENT]: 'logout' } })],
  ['the event as true', set({ events: { [EVENT]: true } })],
  ['the event as null', set({ events: { [EVENT]: null } })],
  ['the event as a list', set({ events: { [EVENT]: [] } })],
  ['a nonce', set({ nonce: 'n' })],
  ['a nonce of null', set({ nonce: null })],
  ['neither sub nor sid', without('sub')],
  ['an empty sub', set({ sub: '' })],
  ['sub as a number', set({ sub: 7 })],
  ['sub of null beside a sid', set({ sub: null, sid: 's' })],
  ['sid as a list', set({ sid: ['s'] })],
  ['the typ of an access token', { header: { typ: 'at+jwt' } }],
  ['another typ', { header: { typ: 'secevent+jwt' } }],
  ['an algorithm that is not listed', { key: { ...signingKey('ES384'), kid: KEYS.es256.kid } }],
  ['alg none', { write: (payload) => unsigned(payload) }],
  ['HS256 with the public key', { write: (payload) => hmacSigned(payload, HMAC_KEY, KEYS.rs256.kid) }],
  ['the key of an attacker', { key: { ...KEYS.attacker, kid: KEYS.rs256.kid } }],
  ['a key in its own header', { key: KEYS.attacker, header: { jwk: KEYS.attacker.jwk } }],
  ['a changed payload', { write: (_, token) => token.replace(/\.e/, '.f') }],
  ['a length beyond the limit', set({ filler: 'x'.repeat(17_000) })],
  ['no JWT', { write: () => 'no-jwt' }],
];

describe('a back-channel logout', () => {
  let host: Host;
  let visitor: Visitor;
  beforeAll(async () => {
    host = await start();
    visitor = await loggedIn(host, { sid: 's' });
  });

  it.each(REFUSED)('refuses a token with %s', async (_what, change) => {
    expectAnswered(await send(host, await logoutToken(change)), 400);
    expect(await isLoggedIn(visitor, host)).toBe(true);
  });
});

describe.each(['express', 'fastify'] as const)('a back-channel logout on %s', (kind) => {
  it('refuses a request that is no form with one logout_token', async () => {
    const host = await start({ kind });
    const visitor = await loggedIn(host, { sid: 's' });
    const token = await logoutToken();
    const form = new URLSearchParams([
      ['logout_token', token],
      ['logout_token', token],
    ]);
    const url = `${host.url}/auth/backchannel-logout`;
    expectAnswered(await send(host, token, { form }), 400);
    expectAnswered(await send(host, '', {}), 400);
    expectAnswered(await new Visitor().visit(url, { form: { token } }), 400);
    expectAnswered(await new Visitor().visit(url, { method: 'POST' }), 400);
    expectAnswered(await new Visitor().visit(`${url}?logout_token=${token}`, { method: 'POST' }), 400);
    expect(await isLoggedIn(visitor, host)).toBe(true);
    // The control: the unchanged token is accepted.
    expectAnswered(await send(host, token), 200);
    expect(await isLoggedIn(visitor, host)).toBe(false);
  });
});

it('a refused logout token is reported to the operator, with the option', async () => {
  const host = await start();
  const lines = new OperatorLines();
  host.app.useLogger(lines);
  expectAnswered(await send(host, await logoutToken(set({ aud: 'another-client' }))), 400);
  expect(lines.all).toEqual([
    expect.stringMatching(
      /^tenant\.login\.clientId: the logout token is refused \(audience\).*aud another-client/,
    ),
  ]);
});

describe('the tenant of a back-channel logout', () => {
  let host: Host;
  beforeAll(async () => {
    host = await start({}, (callback) => ({
      tenants: {
        other: other.tenantOptions(callback),
        sibling: provider.tenantOptions(callback, { clientId: 'sibling-web' }),
        acme: provider.tenantOptions(callback),
        bearer: { ...provider.tenantOptions(callback), login: undefined },
      },
      resolveTenant: ({ url, headers }) =>
        url.includes('/auth/login') ? 'acme' : (headers['x-tenant'] as string | undefined),
    }));
  });

  it('is the fixed one with the issuer and the audience of the token', async () => {
    const [visitor, stays] = [await loggedIn(host), await loggedIn(host, { sub: 'zoe' })];
    expectAnswered(await send(host, await logoutToken({}, other)), 200);
    expect(await isLoggedIn(visitor, host)).toBe(true);
    expectAnswered(await send(host, await logoutToken(set({ aud: 'unknown' }))), 400);
    expectAnswered(await send(host, await logoutToken()), 200);
    expect([await isLoggedIn(visitor, host), await isLoggedIn(stays, host)]).toEqual([false, true]);
  });

  it('is found by issuer and audience, whatever resolveTenant says', async () => {
    const toTenant = async (tenant: string, change: TokenChange = {}): Promise<number> =>
      (await send(host, await logoutToken(change), { headers: { 'x-tenant': tenant } })).status;
    const visitor = await loggedIn(host);
    expect(await toTenant('sibling')).toBe(200);
    expect(await isLoggedIn(visitor, host)).toBe(false);
    expect(await toTenant('sibling', set({ aud: 'sibling-web' }))).toBe(200);
    expect(await toTenant('acme', set({ aud: 'unknown' }))).toBe(400);
    expect(await toTenant('nobody', set({ aud: 'unknown' }))).toBe(400);
    const another = await loggedIn(host);
    expect(await toTenant('nobody')).toBe(200);
    expect(await isLoggedIn(another, host)).toBe(false);
  });

  it('of a source must be named', async () => {
    jest.spyOn(Logger.prototype, 'error').mockImplementation(() => undefined);
    const source = await start({}, (callback) => ({
      tenants: { find: () => provider.tenantOptions(callback) },
      allowedOrigins: () => true,
      resolveTenant: ({ headers }) => headers['x-tenant'] as string | undefined,
    }));
    expectAnswered(await send(source, await logoutToken()), 400);
    expectAnswered(await send(source, await logoutToken(), { headers: { 'x-tenant': 'a' } }), 200);
  });
});

describe('a tenant with the issuer and client of another', () => {
  let host: Host;
  beforeAll(async () => {
    host = await start({}, (callback) => ({
      tenants: {
        victim: provider.tenantOptions(callback),
        sibling: provider.tenantOptions(callback),
        copy: provider.tenantOptions(callback, {
          keys: { keys: [KEYS.attacker.jwk] },
          clockTolerance: 600,
        }),
      },
      resolveTenant: ({ headers, query }) => (headers['x-tenant'] ?? query['tenant']) as string | undefined,
    }));
  });

  const key = KEYS.attacker;
  const enter = async (tenant: string, claims: Claims, change: TokenChange = {}): Promise<Visitor> => {
    const visitor = new Visitor();
    provider.script = { backToken: { ...set(claims), ...change } };
    expect((await logIn(visitor, host, `?tenant=${tenant}`)).status).toBe(303);
    provider.script = {};
    return visitor;
  };
  const logOutAt = async (tenant: string, claims: Claims, change: TokenChange = {}): Promise<number> => {
    const token = await logoutToken({ ...set(claims), ...change });
    return (await send(host, token, { headers: { 'x-tenant': tenant } })).status;
  };

  it('and keys of its own ends only its own logins', async () => {
    const [sub, sid] = [randomUUID(), randomUUID()];
    const victims = [
      await enter('victim', { sub, sid }),
      await enter('victim', { sub }),
      await enter('sibling', { sub }),
    ];
    const own = await enter('copy', { sub }, { key });
    for (const claims of [{ sub }, { sub, sid }, { sub: undefined, sid }]) {
      expect(await logOutAt('copy', claims, { key })).toBe(200);
      expect(await logOutAt('victim', claims, { key })).toBe(200);
    }
    expect(await Promise.all(victims.map((visitor) => isLoggedIn(visitor, host)))).toEqual([
      true,
      true,
      true,
    ]);
    expect(await isLoggedIn(own, host)).toBe(false);
  });

  it('and keys of its own locks nobody out', async () => {
    const [sub, jti] = [randomUUID(), randomUUID()];
    const visitor = await enter('victim', { sub });
    const ahead = { sub, jti, iat: now() + 500, exp: now() + 900 };
    expect(await logOutAt('copy', ahead, { key })).toBe(200);
    expect(await logOutAt('victim', { sub, jti })).toBe(200);
    expect(await isLoggedIn(visitor, host)).toBe(false);
    const later = [
      await enter('victim', { sub, iat: now() + 1 }),
      await enter('copy', { sub, iat: now() + 1 }, { key }),
    ];
    expect(await Promise.all(later.map((each) => isLoggedIn(each, host)))).toEqual([true, true]);
  });

  it('and the same keys has its single logout: one ends the logins of both', async () => {
    const [sub, sid] = [randomUUID(), randomUUID()];
    const visitors = [await enter('victim', { sub }), await enter('sibling', { sub, sid })];
    expect(await logOutAt('sibling', { sub })).toBe(200);
    expect(await Promise.all(visitors.map((visitor) => isLoggedIn(visitor, host)))).toEqual([false, false]);
  });

  it('whose clock is ahead makes no login immune', async () => {
    const sub = randomUUID();
    const [visitor, own] = [
      await enter('victim', { sub, iat: now() + 25 }),
      await enter('copy', { sub, iat: now() + 500 }, { key }),
    ];
    expect((await identityOf(visitor, host))?.loggedInAt).toBeLessThanOrEqual(Date.now());
    expect(await logOutAt('victim', { sub, iat: now() + 1 })).toBe(200);
    expect(await logOutAt('copy', { sub, iat: now() + 1 }, { key })).toBe(200);
    expect([await isLoggedIn(visitor, host), await isLoggedIn(own, host)]).toEqual([false, false]);
  });
});

describe('a back-channel logout with several processes', () => {
  async function startBoth(): Promise<{ one: Host; two: Host; store: MemoryStore }> {
    const store = new MemoryStore();
    const shared = { store, logoutCheck: { ttl: 0 } };
    const one = await start(shared);
    const two = await start({ redirectUri: one.callback, ...shared });
    return { one, two, store };
  }

  it('holds in all of them', async () => {
    const { one, two, store } = await startBoth();
    const [user, session, stays] = [
      await loggedIn(one, { sub: 'u' }),
      await loggedIn(one, { sub: 'v', sid: 'the session of v' }),
      await loggedIn(one, { sub: 'v', sid: 'v-2' }),
    ];
    const token = await logoutToken(set({ sub: 'u' }));
    expectAnswered(await send(two, token), 200);
    // The same once more changes nothing.
    expectAnswered(await send(one, token), 200);
    expectAnswered(await send(two, await logoutToken(set({ sub: 'v', sid: 'the session of v' }))), 200);
    for (const host of [one, two]) {
      expect([await isLoggedIn(user, host), await isLoggedIn(session, host)]).toEqual([false, false]);
      expect(await isLoggedIn(stays, host)).toBe(true);
    }
    expect(store.dump).not.toContain('the session of v');
    // An older token that arrives at another process later takes nothing back.
    expectAnswered(await send(one, await logoutToken(set({ sub: 'u', iat: now() - 60 }))), 200);
    expect(await isLoggedIn(user, two)).toBe(false);
  });

  it('answers 503 where the store did not take it, so that the provider sends it again', async () => {
    const { one, two, store } = await startBoth();
    const visitor = await loggedIn(one, { sub: 'w' });
    jest.spyOn(Logger.prototype, 'warn').mockImplementation(() => undefined);
    const token = await logoutToken(set({ sub: 'w' }));
    store.failure = 'rejects';
    expectAnswered(await send(one, token), 503);
    expect(await isLoggedIn(visitor, one)).toBe(false);
    store.failure = 'none';
    expect(await isLoggedIn(visitor, two)).toBe(true);
    clockOf(one.app).skip(6_000, ['now']);
    expectAnswered(await send(one, token), 200);
    expect(await isLoggedIn(visitor, two)).toBe(false);
    const times = [...store.raw].filter(([key]) => key.startsWith('nestjs-exhibitor:ended-login:'));
    expect(times.map(([, { value }]) => value)).toEqual([expect.stringMatching(/^\d{13}$/)]);
  });
});

describe('tenants of one issuer and client', () => {
  it('that are fixed and have different keys: a token ends the logins of those whose keys verify it', async () => {
    const host = await start({}, (callback) => ({
      tenants: {
        first: provider.tenantOptions(callback, { keys: { keys: [KEYS.rs256.jwk] } }),
        both: provider.tenantOptions(callback, { keys: { keys: [KEYS.rs256.jwk, KEYS.next.jwk] } }),
        next: provider.tenantOptions(callback, { keys: { keys: [KEYS.next.jwk] } }),
      },
      resolveTenant: ({ url, query }) =>
        url.includes('/auth/login') ? (query['tenant'] as string) : undefined,
    }));
    const enter = async (tenant: string, key: TokenChange['key']): Promise<Visitor> => {
      const visitor = new Visitor();
      provider.script = { backToken: key === undefined ? {} : { key } };
      expect((await logIn(visitor, host, `?tenant=${tenant}`)).status).toBe(303);
      provider.script = {};
      return visitor;
    };
    const visitors = [
      await enter('first', undefined),
      await enter('both', undefined),
      await enter('next', KEYS.next),
    ];
    const areLoggedIn = (): Promise<boolean[]> =>
      Promise.all(visitors.map((visitor) => isLoggedIn(visitor, host)));
    expectAnswered(await send(host, await logoutToken({ key: KEYS.attacker })), 400);
    expect(await areLoggedIn()).toEqual([true, true, true]);
    expectAnswered(await send(host, await logoutToken()), 200);
    expect(await areLoggedIn()).toEqual([false, false, true]);
    expectAnswered(await send(host, await logoutToken({ key: KEYS.next })), 200);
    expect(await areLoggedIn()).toEqual([false, false, false]);
  });

  it('whose keys cannot all be read: ends the logins of the others, and answers 400, so that the token is sent again', async () => {
    const host = await start({}, (callback) => ({
      tenants: {
        known: provider.tenantOptions(callback, { keys: { keys: [KEYS.rs256.jwk] } }),
        silent: provider.tenantOptions(callback, { keys: `${provider.url}/connect/jwks` }),
      },
      resolveTenant: () => 'known',
    }));
    const visitor = await loggedIn(host);
    provider.script = { keys: (reply) => ({ ...reply, status: 500 }) };
    expectAnswered(await send(host, await logoutToken()), 400);
    provider.script = {};
    expect(await isLoggedIn(visitor, host)).toBe(false);
  });

  it('whose keys were changed in the options: the logins of before end, too', async () => {
    const store = new MemoryStore();
    const shared = { store, logoutCheck: { ttl: 0 } };
    const before = await start({ login: { keys: { keys: [KEYS.rs256.jwk] } }, ...shared });
    const login = { keys: { keys: [KEYS.rs256.jwk, KEYS.next.jwk] } };
    const after = await start({ login, redirectUri: before.callback, ...shared });
    const visitor = await loggedIn(before);
    expect(await isLoggedIn(visitor, after)).toBe(true);
    expectAnswered(await send(after, await logoutToken()), 200);
    expect(await isLoggedIn(visitor, after)).toBe(false);
    const zoe = await loggedIn(before, { sub: 'zoe' });
    await after.app.get(ExhibitorLogins).end({ tenant: 'default', subject: 'zoe' });
    expect(await isLoggedIn(zoe, after)).toBe(false);
  });

  it('that are found at run time and share a client end together, whichever is named', async () => {
    const host = await start({}, (callback) => ({
      tenants: { find: (tenantKey) => ({ ...provider.tenantOptions(callback), tenantId: tenantKey }) },
      allowedOrigins: () => true,
      resolveTenant: ({ url, query, headers }) =>
        url.includes('/auth/login')
          ? (query['tenant'] as string)
          : (headers['x-tenant'] as string | undefined),
    }));
    const visitors = [new Visitor(), new Visitor()];
    for (const [at, visitor] of visitors.entries()) {
      expect((await logIn(visitor, host, `?tenant=t${at}`)).status).toBe(303);
    }
    expectAnswered(await send(host, await logoutToken(), { headers: { 'x-tenant': 't0' } }), 200);
    for (const visitor of visitors) {
      expect(await isLoggedIn(visitor, host)).toBe(false);
    }
  });
});

describe('a logout token', () => {
  it.each<[string, TokenChange]>([
    ['with its typ', {}],
    ['with the typ JWT', { header: { typ: 'JWT' } }],
    ['without a typ', { header: { typ: undefined } }],
  ])('%s is no ID token and no access token', async (_what, change) => {
    const audience = { idToken: CLIENT_ID, accessToken: CLIENT_ID };
    const login = { audience, authorizedParties: [CLIENT_ID] };
    const host = await start({ login, session: ['cookie', 'bearer'] });
    const claims = { azp: CLIENT_ID, email: 'pat@example.com', email_verified: true };
    const token = await logoutToken({ ...change, ...set(claims) });
    const validator = host.app.get(TokenValidator);
    for (const use of ['id_token', 'access_token'] as const) {
      await expect(validator.validate(token, { use })).rejects.toMatchObject({ reason: 'token_type' });
    }
    const bearer = { headers: { authorization: `Bearer ${token}` } };
    expect((await new Visitor().visit(`${host.url}/me`, bearer)).status).toBe(401);
    // The control: without the event, and with another typ, both are accepted.
    const plain = await logoutToken({
      header: { typ: 'JWT' },
      claims: (all) => {
        Object.assign(all, claims);
        delete all['events'];
      },
    });
    for (const use of ['id_token', 'access_token'] as const) {
      expect(await validator.validate(plain, { use })).toMatchObject({ sub: 'pat' });
    }
    // Bearer tokens are not touched by a logout.
    expectAnswered(await send(host, await logoutToken()), 200);
    const headers = { authorization: `Bearer ${plain}` };
    expect((await new Visitor().visit(`${host.url}/me`, { headers })).status).toBe(200);
  });

  it('does not finish a login', async () => {
    const host = await start();
    const visitor = new Visitor();
    const arrival = await toProvider(visitor, host);
    const copy = copyOf(visitor, host);
    const nonceOf = provider.last('/connect/authorize').query.get('nonce');
    provider.script = { backToken: { write: () => logoutToken(set({ nonce: nonceOf })) } };
    expectRefusal(await toHost(visitor, arrival), 'token_type');
    expect(await isLoggedIn(copy, host)).toBe(false);
  });
});

describe.each<HostKind>(['express', 'fastify + @fastify/session'])('ExhibitorLogins.end on %s', (kind) => {
  const store = new MemoryStore();
  const shared = { kind, store, logoutCheck: { ttl: 0 } };
  let one: Host;
  let two: Host;
  beforeAll(async () => {
    one = await start(shared);
    two = await start({ ...shared, redirectUri: one.callback });
  });

  const end = (logins: LoginsToEnd, host = one): Promise<void> => host.app.get(ExhibitorLogins).end(logins);

  it('ends one login by the id of its identity, with every copy, in every process', async () => {
    const [visitor, stays] = [await loggedIn(one), await loggedIn(one)];
    const copy = copyOf(visitor, one);
    await end({ id: (await identityOf(visitor, one))?.id ?? '' });
    // The session of a host is known in its own process.
    for (const host of kind.includes('session') ? [one] : [one, two]) {
      expect([await isLoggedIn(visitor, host), await isLoggedIn(copy, host)]).toEqual([false, false]);
      expect(await isLoggedIn(stays, host)).toBe(true);
    }
  });

  it('ends every login of a user so far, and no other; the user can log in again', async () => {
    const subject = randomUUID();
    const visitors = [await loggedIn(one, { sub: subject }), await loggedIn(one, { sub: subject, sid: 's' })];
    const olga = await loggedIn(one, { sub: 'olga' });
    await end({ tenant: 'default', subject }, two);
    for (const visitor of visitors) {
      expect(await isLoggedIn(visitor, one)).toBe(false);
    }
    expect(await isLoggedIn(olga, one)).toBe(true);
    // The time of a login has whole seconds.
    clockOf(one.app).skip(2_000, ['epochMs']);
    expect(await isLoggedIn(await loggedIn(one, { sub: subject, iat: now() + 1 }), one)).toBe(true);
    clockOf(one.app).back();
  });

  it('refuses what names no login, and a subject that nobody looks for', async () => {
    for (const [logins, code] of [
      [{ id: '' }, 'invalid_argument'],
      [{ id: 7 }, 'invalid_argument'],
      [{ tenant: 'default', subject: '' }, 'invalid_argument'],
      [{ tenant: 'nobody', subject: 'sam' }, 'unknown_tenant'],
    ] as [LoginsToEnd, string][]) {
      await expect(end(logins)).rejects.toMatchObject({ code });
    }
    const before = store.raw.size;
    // A host without a back-channel guard.
    const silent = await start({ ...shared, controllers: [], logoutCheck: { provider: false } });
    await expect(end({ tenant: 'default', subject: 'sam' }, silent)).rejects.toMatchObject({
      code: 'configuration_invalid',
      problems: [expect.objectContaining({ path: 'logoutCheck.provider' })],
    });
    expect(store.raw.size).toBe(before);
  });

  it('says where the store did not take the end of a user, which holds in this process', async () => {
    jest.spyOn(Logger.prototype, 'warn').mockImplementation(() => undefined);
    const visitor = await loggedIn(one, { sub: 'mia' });
    store.failure = 'rejects';
    await expect(end({ tenant: 'default', subject: 'mia' })).rejects.toMatchObject({
      code: 'service_unavailable',
    });
    expect(await isLoggedIn(visitor, one)).toBe(false);
    store.failure = 'none';
  });
});
