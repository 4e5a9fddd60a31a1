import { randomUUID } from 'node:crypto';
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it } from '@jest/globals';
import type { INestApplicationContext } from '@nestjs/common';
import { NestFactory } from '@nestjs/core';
import { generateKeyPair, SignJWT, UnsecuredJWT, type JWTPayload } from 'jose';
import {
  ExhibitorModule,
  TenantRegistry,
  TokenValidator,
  type ExhibitorIdentity,
  type TenantOptions,
  type ValidateOptions,
} from '../../lib/index.js';
import { BearerIdentities } from '../../lib/session/bearer-identities.service.js';
import type { ExhibitorSandbox } from '../../lib/testing/index.js';
import { bodyOf, signIn } from '../guards/signed-in.js';
import { COOKIE_SECRET, startHost, type Host } from '../support/host.js';
import { Visitor, type Reply } from '../support/visitor.js';
import { AUDIENCE, type FrontDoor, withFrontDoor } from '../support/front-door.js';
import { clockOf } from '../support/clock.js';
import type { OtherOptions } from '../support/module-options.js';
import { traced } from '../support/traced-requests.js';
import { publicPemOf } from '../support/sandbox.js';

let sandbox: ExhibitorSandbox;
let door: FrontDoor;
withFrontDoor((opened) => ({ sandbox, door } = opened));
beforeEach(() => {
  sandbox.clearRequests();
  door.userinfoCalls.length = 0;
});
afterEach(() => sandbox?.clearFaults());

const visit = (
  host: Host,
  path: string,
  token: string | undefined,
  form?: Record<string, string>,
): Promise<Reply> =>
  new Visitor().visit(`${host.url}${path}`, {
    headers: token === undefined ? {} : { authorization: `Bearer ${token}` },
    form,
  });

/** Claims of an access token without an e-mail address, as most are. */
const MAILLESS = { email: undefined };

