import { IncomingMessage } from 'node:http';
import { Socket } from 'node:net';
import { createHash, randomBytes, randomUUID } from 'node:crypto';
import { execFile } from 'node:child_process';
import { promisify } from 'node:util';
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it } from '@jest/globals';
import { Controller, Get, UseGuards, type Type } from '@nestjs/common';
import { decodeJwt, SignJWT, UnsecuredJWT, type JWTPayload } from 'jose';
import {
  CurrentExhibitors,
  ExhibitorLogins,
  TenantRegistry,
  TokenValidator,
  type Exhibitor,
  type ExhibitorGuard,
  type ExhibitorIdentity,
  type ExhibitorModuleOptions,
  type TenantOptions,
  type ValidateOptions,
} from '../../lib/index.js';
import { BearerIdentities } from '../../lib/login/bearer-identities.service.js';
import { bodyOf, idsOf, signIn } from '../nest/signed-in.js';
import { expectError, logOut } from './journey.js';
import { namedSnippets } from '../structure/readme.js';
import { BoothController } from '../support/booth.controller.js';
import { clockOf } from '../support/clock.js';
import { AUDIENCE, useFrontDoor } from '../support/front-door.js';
import { COOKIE_SECRET, startHost, type Host, type HostKind, type HostOptions } from '../support/host.js';
import type { OtherOptions, TenantsOption } from '../support/module-options.js';
import { OperatorLines } from '../support/operator-lines.js';
import { KEYS } from '../support/provider-keys.js';
import { loadSnippets } from '../support/snippets.js';
import { publicPemOf } from '../support/sandbox.js';
import { traced } from '../support/traced-requests.js';
import { Visitor, type Reply, type VisitOptions } from '../support/visitor.js';
import { eventually, pause } from '../support/wait.js';

const { sandbox, door } = await useFrontDoor();
const hosts: Host[] = [];
beforeEach(() => {
  sandbox.clearRequests();
  door.userinfoCalls.length = 0;
});
afterEach(() => hosts.forEach(({ app }) => clockOf(app).back()));
afterAll(() => Promise.all(hosts.map((host) => host.close())));

type Options = (
  redirectUri: string,
) => OtherOptions & { tenant?: TenantOptions | undefined; tenants?: TenantsOption };

/** A host with one tenant at the front door. */
async function start(
  own: Options = () => ({}),
  kind?: HostKind,
  { controllers, port }: Pick<HostOptions, 'controllers' | 'port'> = {},
): Promise<Host> {
  const host = await startHost({
    kind,
    controllers,
    port,
    options: (redirectUri) =>
      ({
        tenant: door.tenantOptions('acme', redirectUri),
        session: 'bearer',
        ...own(redirectUri),
      }) as ExhibitorModuleOptions,
  });
  hosts.push(host);
  return host;
}

/** A request that no guard sees. */
const requestWith = (headers: Record<string, string>): IncomingMessage =>
  Object.assign(new IncomingMessage(new Socket()), { headers });

const withBoth: Options = () => ({ session: ['cookie', 'bearer'], secrets: [COOKIE_SECRET] });

const visit = (host: Host, path: string, token?: string, options: VisitOptions = {}): Promise<Reply> =>
  new Visitor().visit(`${host.url}${path}`, {
    ...options,
    headers: { ...options.headers, ...(token === undefined ? {} : { authorization: `Bearer ${token}` }) },
  });

/** Mints a token that differs from all others. */
const mint = (claims: JWTPayload = {}): Promise<string> => door.mint({ jti: randomUUID(), ...claims });

const SAM = { sub: 'sam.several', email: 'sam.several@example.com' };

/** A token without an e-mail address, as most are, and the reply of userinfo. */
async function mintMailless(userinfo: Record<string, unknown> | number): Promise<string> {
  const token = await mint({ email: undefined });
  door.userinfo.set(token, userinfo);
  return token;
}

function expectRefused(reply: Reply, reason: string): void {
  expectError(reply, 401, 'login_failed', { error: 'Unauthorized', reason });
  expect(reply.headers.get('www-authenticate')).toBe('Bearer error="invalid_token"');
}

const now = (): number => Math.floor(Date.now() / 1000);
const AT = 'at+jwt';

