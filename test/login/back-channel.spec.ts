import { setTimeout as pause } from 'node:timers/promises';
import { randomUUID } from 'node:crypto';
import { afterEach, beforeAll, describe, expect, it, jest } from '@jest/globals';
import { Logger } from '@nestjs/common';
import {
  ExhibitorLogins,
  TokenValidator,
  type HttpOptions,
  type LoginsToEnd,
  type TenantOptions,
} from '../../lib/index.js';
import { MemoryStore } from '../store/memory-store.js';
import { clockOf } from '../support/clock.js';
import type { Host, HostKind } from '../support/host.js';
import { loggedLines } from '../support/logged-lines.js';
import { OperatorLines } from '../support/operator-lines.js';
import { CLIENT_ID, type LoginOverrides, type ScriptedProvider } from '../support/provider.js';
import { KEYS, sign, unsigned } from '../support/provider-keys.js';
import { answers, set, without, type Claims, type TokenChange } from '../support/provider-script.js';
import { Visitor, type Reply, type VisitOptions } from '../support/visitor.js';
import { withProvider } from './hosts.js';
import { arrive, copyOf, enter, expectRefusal, identityOf, isLoggedIn, toHost } from './journey.js';

const EVENT = 'http://schemas.openid.net/event/backchannel-logout';
const now = (): number => Math.floor(Date.now() / 1000);

let provider: ScriptedProvider;
let other: ScriptedProvider;
const start = withProvider((first, second) => ([provider, other] = [first, second]));
afterEach(() => void jest.restoreAllMocks());

/** A logout token of the provider for `pat`, changed as an ID token of it is. */
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

const send = ({ url }: Host, token: string, options: VisitOptions = {}): Promise<Reply> =>
  new Visitor().visit(`${url}/auth/backchannel-logout`, { form: { logout_token: token }, ...options });

function expectAnswered(reply: Reply, status: 200 | 400 | 503): void {
  expect([reply.status, reply.headers.get('cache-control')]).toEqual([status, 'no-store']);
  expect(reply.setCookies.filter((cookie) => cookie.startsWith('exhibitor'))).toEqual([]);
  const refusal = { error: 'invalid_request', error_description: expect.any(String) };
  expect(reply.text === '' ? '' : JSON.parse(reply.text)).toEqual(status === 400 ? refusal : '');
}

async function logOutBy(host: Host, change: TokenChange = {}, status: 200 | 400 | 503 = 200): Promise<void> {
  expectAnswered(await send(host, await logoutToken(change)), status);
}

/** A browser that is logged in, with these claims of the ID token. */
async function loggedIn(
  host: Host,
  claims: Claims = {},
  change: TokenChange = {},
  query?: string,
): Promise<Visitor> {
  provider.script = { backToken: { ...set(claims), ...change } };
  const visitor = await enter(host, query);
  provider.script = {};
  return visitor;
}

async function allLoggedIn(host: Host, ...logins: Claims[]): Promise<Visitor[]> {
  const visitors: Visitor[] = [];
  for (const claims of logins) {
    visitors.push(await loggedIn(host, claims));
  }
  return visitors;
}

const areLoggedIn = (host: Host, ...visitors: Visitor[]): Promise<boolean[]> =>
  Promise.all(visitors.map((visitor) => isLoggedIn(visitor, host)));

/** Claims of a logout token, and of logins before and after it. Times are counted from the start; the `sub` is that of the case. */
type Case = [
  what: string,
  token: Claims,
  ended: Claims[],
  kept: Claims[],
  endedLater: Claims[],
  keptLater: Claims[],
];
const [ONE, TWO, NONE] = [{ sid: 'one' }, { sid: 'two' }, {}];