describe("session: 'bearer'", () => {
  let host: Host;
  const start = (options: OtherOptions & { tenant?: TenantOptions } = {}): Promise<Host> =>
    startHost({
      options: (redirectUri) => ({
        tenant: door.tenantOptions('acme', redirectUri),
        session: 'bearer',
        http: { attempts: 1 },
        ...options,
      }),
    });
  beforeAll(async () => {
    host = await start();
  });
  afterAll(() => host?.close());

  it('identifies a person by the access token of each request', async () => {
    const token = await door.mint();
    const me = await visit(host, '/me', token);
    expect(me.status).toBe(200);
    expect(bodyOf(me)).toEqual({
      tenant: 'default',
      identity: {
        id: expect.any(String),
        issuer: sandbox.url,
        subject: 'sam.several',
        email: 'sam.several@example.com',
        claims: { sub: 'sam.several', email: 'sam.several@example.com' },
        tenant: 'default',
        tenantId: sandbox.tenantOptions('acme').tenantId,
        clientId: 'portal-spa',
        redirectUri: expect.any(String),
        expiresAt: expect.any(Number),
      },
    });
    expect(me.setCookies).toEqual([]);
    const mine = await visit(host, '/events/world-2026/mine', token);
    expect(bodyOf<unknown[]>(mine)).toHaveLength(3);
    expect(mine.headers.get('cache-control')).toBe('private, no-store');
  });

  it('never sends the token of the user to the REST API', async () => {
    const token = await door.mint({ jti: randomUUID() });
    expect((await visit(host, '/events/national-2026/mine', token)).status).toBe(200);
    expect((await visit(host, '/events/national-2026/exhibitors?page=1', token)).status).toBe(200);
    const rest = traced(sandbox).filter(({ path }) => path.startsWith('/api/'));
    expect(rest.map(({ operation }) => operation)).toEqual(['lookup', 'list']);
    for (const { tokenClaims, headers } of rest) {
      expect(tokenClaims).toMatchObject({ client_id: 'acme-api', scope: 'idp_api' });
      expect(headers.authorization).not.toContain(token);
    }
    expect(JSON.stringify(sandbox.requests)).not.toContain(token);
  });

  it.each([undefined, '', 'Bearer', 'Bearer ', 'Basic dXNlcjpwYXNz', 'Bearer two tokens'])(
    'answers 401 and asks for a token where none is sent: %j',
    async (authorization) => {
      for (const path of ['/me', '/events/world-2026/mine']) {
        const reply = await new Visitor().visit(`${host.url}${path}`, {
          headers: authorization === undefined ? {} : { authorization },
        });
        expect(reply.status).toBe(401);
        expect(reply.headers.get('www-authenticate')).toBe('Bearer');
        expect(bodyOf(reply)).toMatchObject({ statusCode: 401, code: 'unauthenticated' });
      }
    },
  );

  it('reads a token from the header only, not from the address', async () => {
    const reply = await visit(host, `/me?access_token=${await door.mint()}`, undefined);
    expect([reply.status, reply.headers.get('www-authenticate')]).toEqual([401, 'Bearer']);
  });

  it.each([
    ['expired', { exp: 1_700_000_000 }],
    ['issuer', { iss: 'https://evil.example' }],
    ['audience', { aud: 'other-api' }],
    ['audience', { azp: 'stranger' }],
    ['email_unverified', { email_verified: false }],
    ['email_unverified', { email_verified: 'false' }],
  ])('refuses a token for the reason %s: %j', async (reason, overrides) => {
    const reply = await visit(host, '/me', await door.mint(overrides));
    expect(reply.status).toBe(401);
    expect(reply.headers.get('www-authenticate')).toBe('Bearer error="invalid_token"');
    expect(bodyOf(reply)).toEqual({
      statusCode: 401,
      message: `the token is refused: ${reason}`,
      error: 'Unauthorized',
      code: 'login_failed',
      reason,
    });
  });

  it('refuses a token with an address, and a request with an event, that leads to another path', async () => {
    const sam = 'sam.several@example.com';
    for (const email of [`./${sam}`, `/${sam}`, `x/../${sam}`, `%252e%252e%252f${sam}`, `..;/${sam}`]) {
      const token = await door.mint({ email, jti: randomUUID() });
      door.userinfo.set(token, { sub: 'sam.several', email });
      const reply = await visit(host, '/events/world-2026/mine', token);
      expect([reply.status, bodyOf(reply)['reason']]).toEqual([401, 'email_missing']);
    }
    const token = await door.mint();
    for (const event of [
      '%2Fworld-2026',
      'world-2026%2F',
      'a%2F%2Fworld-2026',
      '..;%2Fworld-2026',
      '.%252Fworld-2026',
    ]) {
      const reply = await visit(host, `/events/${event}/mine`, token);
      expect([event, reply.status, bodyOf(reply)['code']]).toEqual([event, 400, 'invalid_argument']);
    }
    expect(sandbox.requests.filter(({ operation }) => operation === 'lookup')).toEqual([]);
  });

  it.each(['opaque', 'a.b.c'])('refuses a value that is not a token of the provider: %s', async (token) => {
    const reply = await visit(host, '/me', token);
    expect([reply.status, reply.headers.get('www-authenticate')]).toEqual([
      401,
      'Bearer error="invalid_token"',
    ]);
    expect(bodyOf(reply)).toMatchObject({ reason: 'signature' });
  });

  it('refuses an ID token although its signature is valid', async () => {
    const idToken = await door.mint({ aud: 'acme-web', azp: undefined, nonce: 'n' }, { typ: 'JWT' });
    expect(bodyOf(await visit(host, '/me', idToken))).toMatchObject({ reason: 'audience' });
  });

  it('takes the e-mail address from userinfo where the token has none, with one request', async () => {
    const token = await door.mint({ ...MAILLESS, jti: randomUUID() });
    door.userinfo.set(token, { sub: 'sam.several', email: 'sam.several@example.com', name: 'Sam' });
    const replies = await Promise.all(Array.from({ length: 25 }, () => visit(host, '/me', token)));
    for (const reply of replies) {
      expect(bodyOf(reply)['identity']).toMatchObject({
        email: 'sam.several@example.com',
        claims: { name: 'Sam' },
      });
    }
    expect(bodyOf<unknown[]>(await visit(host, '/events/world-2026/mine', token))).toHaveLength(3);
    expect(door.userinfoCalls).toEqual([token]);
  });

  it.each([
    ['subject', { sub: 'somebody.else', email: 'sam.several@example.com' }],
    ['email_missing', { sub: 'sam.several' }],
    ['email_unverified', { sub: 'sam.several', email: 'a@example.com', email_verified: false }],
    ['provider', 401],
  ])('refuses for the reason %s when userinfo answers %j', async (reason, answer) => {
    const token = await door.mint({ ...MAILLESS, jti: randomUUID() });
    door.userinfo.set(token, answer);
    const reply = await visit(host, '/me', token);
    expect([reply.status, bodyOf(reply)['reason']]).toEqual([401, reason]);
    expect(reply.headers.get('www-authenticate')).toBe('Bearer error="invalid_token"');
  });

  it('answers 503 while userinfo fails, and does not cache the failure', async () => {
    const token = await door.mint({ ...MAILLESS, jti: randomUUID() });
    door.userinfo.set(token, 503);
    const reply = await visit(host, '/me', token);
    expect([reply.status, bodyOf(reply)['code']]).toEqual([503, 'service_unavailable']);
    expect(reply.headers.has('www-authenticate')).toBe(false);
    door.userinfo.set(token, { sub: 'sam.several', email: 'sam.several@example.com' });
    expect((await visit(host, '/me', token)).status).toBe(200);
  });

  it('stores no selection: each request names the exhibitor', async () => {
    const token = await door.mint();
    const [first] = bodyOf<{ id: string }[]>(await visit(host, '/events/world-2026/mine', token));
    const refused = await visit(host, '/events/world-2026/select', token, { id: first?.id ?? '' });
    expect(refused.status).toBe(400);
    expect(bodyOf(refused)).toMatchObject({
      code: 'invalid_argument',
      message: "a selection cannot be stored with session 'bearer': send exhibitorId with each request",
    });
    const named = await visit(host, `/events/world-2026/booths/${first?.id}`, token);
    expect(bodyOf(named)['id']).toBe(first?.id);
    const foreign = await visit(host, '/events/world-2026/booths/acme-world-2026-0001', token);
    expect(foreign.status).toBe(403);
  });

  it('ignores identity cookies and starts no login', async () => {
    const byCookie = await startHost({
      options: (redirectUri) => ({
        tenant: door.tenantOptions('acme', redirectUri),
        session: ['cookie', 'bearer'],
        secrets: [COOKIE_SECRET],
      }),
    });
    const visitor = await signIn(sandbox, byCookie);
    await byCookie.close();
    expect((await visitor.visit(`${host.url}/me`)).status).toBe(401);
    const login = await visit(host, '/auth/login', undefined);
    expect(login.status).toBe(500);
  });
});