const ACCEPTED: readonly [what: string, overrides: JWTPayload, typ: string][] = [
  ['without a typ, which not all providers set', {}, ''],
  ['of the typ application/at+jwt', {}, 'application/at+jwt'],
  ['with several audiences', { aud: ['other', AUDIENCE] }, AT],
  ['of another client that is allowed', { azp: 'portal-app' }, AT],
  ['that names its client as client_id', { azp: undefined, client_id: 'portal-app' }, AT],
  ['that names its client as cid', { azp: null, cid: 'portal-app' } as JWTPayload, AT],
  ['that names its client as appid', { azp: undefined, appid: 'portal-app' }, AT],
  ['whose azp is allowed, whatever the others', { client_id: 'x', cid: 'x', appid: 'x' }, AT],
  ['with its address as a list', { email: ['sam.several@example.com'], email_verified: ['True'] }, AT],
  ['with a nonce, where its typ says what it is', { nonce: 'x' }, AT],
  ['that expired within the tolerance', { exp: now() - 5 }, AT],
];

const REFUSED: readonly [reason: string, what: string, overrides: JWTPayload, typ: string][] = [
  ['issuer', 'of another issuer', { iss: 'https://evil.example' }, AT],
  ['issuer', 'without issuer', { iss: undefined }, AT],
  ['audience', 'for another audience', { aud: 'other-api' }, AT],
  ['audience', 'for the login client', { aud: 'acme-web' }, AT],
  ['audience', 'without audience', { aud: undefined }, AT],
  ['audience', 'of a client that is not allowed', { azp: 'stranger' }, AT],
  ['audience', 'of no client', { azp: undefined }, AT],
  ['audience', 'whose azp is not allowed, whatever the others', { azp: 'x', client_id: 'portal-app' }, AT],
  ['audience', 'whose cid is not allowed', { azp: undefined, cid: 'x', appid: 'portal-app' }, AT],
  ['audience', 'whose appid is not allowed', { azp: undefined, appid: 'x' }, AT],
  ['audience', 'whose client is a list', { azp: ['portal-app'] }, AT],
  ['audience', 'that is an ID token of a login', { aud: 'acme-web', azp: undefined, nonce: 'n' }, 'JWT'],
  ['subject', 'without subject', { sub: undefined }, AT],
  ['expired', 'that expired', { exp: now() - 60 }, AT],
  ['expired', 'without expiry', { exp: undefined }, AT],
  ['issued', 'from the future', { iat: now() + 3_600 }, AT],
  ['issued', 'not valid yet', { nbf: now() + 3_600 }, AT],
  ['token_type', 'that is an ID token for the same audience', { nonce: 'x' }, ''],
  ['token_type', 'that is an ID token by its typ JWT and at_hash', { at_hash: 'x' }, 'JWT'],
  ['email_unverified', 'with an unverified address', { email_verified: false }, AT],
  ['email_unverified', 'with an unverified address, as text', { email_verified: 'False' }, AT],
  ['email_unverified', 'with an unverified address, as a number', { email_verified: 0 }, AT],
];