const CASES: readonly Case[] = [
  ['of a user ends its earlier logins', {}, [{ iat: -9, sid: 'zero' }, NONE], [], [], [{ iat: 1 }]],
  ['ends no login that began after it', { iat: -6 }, [{ iat: -10 }], [{ iat: -5 }], [], []],
  // A session at the provider does not begin again, whatever the time of its tokens.
  [
    'of a session ends it, and logins without a session',
    ONE,
    [ONE, NONE],
    [TWO],
    [{ iat: 1, ...ONE }],
    [TWO],
  ],
  ['of a session alone ends it', { sid: 'three', sub: undefined }, [{ sid: 'three' }], [TWO, NONE], [], []],
];

describe.each<HostKind>(['express', 'fastify + @fastify/session'])('a back-channel logout on %s', (kind) => {
  let host: Host;
  let stranger: Visitor;
  beforeAll(async () => {
    host = await start({ kind });
    stranger = await loggedIn(host, { sub: 'zoe' });
  });

  it.each(CASES)('%s, and no other', async (_what, token, ended, kept, endedLater, keptLater) => {
    const [sub, began] = [randomUUID(), now()];
    const dated = ({ iat = 0, ...claims }: Claims): Claims => ({ sub, ...claims, iat: began + Number(iat) });
    const enterAll = (all: Claims[]): Promise<Visitor[]> => allLoggedIn(host, ...all.map(dated));
    const [out, stay] = [await enterAll(ended), [stranger, ...(await enterAll(kept))]];
    await logOutBy(host, set(dated(token)));
    out.push(...(await enterAll(endedLater)));
    stay.push(...(await enterAll(keptLater)));
    expect(await areLoggedIn(host, ...out)).toEqual(out.map(() => false));
    expect(await areLoggedIn(host, ...stay)).toEqual(stay.map(() => true));
    expect(await identityOf(stranger, host)).toMatchObject({ loggedInAt: expect.any(Number) });
  });
});

/** Its claims; the conformance table has more of what is checked in every token: times and signatures. */
const REFUSED: readonly [what: string, change: TokenChange][] = [
  ['another issuer', set({ iss: 'https://evil.example' })],
  ['no issuer', without('iss')],
  ['another audience', set({ aud: 'another-client' })],
  ['no audience', without('aud')],
  ['a second audience', set({ aud: [CLIENT_ID, 'another-client'] })],
  ['no iat', without('iat')],
  ['exp long ago', set({ iat: now() - 300, exp: now() - 60 })],
  ['no jti', without('jti')],
  ['an empty jti', set({ jti: '' })],
  ['no events', without('events')],
  ['events as a list', set({ events: [EVENT] })],
  ['another event', set({ events: { 'https://schemas.openid.net/event/backchannel-logout': {} } })],
  ['the event as null', set({ events: { [EVENT]: null } })],
  ['the event as a list', set({ events: { [EVENT]: [] } })],
  ['a nonce', set({ nonce: 'n' })],
  ['a nonce of null', set({ nonce: null })],
  ['neither sub nor sid', without('sub')],
  ['an empty sub', set({ sub: '' })],
  ['sub of null beside a sid', set({ sub: null, sid: 's' })],
  ['sid as a list', set({ sid: ['s'] })],
  ['the typ of an access token', { header: { typ: 'at+jwt' } }],
  ['alg none', { write: (payload) => unsigned(payload) }],
  ['the key of an attacker', { key: { ...KEYS.attacker, kid: KEYS.rs256.kid } }],
  ['a length beyond the limit', set({ filler: 'x'.repeat(17_000) })],
  ['no JWT', { write: () => 'no-jwt' }],
];

const ACCEPTED: readonly [what: string, change: TokenChange][] = [
  ['the typ JWT', { header: { typ: 'JWT' } }],
  ['no typ', { header: { typ: undefined } }],
  ['the typ application/logout+jwt', { header: { typ: 'application/logout+jwt' } }],
  ['another listed algorithm', { key: KEYS.es256 }],
  ['a list of one audience', set({ aud: [CLIENT_ID] })],
  ['further members of the event', set({ events: { [EVENT]: { reason: 'x' }, 'https://other': {} } })],
  ['claims of its own', set({ trace: 'x', nbf: now() - 1 })],
];