describe.each(['express', 'fastify'] as const)("session: ['cookie', 'bearer'] on %s", (kind) => {
  let host: Host;
  beforeAll(async () => {
    host = await startHost({
      kind,
      options: (redirectUri) => ({
        tenant: door.tenantOptions('acme', redirectUri),
        session: ['cookie', 'bearer'],
        secrets: [COOKIE_SECRET],
      }),
    });
  });
  afterAll(() => host?.close());

  it('identifies by cookie and by token', async () => {
    const visitor = await signIn(sandbox, host, 'olga.one');
    const byCookie = bodyOf(await visitor.visit(`${host.url}/me`));
    expect(byCookie['identity']).toMatchObject({ subject: 'olga.one', clientId: 'acme-web' });
    const byToken = bodyOf(await visit(host, '/me', await door.mint()));
    expect(byToken['identity']).toMatchObject({ subject: 'sam.several', clientId: 'portal-spa' });
  });

  it('reads in the order of the option: with both, the cookie counts', async () => {
    const visitor = await signIn(sandbox, host, 'olga.one');
    const authorization = `Bearer ${await door.mint()}`;
    const both = await visitor.visit(`${host.url}/me`, { headers: { authorization } });
    expect(bodyOf(both)['identity']).toMatchObject({ subject: 'olga.one' });
    await visitor.visit(`${host.url}/auth/logout`, { method: 'POST' });
    const after = await visitor.visit(`${host.url}/me`, { headers: { authorization } });
    expect(bodyOf(after)['identity']).toMatchObject({ subject: 'sam.several' });
  });

  it('sends WWW-Authenticate without a token, and with a refused one', async () => {
    const nobody = await visit(host, '/me', undefined);
    expect([nobody.status, nobody.headers.get('www-authenticate')]).toEqual([401, 'Bearer']);
    const refused = await visit(host, '/me', await door.mint({ aud: 'other' }));
    expect([refused.status, refused.headers.get('www-authenticate')]).toEqual([
      401,
      'Bearer error="invalid_token"',
    ]);
  });

  it('allows the logout although the token is refused', async () => {
    const headers = { authorization: 'Bearer opaque' };
    const done = await new Visitor().visit(`${host.url}/auth/logout`, { method: 'POST', headers });
    expect(done.status).toBe(303);
  });
});