describe("session: 'bearer'", () => {
  let host: Host;
  let minutes = 0;
  beforeAll(async () => {
    host = await start(() => ({ http: { attempts: 1 } }));
  });

  it('identifies a person by the access token of each request', async () => {
    const token = await mint();
    const me = await visit(host, '/me', token);
    expect([me.status, bodyOf(me)]).toEqual([
      200,
      {
        tenant: 'default',
        identity: {
          id: expect.any(String),
          issuer: sandbox.url,
          subject: 'sam.several',
          email: SAM.email,
          claims: SAM,
          tenant: 'default',
          tenantId: sandbox.tenantOptions('acme').tenantId,
          clientId: 'portal-spa',
          redirectUri: expect.any(String),
          expiresAt: expect.any(Number),
        },
      },
    ]);
    expect(me.setCookies).toEqual([]);
    const mine = await visit(host, '/events/world-2026/mine', token);
    expect(bodyOf<unknown[]>(mine)).toHaveLength(3);
    expect(mine.headers.get('cache-control')).toBe('private, no-store');
  });

  it('says who a request is outside of guards: a refused token is nobody', async () => {
    const identify = (authorization: string, upgrade = {}) =>
      host.app.get(ExhibitorLogins).identify(requestWith({ authorization, ...upgrade }));
    const token = await mint();
    expect(await identify(`Bearer ${token}`)).toMatchObject({
      subject: 'sam.several',
      clientId: 'portal-spa',
    });
    const expired = await door.mint({ iat: undefined, exp: now() - 60 });
    for (const refused of [
      '',
      'Bearer',
      'Bearer x',
      `Bearer ${token}x`,
      `Bearer ${expired}`,
      `Basic ${token}`,
    ]) {
      expect([refused, await identify(refused)]).toEqual([refused, undefined]);
    }
    const upgrade = 'websocket';
    expect(await identify(`Bearer ${token}`, { upgrade })).toBeDefined();
    expect(await identify(`Bearer ${token}`, { upgrade, origin: 'https://evil.example' })).toBeUndefined();
  });

  it('never sends the token of the user to the REST API', async () => {
    const token = await mint();
    expect((await visit(host, '/events/national-2026/mine', token)).status).toBe(200);
    expect((await visit(host, '/events/national-2026/exhibitors?page=1', token)).status).toBe(200);
    const rest = traced(sandbox).filter(({ path }) => path.startsWith('/api/'));
    expect(rest.map(({ operation }) => operation)).toEqual(['lookup', 'list']);
    for (const { tokenClaims } of rest) {
      expect(tokenClaims).toMatchObject({ client_id: 'acme-api', scope: 'idp_api' });
    }
    expect(JSON.stringify(sandbox.requests)).not.toContain(token);
  });

  it.each(ACCEPTED)('accepts a token %s', async (_what, overrides, typ) => {
    expect((await visit(host, '/me', await door.mint(overrides, { typ }))).status).toBe(200);
  });

  it.each(REFUSED)('refuses for the reason %s a token %s', async (reason, _what, overrides, typ) => {
    const reply = await visit(host, '/me', await door.mint(overrides, { typ }));
    expectRefused(reply, reason);
    expect(bodyOf(reply)['message']).toBe(`the token is refused: ${reason}`);
  });

  it.each<[reason: string, what: string, overrides: JWTPayload, typ: string, line: RegExp]>([
    [
      'token_type',
      'an ID token',
      { nonce: 'x', at_hash: 'x' },
      'JWT',
      /^tenant: .* 'typ JWT, claims nonce, at_hash'$/,
    ],
    [
      'audience',
      'a client in a list',
      { azp: ['portal-app'] },
      AT,
      /\.login\.authorizedParties: .* 'azp \["portal-app"\]'$/,
    ],
    [
      'audience',
      'a client by its appid',
      { azp: undefined, appid: 'x' },
      AT,
      /expected 'appid .* received 'appid x'$/,
    ],
    [
      'audience',
      'no client',
      { azp: undefined },
      AT,
      /expected 'azp portal-spa or portal-app', received 'azp none'$/,
    ],
    [
      'email_unverified',
      'a flag',
      { email_verified: 0 },
      AT,
      /^tenant: .* received 'token number 0, userinfo none'$/,
    ],
  ])('tells the operator why (%s) it refuses %s', async (reason, _what, overrides, typ, line) => {
    const lines = new OperatorLines();
    minutes += 1;
    clockOf(host.app).skip(minutes * 60_000, ['now']);
    host.app.useLogger(lines);
    expectRefused(await visit(host, '/me', await door.mint(overrides, { typ })), reason);
    expect(lines.all).toEqual([expect.stringMatching(line)]);
  });

  it('tells the operator nothing of tokens that have expired, which clients send all the time', async () => {
    const lines = new OperatorLines();
    host.app.useLogger(lines);
    expectRefused(await visit(host, '/me', await door.mint({ iat: undefined, exp: now() - 60 })), 'expired');
    expectRefused(await visit(host, '/me', await door.mint({ iat: now() + 60 })), 'issued');
    expect(lines.all).toEqual([]);
  });

  it('refuses a token that another key signed, no key or a MAC, that was changed, or that is none', async () => {
    const { privateKey } = KEYS.attacker;
    const [header, , signature] = (await door.mint()).split('.');
    const changed = Buffer.from(JSON.stringify(door.claims({ sub: 'mallory' }))).toString('base64url');
    const mac = new SignJWT(door.claims()).setProtectedHeader({ alg: 'HS256' });
    const lists = `{"alg":${'['.repeat(5_000)}${']'.repeat(5_000)}}`;
    const nested = `${Buffer.from(lists).toString('base64url')}.e30.y`;
    /** Claims that no serializer writes. */
    const written = (found: RegExp, text: string) => (claims: object) =>
      JSON.stringify(claims).replace(found, text);
    for (const [token, reason] of [
      [await door.mint({}, { privateKey }), 'signature'],
      [`${header}.${changed}.${signature}`, 'signature'],
      [new UnsecuredJWT(door.claims()).encode(), 'algorithm'],
      [await mac.sign(new TextEncoder().encode(publicPemOf(sandbox))), 'algorithm'],
      [await door.mint({}, { write: written(/"exp":\d+/, '"exp":1e999') }), 'expired'],
      [await door.mint({}, { write: written(/"iat":\d+/, '"iat":1e999') }), 'issued'],
      [
        await door.mint({}, { write: written(/^{/, `{"deep":${'['.repeat(200)}${']'.repeat(200)},`) }),
        'signature',
      ],
      ...['opaque', 'a.b', 'a.b.c', 'a.b.c.d.e', nested].map((none) => [none, 'signature']),
    ] as [string, string][]) {
      expectRefused(await visit(host, '/me', token), reason);
    }
  });

  it.each([undefined, '', 'Bearer', 'Bearer ', 'Basic dXNlcjpwYXNz', 'Bearer two tokens'])(
    'answers 401 and asks for a token where none is sent: %j',
    async (authorization) => {
      const headers: Record<string, string> = authorization === undefined ? {} : { authorization };
      // A token is read from the header only, not from the address.
      for (const path of [`/me?access_token=${await door.mint()}`, '/events/world-2026/mine']) {
        const reply = await visit(host, path, undefined, { headers });
        expectError(reply, 401, 'unauthenticated');
        expect(reply.headers.get('www-authenticate')).toBe('Bearer');
      }
    },
  );

  it('takes the e-mail address from userinfo where the token has none, with one request', async () => {
    const token = await mintMailless({ ...SAM, name: 'Sam' });
    const replies = await Promise.all(Array.from({ length: 25 }, () => visit(host, '/me', token)));
    for (const reply of replies) {
      expect(bodyOf(reply)['identity']).toMatchObject({ email: SAM.email, claims: { name: 'Sam' } });
    }
    expect(bodyOf<unknown[]>(await visit(host, '/events/world-2026/mine', token))).toHaveLength(3);
    expect(door.userinfoCalls).toEqual([token]);
  });

  it.each([
    ['subject', { ...SAM, sub: 'somebody.else' }],
    ['email_missing', { sub: 'sam.several' }],
    ['email_missing', { ...SAM, email: `x/../${SAM.email}` }],
    ['email_missing', { ...SAM, email: [SAM.email, 'x@example.com'] }],
    ['email_unverified', { ...SAM, email_verified: false }],
    ['email_unverified', { ...SAM, email_verified: [true, 'False'] }],
    ['provider', 401],
  ])('refuses for the reason %s when userinfo answers %j', async (reason, answer) => {
    expectRefused(await visit(host, '/me', await mintMailless(answer)), reason);
  });

  it('answers 503 while userinfo fails, and does not cache the failure', async () => {
    const token = await mintMailless(503);
    const reply = await visit(host, '/me', token);
    expectError(reply, 503, 'service_unavailable');
    expect(reply.headers.has('www-authenticate')).toBe(false);
    door.userinfo.set(token, SAM);
    expect((await visit(host, '/me', token)).status).toBe(200);
  });

  it('stores no selection: each request names the exhibitor', async () => {
    const token = await door.mint();
    const [{ id } = { id: '' }] = bodyOf<{ id: string }[]>(
      await visit(host, '/events/world-2026/mine', token),
    );
    const refused = await visit(host, '/events/world-2026/select', token, { form: { id } });
    const message = "a selection cannot be stored with session 'bearer': send exhibitorId with each request";
    expectError(refused, 400, 'invalid_argument', { message });
    expect(bodyOf(await visit(host, `/events/world-2026/booths/${id}`, token))['id']).toBe(id);
    const foreign = await visit(host, '/events/world-2026/booths/acme-world-2026-0001', token);
    expect(foreign.status).toBe(403);
  });

  it('ignores identity cookies and starts no login', async () => {
    const visitor = await signIn(sandbox, await start(withBoth));
    expect((await visitor.visit(`${host.url}/me`)).status).toBe(401);
    expect((await visit(host, '/auth/login')).status).toBe(500);
  });
});

it.each(['express', 'fastify'] as const)(
  "session: ['cookie', 'bearer'] on %s reads in this order, and a refused token hinders no logout",
  async (kind) => {
    const host = await start(withBoth, kind);
    const token = await door.mint();
    const visitor = await signIn(sandbox, host, 'olga.one');
    const both = { headers: { authorization: `Bearer ${token}` } };
    const identityBy = async (reply: Promise<Reply>): Promise<unknown> => bodyOf(await reply)['identity'];
    expect(await identityBy(visit(host, '/me', token))).toMatchObject({ clientId: 'portal-spa' });
    const me = await identityBy(visitor.visit(`${host.url}/me`, both));
    expect(me).toMatchObject({ subject: 'olga.one', clientId: 'acme-web' });
    expect((await logOut(visitor, host, { authorization: 'Bearer opaque' })).status).toBe(303);
    const after = await identityBy(visitor.visit(`${host.url}/me`, both));
    expect(after).toMatchObject({ subject: 'sam.several' });
    expect((await visit(host, '/me')).headers.get('www-authenticate')).toBe('Bearer');
    expectRefused(await visit(host, '/me', await door.mint({ aud: 'other' })), 'audience');
  },
);

it('a login outlasts a change of session where its place is still named, and counts again after a change back', async () => {
  const { port } = new URL((await start(withBoth)).url);
  const visitor = new Visitor();
  const statusAfter = async (
    session: ExhibitorModuleOptions['session'],
    kind?: HostKind,
  ): Promise<number> => {
    await hosts.pop()?.close();
    const own: Options = () => ({ session, secrets: [COOKIE_SECRET] });
    const host = await start(own, kind, { port: Number(port) });
    if (visitor.cookies().size === 0) {
      await signIn(sandbox, host, 'olga.one', {}, visitor);
    }
    return (await visitor.visit(`${host.url}/me`)).status;
  };
  expect(await statusAfter(['cookie'])).toBe(200);
  expect(await statusAfter(['bearer', 'cookie'])).toBe(200);
  expect(await statusAfter(['host'], 'express + express-session')).toBe(401);
  expect(await statusAfter(['cookie'])).toBe(200);
});

it('a bearer token has no selection of the browser beside it: each request names the exhibitor', async () => {
  const host = await start(withBoth);
  const visitor = await signIn(sandbox, host, 'sam.several');
  const booth = `${host.url}/events/world-2026/booth`;
  const [id = ''] = idsOf(sandbox, 'world-2026');
  await visitor.visit(`${host.url}/events/world-2026/select`, { form: { id } });
  expect(bodyOf(await visitor.visit(booth))['id']).toBe(id);
  const cookies = visitor.cookies('127.0.0.1');
  cookies.delete('exhibitor-identity');
  expect(cookies.has('exhibitor-selection')).toBe(true);
  const headers = { authorization: `Bearer ${await door.mint()}` };
  expectError(await visitor.visit(booth, { headers }), 409, 'exhibitor_not_selected');
  expect(bodyOf(await visitor.visit(`${booth}s/${id}`, { headers }))['id']).toBe(id);
});

describe("login.authorize with session: ['cookie', 'bearer']", () => {
  const asked: ExhibitorIdentity[] = [];
  let answer: (identity: ExhibitorIdentity) => boolean | Promise<boolean>;
  let host: Host;
  beforeAll(async () => {
    host = await start((redirectUri) => {
      const tenant = door.tenantOptions('acme', redirectUri);
      const authorize = (identity: ExhibitorIdentity): boolean | Promise<boolean> => {
        asked.push(identity);
        return answer(identity);
      };
      const login = { ...tenant.login, authorize, keepClaims: ['email'] } as typeof tenant.login;
      return { ...withBoth(redirectUri), tenant: { ...tenant, login } };
    });
  });
  beforeEach(() => {
    asked.length = 0;
    answer = () => true;
  });

  it('refuses a user also with an access token, and is asked once in 5 minutes for each token', async () => {
    answer = ({ subject }) => subject !== 'sam.several';
    const [refused, accepted] = [
      await mint(),
      await mint({ sub: 'olga.one', email: 'olga.one@example.com' }),
    ];
    for (let request = 0; request < 3; request += 1) {
      expectRefused(await visit(host, '/me', refused), 'not_authorized');
      expect((await visit(host, '/me', accepted)).status).toBe(200);
    }
    expect(asked).toHaveLength(2);
    answer = () => true;
    clockOf(host.app).skip(295_000, ['now']);
    expect((await visit(host, '/me', refused)).status).toBe(401);
    clockOf(host.app).skip(5_001, ['now']);
    expect((await visit(host, '/me', refused)).status).toBe(200);
    expect((await visit(host, '/me', accepted)).status).toBe(200);
    expect(asked).toHaveLength(4);
  });

  it('gets every claim, of which keepClaims keeps some, however large the others are', async () => {
    const groups = 'x'.repeat(200_000);
    const reply = await visit(host, '/me', await mintMailless({ ...SAM, groups }));
    expect(bodyOf(reply)['identity']).toMatchObject({ email: SAM.email, claims: { email: SAM.email } });
    expect(reply.text).not.toContain('groups');
    expect(asked[0]?.claims).toMatchObject({ groups });
  });

  it('that fails answers 500, and is asked again', async () => {
    const token = await mint();
    answer = () => Promise.reject(new Error('the directory is down'));
    expect((await visit(host, '/me', token)).status).toBe(500);
    answer = () => true;
    expect((await visit(host, '/me', token)).status).toBe(200);
  });
});

describe('verified tokens', () => {
  let identify: (token: string) => Promise<ExhibitorIdentity>;
  let identifyAtOther: typeof identify;
  beforeAll(async () => {
    const { app } = await start();
    const acme = await app.get(TenantRegistry).get('default');
    const identities = app.get(BearerIdentities, { strict: false });
    const other = acme.withoutState();
    identify = (token) => identities.identify(acme, token);
    identifyAtOther = (token) => identities.identify(other, token);
  });

  it('are verified 250 at a time for each tenant: more are refused for the moment, and those of others are not', async () => {
    const good = await mint();
    const flood = Promise.allSettled(Array.from({ length: 250 }, (_, index) => identify(`forged-${index}`)));
    await expect(identify(good)).rejects.toMatchObject({ code: 'service_unavailable' });
    expect(await identifyAtOther(good)).toMatchObject({ subject: 'sam.several' });
    expect((await flood).every(({ status }) => status === 'rejected')).toBe(true);
    expect(await identify(good)).toMatchObject({ subject: 'sam.several' });
  });

  it('are not pushed out by forged tokens, one after the other or all at once', async () => {
    const good = await mintMailless(SAM);
    await identify(good);
    const forged = await Promise.all(Array.from({ length: 60 }, () => door.mint({}, { kid: randomUUID() })));
    const refused = (token: string): Promise<void> =>
      expect(identify(token)).rejects.toMatchObject({ reason: 'signature' });
    await Promise.all(forged.slice(30).map(refused));
    for (const token of forged.slice(0, 30)) {
      await refused(token);
    }
    await identify(good);
    expect(door.userinfoCalls).toEqual([good]);
  });
});

it('a verification that requests share has at least the time of each: one that joins it late does not fail early', async () => {
  let asked = 0;
  const authorize = async () => {
    asked += 1;
    await pause(1_200);
    return true;
  };
  const host = await start(() => {
    const { login, ...tenant } = door.tenantOptions('acme');
    return { tenant: { ...tenant, http: { deadline: 900 }, login: { ...login, authorize } as never } };
  });
  const token = await mint();
  const first = visit(host, '/me', token);
  await eventually(() => asked === 1);
  await pause(500);
  const joined = visit(host, '/me', token);
  expectError(await first, 504, 'deadline_exceeded');
  expect([(await joined).status, asked]).toEqual([200, 1]);
});

describe("session: 'bearer' with tenants", () => {
  let host: Host;
  beforeAll(async () => {
    const { login, ...tenant } = door.tenantOptions('acme');
    const withLogin = (more: object): TenantOptions => ({
      ...tenant,
      login: { ...login, ...more } as typeof login,
    });
    host = await start(() => ({
      tenant: undefined,
      tenants: {
        acme: withLogin({}),
        globex: door.tenantOptions('globex'),
        strict: withLogin({ clockTolerance: 0 }),
        verified: withLogin({ requireVerifiedEmail: true }),
      },
      resolveTenant: ({ headers }) => String(headers['x-tenant']),
    }));
  });

  const at = (tenant: string, token: string): Promise<Reply> =>
    visit(host, '/me', token, { headers: { 'x-tenant': tenant } });

  it('does not remember a token after it expired', async () => {
    const token = await mint({ exp: now() + 30 });
    expect((await at('strict', token)).status).toBe(200);
    clockOf(host.app).skip(31_000);
    expectRefused(await at('strict', token), 'expired');
  });

  it('requires a verified address with requireVerifiedEmail', async () => {
    const unsaid = await mint();
    door.userinfo.set(unsaid, SAM);
    expectRefused(await at('verified', unsaid), 'email_unverified');
    expect((await at('verified', await mint({ email_verified: true }))).status).toBe(200);
  });

  it('remembers a token for its own tenant only', async () => {
    const token = await mintMailless(SAM);
    for (const tenant of ['acme', 'globex', 'acme']) {
      expect(bodyOf(await at(tenant, token))).toMatchObject({ tenant, identity: { tenant } });
    }
    expect(door.userinfoCalls).toEqual([token, token]);
  });
});

it('a tenant of a source whose options changed verifies a known token anew', async () => {
  const { login, ...tenant } = door.tenantOptions('acme');
  let more: object = {};
  const host = await start(
    () =>
      ({
        tenant: undefined,
        tenants: { find: () => ({ ...tenant, login: { ...login, ...more } }) },
        tenantCache: { ttl: 1 },
        allowedOrigins: () => true,
        resolveTenant: () => 'acme',
      }) as never,
  );
  const token = await mint();
  expect((await visit(host, '/me', token)).status).toBe(200);
  more = { authorize: () => false };
  await new Promise((resolve) => setTimeout(resolve, 20));
  expectRefused(await visit(host, '/me', token), 'not_authorized');
});

describe('TokenValidator', () => {
  let validator: TokenValidator;
  beforeAll(async () => {
    const { login: _, ...withoutLogin } = sandbox.tenantOptions('initech');
    const { app } = await start(() => ({
      tenant: undefined,
      tenants: {
        acme: door.tenantOptions('acme'),
        globex: sandbox.tenantOptions('globex'),
        initech: withoutLogin,
      },
      session: 'cookie',
      secrets: [COOKIE_SECRET],
    }));
    validator = app.get(TokenValidator);
  });

  const validate = (token: string, use: ValidateOptions['use'], options: Partial<ValidateOptions> = {}) =>
    validator.validate(token, { tenant: 'acme', use, ...options });
  const ID_TOKEN = { aud: 'acme-web', azp: undefined, nonce: 'the-nonce' };
  const nonce = 'the-nonce';

  it('returns the claims of an access token, and of an ID token with the nonce that was sent', async () => {
    const claims = await validate(await door.mint(), 'access_token');
    expect(claims).toEqual({ ...door.claims(), iat: expect.any(Number), exp: expect.any(Number) });
    const token = await door.mint(ID_TOKEN, { typ: 'JWT' });
    expect(await validate(token, 'id_token', { nonce })).toMatchObject({ aud: 'acme-web' });
    expect(await validate(token, 'id_token')).toMatchObject({ nonce });
    const failure = { code: 'login_failed', reason: 'nonce' };
    await expect(validate(token, 'id_token', { nonce: 'other' })).rejects.toMatchObject(failure);
  });

  it('refuses what is no text, as a query may have it', async () => {
    const token = await door.mint();
    for (const other of [undefined, null, [token], { token }] as unknown[]) {
      const refusal = expect.objectContaining({ code: 'login_failed', reason: 'signature' });
      await expect(validate(other as string, 'access_token')).rejects.toEqual(refusal);
    }
  });

  it('accepts the token of a tenant for this tenant only, and names the options a host has to set', async () => {
    const forLogin = await door.mint(ID_TOKEN);
    const login = { code: 'login_failed' };
    await expect(validate(forLogin, 'id_token', { tenant: 'globex' })).rejects.toMatchObject(login);
    const token = await door.mint();
    const missing = (path: string) => ({
      code: 'configuration_invalid',
      problems: [{ path, expected: expect.any(String) }],
    });
    for (const [tenant, failure] of [
      ['globex', { ...missing('login.audience.accessToken'), tenant: 'globex' }],
      ['initech', missing('login')],
      ['nobody', { code: 'unknown_tenant' }],
      [undefined, { code: 'tenant_required' }],
    ] as const) {
      await expect(validate(token, 'access_token', { tenant })).rejects.toMatchObject(failure);
    }
  });
});

describe('the access tokens that the sandbox grants to people', () => {
  it('are JWT for the API of a host where an application logs its users in as portal-app', async () => {
    sandbox.signInAs('sam.several');
    const verifier = randomBytes(32).toString('base64url');
    const own = { client_id: 'portal-app', redirect_uri: 'http://127.0.0.1:3999/app' };
    const request = new URLSearchParams({
      ...own,
      response_type: 'code',
      scope: 'openid profile',
      code_challenge: createHash('sha256').update(verifier).digest('base64url'),
      code_challenge_method: 'S256',
    });
    const { location = '' } = await new Visitor().visit(`${sandbox.url}/connect/authorize?${request}`);
    const code = new URL(location).searchParams.get('code') ?? '';
    const form = { ...own, grant_type: 'authorization_code', code, code_verifier: verifier };
    const reply = await new Visitor().visit(`${sandbox.url}/connect/token`, { form });
    const claims = decodeJwt(bodyOf<{ access_token: string }>(reply).access_token);
    const granted = { iss: sandbox.url, aud: 'portal-api', client_id: 'portal-app' };
    expect(claims).toMatchObject({ ...SAM, ...granted, email_verified: true });
    expect(Number(claims.exp) - Number(claims.iat)).toBe(3600);
  });

  it('give no access to the REST API', async () => {
    const authorization = `Bearer ${await sandbox.accessToken('sam.several')}`;
    const headers = { authorization, 'x-tenant-id': sandbox.tenantOptions('acme').tenantId };
    const list = `${sandbox.url}/api/v1/exhibitor/event/world-2026`;
    expect((await new Visitor().visit(list, { headers })).status).toBe(401);
  });

  describe('serve the host of docs/recipes.md', () => {
    let host: Host;
    beforeAll(async () => {
      const { portalOptions, TokenGuard } = await loadSnippets<{
        portalOptions(): ExhibitorModuleOptions;
        TokenGuard: Type<ExhibitorGuard>;
      }>('recipes.md', 'bearer-and-cookie', 'bearer-only');
      @Controller('api/events/:eventId')
      class ApiController {
        @Get('booths')
        @UseGuards(TokenGuard)
        booths(@CurrentExhibitors() exhibitors: Exhibitor[]): Exhibitor[] {
          return exhibitors;
        }
      }
      const options: Options = (redirectUri) => {
        const before = { ...process.env };
        Object.assign(process.env, sandbox.environment('acme', { redirectUri }));
        try {
          return { tenant: undefined, ...(portalOptions() as OtherOptions) };
        } finally {
          process.env = before;
        }
      };
      host = await start(options, 'express', { controllers: [BoothController, ApiController] });
    });

    it('which answers to its curl', async () => {
      const script = namedSnippets('docs/recipes.md', 'bearer-curl')[0];
      const command = 'npx nestjs-exhibitor sandbox --print-token ';
      expect(script).toContain(command);
      // What the command asks: it is run by test/package.
      const own = script
        .replace(command, `curl -s ${sandbox.url}/sandbox/token?person=`)
        .replaceAll('http://127.0.0.1:3000', host.url);
      const { stdout } = await promisify(execFile)('sh', ['-c', own]);
      expect(JSON.parse(stdout)).toHaveLength(1);
    });

    it('which knows a person by a token, and by a login', async () => {
      const me = bodyOf(await visit(host, '/me', await sandbox.accessToken('olga.one')));
      expect(me['identity']).toMatchObject({ email: 'olga.one@example.com', clientId: 'portal-app' });
      const visitor = await signIn(sandbox, host);
      expect(bodyOf(await visitor.visit(`${host.url}/events/world-2026/mine`))).toHaveLength(3);
    });

    it('whose TokenGuard takes tokens only, and says so to a person with a login', async () => {
      const visitor = await signIn(sandbox, host);
      const booths = `${host.url}/api/events/world-2026/booths`;
      const send = (authorization: string): Promise<Reply> =>
        visitor.visit(booths, { headers: { authorization } });
      const token = await sandbox.accessToken('olga.one');
      expect(bodyOf(await send(`bearer  ${token} `))).toHaveLength(1);
      for (const none of ['', 'Basic eDp5', 'Bearer', `Bearer ${token} x`, `Bearer ${token}\u00e9`]) {
        expectError(await send(none), 401, 'unauthenticated');
      }
      expectError(await visitor.visit(booths), 401, 'unauthenticated');
      expectRefused(await send('Bearer opaque'), 'signature');
    });

    it('which refuses people as a login would', async () => {
      const mine = async (person: string): Promise<Reply> =>
        visit(host, '/events/world-2026/mine', await sandbox.accessToken(person));
      expectRefused(await mine('uma.unverified'), 'email_unverified');
      expectError(await mine('nora.none'), 403, 'no_exhibitor');
    });
  });
});