describe('a back-channel logout', () => {
  let host: Host;
  let stays: Visitor;
  const { warnings, errors } = loggedLines();
  beforeAll(async () => {
    host = await start();
    stays = await loggedIn(host, { sub: 'zoe', sid: 's' });
  });

  it.each(REFUSED)('refuses a token with %s, and tells the operator', async (_what, change) => {
    // A line of the same cause is logged once a minute.
    clockOf(host.app).skip(60_000, ['now']);
    const token = await logoutToken({
      ...change,
      claims: (all) => change.claims?.(Object.assign(all, { sub: 'zoe' })),
    });
    expectAnswered(await send(host, token), 400);
    expect([...warnings, ...errors]).toEqual([expect.stringMatching(/the logout token is refused \(\w+\)/)]);
    expect(await isLoggedIn(stays, host)).toBe(true);
  });

  it.each(ACCEPTED)('accepts a token with %s', async (_what, change) => {
    await logOutBy(host, change);
  });

  it('is kept as long as an identity may be extended, and a date that is set back revives none', async () => {
    const ahead = await start({ cookies: { identityTtl: 3_600_000, absoluteTtl: 28_800_000 } });
    const [visitor, clock] = [await loggedIn(ahead), clockOf(ahead.app)];
    clock.skip(2_400_000);
    expect((await visitor.visit(`${ahead.url}/me`)).setCookies).toHaveLength(1);
    const iat = now() + 2_400;
    await logOutBy(ahead, set({ iat, exp: iat + 120 }));
    for (const ms of [0, 28_800_000 - 2_460_000, 120_000]) {
      clock.skip(ms, ['now']);
      expect(await isLoggedIn(visitor, ahead)).toBe(false);
    }
    clock.back();
  });

  it('answers 400 where the keys of the provider cannot be fetched, and accepts the token later', async () => {
    const fetching = await start({ login: { keys: `${provider.url}/connect/jwks` } });
    const token = await logoutToken();
    provider.script = { keys: answers({}, 404) };
    expectAnswered(await send(fetching, token), 400);
    provider.script = {};
    clockOf(fetching.app).skip(31_000, ['now']);
    expectAnswered(await send(fetching, token), 200);
  });

  it.each(['express', 'fastify'] as const)(
    'on %s refuses a request that is no form with one logout_token',
    async (kind) => {
      const at = await start({ kind });
      const visitor = await loggedIn(at, { sid: 's' });
      const token = await logoutToken();
      const twice = new URLSearchParams(`logout_token=${token}&logout_token=${token}`);
      const url = `${at.url}/auth/backchannel-logout`;
      expectAnswered(await send(at, token, { form: twice }), 400);
      expectAnswered(await send(at, ''), 400);
      expectAnswered(await send(at, '', { form: { token } }), 400);
      expectAnswered(await new Visitor().visit(url, { method: 'POST' }), 400);
      expectAnswered(await new Visitor().visit(`${url}?logout_token=${token}`, { method: 'POST' }), 400);
      expect(await isLoggedIn(visitor, at)).toBe(true);
      expectAnswered(await send(at, token), 200);
      expect(await isLoggedIn(visitor, at)).toBe(false);
    },
  );

  it.each<[reason: string, change: TokenChange, line: RegExp]>([
    ['expired', without('exp'), /^tenant: .* nbf none, exp none'$/],
    ['token_type', { header: { typ: 'at+jwt' } }, /^tenant: .* received 'typ at\+jwt, claims events, jti'$/],
    ['token_type', without('events'), /^tenant: .* received 'typ logout\+jwt, claims jti'$/],
    ['token_type', without('jti'), /^tenant: .* received 'typ logout\+jwt, claims events'$/],
    ['nonce', set({ nonce: 'n' }), /^tenant: .* expected 'no nonce', received 'a nonce'$/],
    ['subject', without('sub'), /^tenant: .* received 'sub undefined, sid undefined'$/],
    ['subject', set({ sid: 7 }), /^tenant: .* received 'sub string, sid number'$/],
    ['signature', { key: KEYS.attacker }, /^tenant\.login\.keys: .* \(unverified: /],
    ['algorithm', { write: (text) => unsigned(text) }, /^tenant\.login\.algorithms: .* \(unverified: /],
  ])('that is refused (%s, %#) is a line for the operator', async (reason, change, line) => {
    clockOf(host.app).skip(60_000, ['now']);
    await logOutBy(host, change, 400);
    const lines = [...warnings, ...errors];
    expect(lines).toEqual([expect.stringMatching(line)]);
    expect(lines[0]).toContain(`the logout token is refused (${reason}); expected `);
  });
});

describe('the tenant of a back-channel logout', () => {
  const at = (tenant: string): VisitOptions => ({ headers: { 'x-tenant': tenant } });

  it('is the fixed one with the issuer and the audience of the token, whatever resolveTenant says', async () => {
    const host = await start({}, (callback) => ({
      tenants: {
        other: other.tenantOptions(callback),
        sibling: provider.tenantOptions(callback, { clientId: 'sibling-web' }),
        acme: provider.tenantOptions(callback),
        bearer: { ...provider.tenantOptions(callback), login: undefined },
      },
    }));
    const lines = new OperatorLines();
    host.app.useLogger(lines);
    const acme = '?tenant=acme';
    const visitors = [await loggedIn(host, {}, {}, acme), await loggedIn(host, { sub: 'zoe' }, {}, acme)];
    const unknown = await logoutToken(set({ aud: 'unknown' }));
    for (const request of [at('acme'), at('nobody'), {}]) {
      expectAnswered(await send(host, unknown, request), 400);
    }
    expect(lines.all.at(-1)).toMatch(/^tenants\.\*\.login\.issuer, .* for none of the tenants.* aud unknown/);
    expectAnswered(await send(host, await logoutToken({}, other)), 200);
    expectAnswered(await send(host, await logoutToken(set({ aud: 'sibling-web' })), at('acme')), 200);
    expect(await areLoggedIn(host, ...visitors)).toEqual([true, true]);
    expectAnswered(await send(host, await logoutToken(), at('sibling')), 200);
    expect(await areLoggedIn(host, ...visitors)).toEqual([false, true]);
    expectAnswered(await send(host, await logoutToken(set({ sub: 'zoe' })), at('nobody')), 200);
    expect(await areLoggedIn(host, ...visitors)).toEqual([false, false]);
  });

  it('of a source must be named; tenants that share a client end together, whichever is named', async () => {
    jest.spyOn(Logger.prototype, 'error').mockImplementation(() => undefined);
    const host = await start({}, (callback) => ({
      tenants: { find: (tenantId) => ({ ...provider.tenantOptions(callback), tenantId }) },
      allowedOrigins: () => true,
    }));
    const visitors = [await loggedIn(host, {}, {}, '?tenant=t0'), await loggedIn(host, {}, {}, '?tenant=t1')];
    expectAnswered(await send(host, await logoutToken()), 400);
    expect(await areLoggedIn(host, ...visitors)).toEqual([true, true]);
    expectAnswered(await send(host, await logoutToken(), at('t0')), 200);
    expect(await areLoggedIn(host, ...visitors)).toEqual([false, false]);
  });
});

describe('a tenant with the issuer and client of another', () => {
  const key = KEYS.attacker;
  let host: Host;
  beforeAll(async () => {
    host = await start({}, (callback) => ({
      tenants: {
        victim: provider.tenantOptions(callback),
        copy: provider.tenantOptions(callback, { keys: { keys: [key.jwk] }, clockTolerance: 600 }),
        both: provider.tenantOptions(callback, { keys: { keys: [key.jwk, KEYS.rs256.jwk] } }),
      },
    }));
  });

  type Tenant = 'victim' | 'copy' | 'both';
  const changeAt = (tenant: Tenant): TokenChange => (tenant === 'copy' ? { key } : {});
  const loggedInAt = (tenant: Tenant, claims: Claims): Promise<Visitor> =>
    loggedIn(host, claims, changeAt(tenant), `?tenant=${tenant}`);
  const logOutAt = async (tenant: Tenant, claims: Claims, named = tenant): Promise<void> => {
    const token = await logoutToken({ ...set(claims), ...changeAt(tenant) });
    expectAnswered(await send(host, token, { headers: { 'x-tenant': named } }), 200);
  };

  it('and keys of its own ends only its own logins, and those of tenants that have these keys, too', async () => {
    const [sub, sid] = [randomUUID(), randomUUID()];
    const visitors = [
      await loggedInAt('victim', { sub, sid }),
      await loggedInAt('victim', { sub }),
      await loggedInAt('copy', { sub }),
      await loggedInAt('both', { sub }),
    ];
    for (const claims of [{ sub }, { sub, sid }, { sub: undefined, sid }]) {
      await logOutAt('copy', claims);
      await logOutAt('copy', claims, 'victim');
    }
    expect(await areLoggedIn(host, ...visitors)).toEqual([true, true, false, false]);
  });

  it('and keys of its own locks nobody out', async () => {
    const [sub, jti] = [randomUUID(), randomUUID()];
    const visitor = await loggedInAt('victim', { sub });
    await logOutAt('copy', { sub, jti, iat: now() + 500, exp: now() + 900 });
    await logOutAt('victim', { sub, jti });
    expect(await isLoggedIn(visitor, host)).toBe(false);
    const later = { sub, iat: now() + 1 };
    const visitors = [await loggedInAt('victim', later), await loggedInAt('copy', later)];
    expect(await areLoggedIn(host, ...visitors)).toEqual([true, true]);
  });

  it('whose clock is ahead makes no login immune', async () => {
    const sub = randomUUID();
    const visitor = await loggedInAt('victim', { sub, iat: now() + 25 });
    const own = await loggedInAt('copy', { sub, iat: now() + 500 });
    expect((await identityOf(visitor, host))?.loggedInAt).toBeLessThanOrEqual(Date.now());
    await logOutAt('victim', { sub, iat: now() + 1 });
    await logOutAt('copy', { sub, iat: now() + 1 });
    expect(await areLoggedIn(host, visitor, own)).toEqual([false, false]);
  });
});

describe('a back-channel logout with several processes', () => {
  async function startBoth(): Promise<{ one: Host; two: Host; store: MemoryStore }> {
    const store = new MemoryStore();
    const shared = { store, logoutCheck: { ttl: 0 } };
    const one = await start(shared);
    return { one, two: await start({ redirectUri: one.callback, ...shared }), store };
  }

  it('holds in all of them', async () => {
    const { one, two, store } = await startBoth();
    const ofV = [{ sid: 'the session of v' }, { sid: 'v-2' }].map((claims) => ({ sub: 'v', ...claims }));
    const visitors = await allLoggedIn(one, { sub: 'u' }, ...ofV);
    const token = await logoutToken(set({ sub: 'u' }));
    expectAnswered(await send(two, token), 200);
    // The same once more changes nothing.
    expectAnswered(await send(one, token), 200);
    await logOutBy(two, set({ sub: 'v', sid: 'the session of v' }));
    // An older token that arrives at another process later takes nothing back.
    await logOutBy(one, set({ sub: 'u', iat: now() - 60 }));
    for (const host of [one, two]) {
      expect(await areLoggedIn(host, ...visitors)).toEqual([false, false, true]);
    }
    expect(store.dump).not.toContain('the session of v');
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
  const only = (...keys: (typeof KEYS.rs256)[]) => ({ keys: { keys: keys.map(({ jwk }) => jwk) } });

  it('whose keys cannot all be read: ends the logins of the others, then answers 400, so that the token is sent again', async () => {
    const store = new MemoryStore();
    const host = await start({ store, http: { attempts: 1 } }, (callback) => ({
      tenants: {
        known: provider.tenantOptions(callback, only(KEYS.rs256)),
        silent: provider.tenantOptions(callback, { keys: `${provider.url}/connect/jwks` }),
      },
    }));
    const visitor = await loggedIn(host, {}, {}, '?tenant=known');
    provider.script = { keys: answers({}, 404) };
    const get = store.get.bind(store);
    jest.spyOn(store, 'get').mockImplementation(async (key) => {
      await pause(200);
      return get(key);
    });
    await logOutBy(host, {}, 400);
    expect([...store.raw.keys()].filter((key) => key.includes(':ended-login:'))).toHaveLength(1);
    expect(await isLoggedIn(visitor, host)).toBe(false);
  });

  it.each<[option: string, strict: LoginOverrides, change: () => TokenChange]>([
    ['algorithms', { algorithms: ['ES256'] }, () => ({})],
    ['clockTolerance', { clockTolerance: 0 }, () => set({ iat: now() + 20 })],
  ])(
    'and keys, with other %s: a token that one of them accepts ends the logins of all, in any order',
    async (_option, strict, change) => {
      for (const order of [
        ['acme', 'strict'],
        ['strict', 'acme'],
      ]) {
        const host = await start({}, (callback) => ({
          tenants: Object.fromEntries(
            order.map((key) => [key, provider.tenantOptions(callback, key === 'strict' ? strict : {})]),
          ),
        }));
        const visitors = [
          await loggedIn(host, {}, {}, '?tenant=acme'),
          await loggedIn(host, {}, { key: KEYS.es256 }, '?tenant=strict'),
        ];
        await logOutBy(host, { ...change(), key: KEYS.attacker }, 400);
        expect(await areLoggedIn(host, ...visitors)).toEqual([true, true]);
        await logOutBy(host, change());
        expect(await areLoggedIn(host, ...visitors)).toEqual([false, false]);
      }
    },
  );

  it('and keys, of which one cannot connect: a token that the other one accepts ends the logins of both, in any order', async () => {
    const keys = `${provider.url}/connect/jwks`;
    for (const order of [
      ['acme', 'broken'],
      ['broken', 'acme'],
    ]) {
      let isBroken = false;
      const dispatcher: HttpOptions['dispatcher'] = ({ Agent, buildConnector }) => {
        const connect = buildConnector({});
        return new Agent({
          connect: (options, callback) =>
            isBroken
              ? callback(Object.assign(new Error('connect'), { code: 'ECONNREFUSED' }), null)
              : connect(options, callback),
          keepAliveTimeout: 1,
        });
      };
      const optionsOf = (callback: string, key: string): TenantOptions => ({
        ...provider.tenantOptions(callback, { keys }),
        ...(key === 'broken' && { http: { dispatcher } }),
      });
      const host = await start({ http: { attempts: 1 } }, (callback) => ({
        tenants: Object.fromEntries(order.map((key) => [key, optionsOf(callback, key)])),
      }));
      const visitors = [
        await loggedIn(host, {}, {}, '?tenant=acme'),
        await loggedIn(host, {}, {}, '?tenant=broken'),
      ];
      // Those that were read for the logins are old then.
      clockOf(host.app).skip(86_400_000, ['now']);
      isBroken = true;
      await logOutBy(host, { key: KEYS.attacker }, 400);
      expect(await areLoggedIn(host, ...visitors)).toEqual([true, true]);
      await logOutBy(host);
      expect(await areLoggedIn(host, ...visitors)).toEqual([false, false]);
    }
  });

  it('whose keys were changed in the options: the logins of before end, too', async () => {
    const shared = { store: new MemoryStore(), logoutCheck: { ttl: 0 } };
    const before = await start({ login: only(KEYS.rs256), ...shared });
    const login = only(KEYS.rs256, KEYS.next);
    const after = await start({ login, redirectUri: before.callback, ...shared });
    const visitors = await allLoggedIn(before, {}, { sub: 'zoe' });
    expect(await areLoggedIn(after, ...visitors)).toEqual([true, true]);
    await logOutBy(after);
    await after.app.get(ExhibitorLogins).end({ tenant: 'default', subject: 'zoe' });
    expect(await areLoggedIn(after, ...visitors)).toEqual([false, false]);
  });
});

describe('a logout token', () => {
  it('is no ID token and no access token, by whatever typ', async () => {
    const audience = { idToken: CLIENT_ID, accessToken: CLIENT_ID };
    const login = { audience, authorizedParties: [CLIENT_ID] };
    const host = await start({ login, session: ['cookie', 'bearer'] });
    const statusBy = async (token: string): Promise<number> =>
      (await new Visitor().visit(`${host.url}/me`, { headers: { authorization: `Bearer ${token}` } })).status;
    const validator = host.app.get(TokenValidator);
    const claims = { azp: CLIENT_ID, email: 'pat@example.com', email_verified: true };
    for (const header of [{}, { typ: 'JWT' }, { typ: undefined }]) {
      const token = await logoutToken({ header, ...set(claims) });
      for (const use of ['id_token', 'access_token'] as const) {
        await expect(validator.validate(token, { use })).rejects.toMatchObject({ reason: 'token_type' });
      }
      expect(await statusBy(token)).toBe(401);
    }
    // The control: without the event, and with another typ, both are accepted.
    const plain = await logoutToken({ header: { typ: 'JWT' }, ...set({ ...claims, events: undefined }) });
    for (const use of ['id_token', 'access_token'] as const) {
      expect(await validator.validate(plain, { use })).toMatchObject({ sub: 'pat' });
    }
    // Bearer tokens are not touched by a logout.
    await logOutBy(host);
    expect(await statusBy(plain)).toBe(200);
  });

  it('does not finish a login', async () => {
    const { visitor, arrival } = await arrive(await start());
    const nonce = provider.last('/connect/authorize').query.get('nonce');
    provider.script = { backToken: { write: () => logoutToken(set({ nonce })) } };
    expectRefusal(await toHost(visitor, arrival), 'token_type');
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
      expect(await areLoggedIn(host, visitor, copy, stays)).toEqual([false, false, true]);
    }
  });

  it('ends every login of a user so far, and no other; the user can log in again', async () => {
    const sub = randomUUID();
    const visitors = await allLoggedIn(one, { sub }, { sub, sid: 's' }, { sub: 'olga' });
    await end({ tenant: 'default', subject: sub }, two);
    expect(await areLoggedIn(one, ...visitors)).toEqual([false, false, true]);
    // The time of a login has whole seconds.
    clockOf(one.app).skip(2_000, ['epochMs']);
    expect(await isLoggedIn(await loggedIn(one, { sub, iat: now() + 1 }), one)).toBe(true);
    clockOf(one.app).back();
  });

  it.each<[what: string, given: object, isSource: boolean]>([
    ['of the options', {}, false],
    ['of a source, with a store', { store, logoutCheck: { ttl: 0 } }, true],
  ])(
    'ends logins of a user at one tenant %s alone, although another one has its registration',
    async (_what, given, isSource) => {
      const host = await start({ kind, ...given }, (callback) => {
        const find = (tenantId: string) => ({ ...provider.tenantOptions(callback), tenantId });
        const fixed: Record<string, TenantOptions> = { acme: find('acme'), globex: find('globex') };
        return { tenants: isSource ? { find } : fixed, allowedOrigins: () => true };
      });
      const sub = randomUUID();
      const [acme, globex] = [
        await loggedIn(host, { sub, sid: 's' }, {}, '?tenant=acme'),
        await loggedIn(host, { sub }, {}, '?tenant=globex'),
      ] as const;
      await end({ tenant: 'acme', subject: sub }, host);
      expect(await areLoggedIn(host, acme, globex)).toEqual([false, true]);
      // A logout at the provider serves all tenants of the registration.
      const token = await logoutToken(set({ sub }));
      expectAnswered(await send(host, token, { headers: { 'x-tenant': 'acme' } }), 200);
      expect(await areLoggedIn(host, globex)).toEqual([false]);
    },
  );

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
    const code = 'service_unavailable';
    await expect(end({ tenant: 'default', subject: 'mia' })).rejects.toMatchObject({ code });
    expect(await isLoggedIn(visitor, one)).toBe(false);
    store.failure = 'none';
  });
});