describe("login.authorize with session: ['cookie', 'bearer']", () => {
  const asked: ExhibitorIdentity[] = [];
  let answer: (identity: ExhibitorIdentity) => boolean | Promise<boolean>;
  let host: Host;
  beforeAll(async () => {
    host = await startHost({
      options: (redirectUri) => {
        const tenant = door.tenantOptions('acme', redirectUri);
        const authorize = (identity: ExhibitorIdentity): boolean | Promise<boolean> => {
          asked.push(identity);
          return answer(identity);
        };
        const login = { ...tenant.login, authorize, keepClaims: ['email'] } as typeof tenant.login;
        return { tenant: { ...tenant, login }, session: ['cookie', 'bearer'], secrets: [COOKIE_SECRET] };
      },
    });
  });
  beforeEach(() => {
    asked.length = 0;
    answer = () => true;
  });
  afterAll(() => host?.close());

  it('refuses a user also with an access token, and is asked once for each token', async () => {
    answer = ({ subject }) => subject !== 'sam.several';
    const refused = await door.mint({ jti: randomUUID() });
    for (let request = 0; request < 3; request += 1) {
      const reply = await visit(host, '/me', refused);
      expect([reply.status, bodyOf(reply)['reason']]).toEqual([401, 'not_authorized']);
      expect(reply.headers.get('www-authenticate')).toBe('Bearer error="invalid_token"');
    }
    expect(asked).toHaveLength(1);
    const olga = { sub: 'olga.one', email: 'olga.one@example.com', jti: randomUUID() };
    const accepted = await door.mint(olga);
    expect((await visit(host, '/me', accepted)).status).toBe(200);
    expect((await visit(host, '/me', accepted)).status).toBe(200);
    expect(asked).toHaveLength(2);
    answer = () => true;
    expect((await visit(host, '/me', refused)).status).toBe(401);
    clockOf(host.app).skip(300_001, ['now']);
    expect((await visit(host, '/me', refused)).status).toBe(200);
    clockOf(host.app).back();
  });

  it('gets every claim, of which keepClaims keeps some', async () => {
    const token = await door.mint({ jti: randomUUID(), department: 'sales' });
    const { identity } = bodyOf<{ identity: ExhibitorIdentity }>(await visit(host, '/me', token));
    expect(identity.claims).toEqual({ email: 'sam.several@example.com' });
    expect(asked[0]?.claims).toMatchObject({ department: 'sales' });
  });

  it('that fails answers 503, and is asked again', async () => {
    const token = await door.mint({ jti: randomUUID() });
    answer = () => Promise.reject(new Error('the directory is down'));
    expect((await visit(host, '/me', token)).status).toBe(503);
    answer = () => true;
    expect((await visit(host, '/me', token)).status).toBe(200);
  });
});

describe('verified tokens', () => {
  const sam = { sub: 'sam.several', email: 'sam.several@example.com' };

  let host: Host;
  let identify: (tokens: readonly string[]) => Promise<ExhibitorIdentity[]>;
  beforeAll(async () => {
    host = await startHost({
      options: () => ({ tenant: door.tenantOptions('acme'), session: 'bearer' }),
    });
    const acme = await host.app.get(TenantRegistry).get('default');
    const identities = host.app.get(BearerIdentities, { strict: false });
    identify = (tokens) => Promise.all(tokens.map((token) => identities.identify(acme, token)));
  });
  afterEach(() => clockOf(host.app).back());
  afterAll(() => host?.close());

  const mint = (count: number): Promise<string[]> =>
    Promise.all(
      Array.from({ length: count }, async () => {
        const token = await door.mint({ ...MAILLESS, jti: randomUUID() });
        door.userinfo.set(token, { ...sam });
        return token;
      }),
    );

  it('are remembered by their digest', async () => {
    const tokens = await mint(50);
    const first = await identify(tokens);
    expect(await identify(tokens)).toEqual(first);
    expect(door.userinfoCalls).toHaveLength(50);
    expect(tokens.filter((token) => JSON.stringify(first).includes(token))).toEqual([]);
  });

  it('are verified again after 5 minutes', async () => {
    const tokens = await mint(1);
    await identify(tokens);
    clockOf(host.app).skip(299_000);
    await identify(tokens);
    expect(door.userinfoCalls).toHaveLength(1);
    clockOf(host.app).skip(1_001);
    await identify(tokens);
    expect(door.userinfoCalls).toHaveLength(2);
  });

  it('are verified 1,000 at a time: more are refused for the moment', async () => {
    const [good = ''] = await mint(1);
    const flood = Promise.allSettled(
      Array.from({ length: 1_000 }, (_, index) => identify([`forged-${index}`])),
    );
    await expect(identify([good])).rejects.toMatchObject({ code: 'service_unavailable' });
    expect((await flood).every(({ status }) => status === 'rejected')).toBe(true);
    await expect(identify([good])).resolves.toHaveLength(1);
  });

  it('are not pushed out by forged tokens, one after the other or all at once', async () => {
    const good = await mint(1);
    await identify(good);
    const forged = await Promise.all(Array.from({ length: 60 }, () => door.mint({}, { kid: randomUUID() })));
    const refused = (token: string): Promise<void> =>
      expect(identify([token])).rejects.toMatchObject({ reason: 'signature' });
    await Promise.all(forged.slice(30).map(refused));
    for (const token of forged.slice(0, 30)) {
      await refused(token);
    }
    await identify(good);
    expect(door.userinfoCalls).toEqual(good);
  });
});

/** What may differ between tenants. */
describe("session: 'bearer' with tenants", () => {
  let host: Host;
  beforeAll(async () => {
    const { login, ...tenant } = door.tenantOptions('acme');
    const withLogin = (more: object): TenantOptions => ({
      ...tenant,
      login: { ...login, ...more } as typeof login,
    });
    host = await startHost({
      options: () => ({
        tenants: {
          acme: withLogin({}),
          globex: door.tenantOptions('globex'),
          choosy: withLogin({ keepClaims: ['name'] }),
          strict: withLogin({ clockTolerance: 0 }),
          verified: withLogin({ requireVerifiedEmail: true }),
        },
        session: 'bearer',
        resolveTenant: ({ headers }) => String(headers['x-tenant']),
      }),
    });
  });
  afterEach(() => clockOf(host.app).back());
  afterAll(() => host?.close());

  const userinfo = { sub: 'sam.several', email: 'sam.several@example.com', name: 'Sam' };
  const at = (tenant: string, token: string): Promise<Reply> =>
    new Visitor().visit(`${host.url}/me`, {
      headers: { authorization: `Bearer ${token}`, 'x-tenant': tenant },
    });

  it('keeps the claims of the option keepClaims, however large the others are', async () => {
    const token = await door.mint({ ...MAILLESS, jti: randomUUID() });
    door.userinfo.set(token, { ...userinfo, groups: 'x'.repeat(200_000) });
    const { identity } = bodyOf<{ identity: ExhibitorIdentity }>(await at('choosy', token));
    expect([identity.email, identity.claims]).toEqual([userinfo.email, { name: 'Sam' }]);
  });

  it('does not remember a token after it expired', async () => {
    const token = await door.mint({ jti: randomUUID(), exp: Math.floor(Date.now() / 1000) + 30 });
    expect((await at('strict', token)).status).toBe(200);
    clockOf(host.app).skip(31_000);
    const late = await at('strict', token);
    expect([late.status, bodyOf(late)['reason']]).toEqual([401, 'expired']);
  });

  it('requires a verified address with requireVerifiedEmail', async () => {
    const token = await door.mint({ jti: randomUUID() });
    door.userinfo.set(token, userinfo);
    const unsaid = await at('verified', token);
    expect([unsaid.status, bodyOf(unsaid)['reason']]).toEqual([401, 'email_unverified']);
    const said = await at('verified', await door.mint({ jti: randomUUID(), email_verified: true }));
    expect(said.status).toBe(200);
  });

  it('remembers a token for its own tenant only', async () => {
    const token = await door.mint({ ...MAILLESS, jti: randomUUID() });
    door.userinfo.set(token, userinfo);
    for (const tenant of ['acme', 'globex', 'acme']) {
      expect(bodyOf(await at(tenant, token))).toMatchObject({ tenant, identity: { tenant } });
    }
    expect(door.userinfoCalls).toEqual([token, token]);
  });
});

let app: INestApplicationContext;
let validator: TokenValidator;
beforeAll(async () => {
  const { login: _, ...withoutLogin } = sandbox.tenantOptions('initech');
  app = await NestFactory.createApplicationContext(
    ExhibitorModule.forRoot({
      tenants: {
        acme: door.tenantOptions('acme'),
        globex: sandbox.tenantOptions('globex'),
        initech: withoutLogin,
      },
      secrets: [COOKIE_SECRET],
    }),
    { logger: false, abortOnError: false },
  );
  validator = app.get(TokenValidator);
});
afterAll(() => app?.close());

/** Claims that turn an access token into an ID token. */
const idToken = (overrides: JWTPayload = {}): JWTPayload => ({
  aud: 'acme-web',
  azp: undefined,
  nonce: 'the-nonce',
  ...overrides,
});

const validate = (token: string, use: ValidateOptions['use'], options: Partial<ValidateOptions> = {}) =>
  validator.validate(token, { tenant: 'acme', use, ...options });

describe('TokenValidator with access tokens', () => {
  it('returns the claims of a valid token', async () => {
    const claims = await validate(await door.mint(), 'access_token');
    expect(claims).toEqual(door.claims({ iat: expect.any(Number), exp: expect.any(Number) } as never));
  });

  it.each<[what: string, overrides: JWTPayload, typ: string]>([
    ['without a typ, which not all providers set', {}, ''],
    ['of the typ application/at+jwt', {}, 'application/at+jwt'],
    ['with several audiences', { aud: ['other', AUDIENCE] }, 'at+jwt'],
    ['of another client that is allowed', { azp: 'portal-app' }, 'at+jwt'],
    ['that names its client as client_id', { azp: undefined, client_id: 'portal-app' }, 'at+jwt'],
    ['with a nonce, where its typ says what it is', { nonce: 'x' }, 'at+jwt'],
    ['that expired within the tolerance', { exp: Math.floor(Date.now() / 1000) - 5 }, 'at+jwt'],
  ])('accepts a token %s', async (_, overrides, typ) => {
    const token = await door.mint(overrides, { typ });
    await expect(validate(token, 'access_token')).resolves.toMatchObject({ sub: 'sam.several' });
  });

  it.each<[reason: string, what: string, overrides: JWTPayload, typ: string]>([
    ['issuer', 'of another issuer', { iss: 'https://evil.example' }, 'at+jwt'],
    ['issuer', 'without issuer', { iss: undefined }, 'at+jwt'],
    ['audience', 'for another audience', { aud: 'other-api' }, 'at+jwt'],
    ['audience', 'for the login client', { aud: 'acme-web' }, 'at+jwt'],
    ['audience', 'without audience', { aud: undefined }, 'at+jwt'],
    ['audience', 'of a client that is not allowed', { azp: 'stranger' }, 'at+jwt'],
    ['audience', 'of no client', { azp: undefined }, 'at+jwt'],
    ['subject', 'without subject', { sub: undefined }, 'at+jwt'],
    ['expired', 'that expired', { exp: Math.floor(Date.now() / 1000) - 60 }, 'at+jwt'],
    ['expired', 'without expiry', { exp: undefined }, 'at+jwt'],
    ['issued', 'from the future', { iat: Math.floor(Date.now() / 1000) + 3_600 }, 'at+jwt'],
    ['issued', 'not valid yet', { nbf: Math.floor(Date.now() / 1000) + 3_600 }, 'at+jwt'],
    ['token_type', 'that is an ID token for the same audience', { nonce: 'x' }, ''],
    ['token_type', 'that is an ID token by its typ JWT and at_hash', { at_hash: 'x' }, 'JWT'],
  ])('refuses for the reason %s a token %s', async (reason, _, overrides, typ) => {
    const token = await door.mint(overrides, { typ });
    await expect(validate(token, 'access_token')).rejects.toMatchObject({ code: 'login_failed', reason });
  });

  it('refuses every ID token of a login', async () => {
    const token = await door.mint(idToken(), { typ: '' });
    await expect(validate(token, 'id_token', { nonce: 'the-nonce' })).resolves.toBeDefined();
    await expect(validate(token, 'access_token')).rejects.toMatchObject({ reason: 'audience' });
  });
});

describe('TokenValidator with ID tokens', () => {
  it('returns the claims of a valid token', async () => {
    const token = await door.mint(idToken(), { typ: 'JWT' });
    expect(await validate(token, 'id_token', { nonce: 'the-nonce' })).toMatchObject({ aud: 'acme-web' });
    expect(await validate(token, 'id_token')).toMatchObject({ nonce: 'the-nonce' });
  });

  it('refuses a token with another nonce than was sent', async () => {
    const token = await door.mint(idToken({ nonce: 'another' }), { typ: '' });
    const failure = { code: 'login_failed', reason: 'nonce' };
    await expect(validate(token, 'id_token', { nonce: 'the-nonce' })).rejects.toMatchObject(failure);
  });

  it('refuses every access token', async () => {
    const token = await door.mint();
    await expect(validate(token, 'access_token')).resolves.toBeDefined();
    await expect(validate(token, 'id_token')).rejects.toMatchObject({ reason: 'token_type' });
    const untyped = await door.mint({}, { typ: '' });
    await expect(validate(untyped, 'id_token')).rejects.toMatchObject({ reason: 'audience' });
    const forLogin = await door.mint({ aud: 'acme-web', azp: 'acme-web' });
    await expect(validate(forLogin, 'id_token')).rejects.toMatchObject({ reason: 'token_type' });
  });
});

describe.each(['id_token', 'access_token'] as const)('TokenValidator, signature of an %s', (use) => {
  const good = (): JWTPayload => door.claims(use === 'id_token' ? idToken() : {});

  it('refuses a token signed with another key', async () => {
    const { privateKey } = await generateKeyPair('EdDSA', { crv: 'Ed25519' });
    const token = await door.mint(good(), { key: privateKey, typ: '' });
    await expect(validate(token, use)).rejects.toMatchObject({ code: 'login_failed', reason: 'signature' });
  });

  it('refuses a token that was changed', async () => {
    const [header, , signature] = (await door.mint(good(), { typ: '' })).split('.');
    const changed = Buffer.from(JSON.stringify({ ...good(), sub: 'somebody.else' })).toString('base64url');
    const failure = { reason: 'signature' };
    await expect(validate(`${header}.${changed}.${signature}`, use)).rejects.toMatchObject(failure);
  });

  it('refuses a token without a signature, or with a MAC', async () => {
    const unsigned = new UnsecuredJWT(good()).encode();
    await expect(validate(unsigned, use)).rejects.toMatchObject({ reason: 'algorithm' });
    const mac = await new SignJWT(good())
      .setProtectedHeader({ alg: 'HS256', kid: 'front-door' })
      .sign(new TextEncoder().encode(publicPemOf(sandbox)));
    await expect(validate(mac, use)).rejects.toMatchObject({ reason: 'algorithm' });
  });

  it.each(['', 'opaque', 'a.b', 'a.b.c', 'a.b.c.d.e', `${'x'.repeat(100_000)}.y.z`])(
    'refuses a value that is not a token: %.20s',
    async (token) => {
      await expect(validate(token, use)).rejects.toMatchObject({ code: 'login_failed', reason: 'signature' });
    },
  );
});

describe('TokenValidator and tenants', () => {
  it('accepts the token of a tenant for this tenant only', async () => {
    const token = await door.mint(idToken());
    await expect(validate(token, 'id_token', { tenant: 'globex' })).rejects.toMatchObject({
      code: 'login_failed',
    });
  });

  it('names the options a host has to set', async () => {
    const token = await door.mint({ exp: Math.floor(Date.now() / 1000) + 60 });
    await expect(validate(token, 'access_token', { tenant: 'globex' })).rejects.toMatchObject({
      code: 'configuration_invalid',
      tenant: 'globex',
      problems: [{ path: 'login.audience.accessToken', expected: expect.any(String) }],
    });
    await expect(validate(token, 'access_token', { tenant: 'initech' })).rejects.toMatchObject({
      code: 'configuration_invalid',
      problems: [{ path: 'login', expected: expect.any(String) }],
    });
    await expect(validate(token, 'access_token', { tenant: 'nobody' })).rejects.toMatchObject({
      code: 'unknown_tenant',
    });
    await expect(validator.validate(token, { use: 'access_token' })).rejects.toMatchObject({
      code: 'tenant_required',
    });
  });
});
