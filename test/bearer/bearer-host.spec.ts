import { randomUUID } from 'node:crypto';
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it } from '@jest/globals';
import { TenantRegistry, type ExhibitorIdentity, type TenantOptions } from '../../lib/index.js';
import { BearerIdentities } from '../../lib/session/bearer-identities.service.js';
import type { ExhibitorSandbox } from '../../lib/testing/index.js';
import { bodyOf, signIn } from '../guards/signed-in.js';
import { COOKIE_SECRET, startHost, type Host } from '../support/host.js';
import { Visitor, type Reply } from '../support/visitor.js';
import { type FrontDoor, withFrontDoor } from '../support/front-door.js';
import { clockOf } from '../support/clock.js';
import type { OtherOptions } from '../support/module-options.js';
import { traced } from '../support/traced-requests.js';

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

  it('keeps the claims of the option keepClaims, however large the others are', async () => {
    const tenant = door.tenantOptions('acme');
    const login = { ...tenant.login, keepClaims: ['name'] } as typeof tenant.login;
    const choosy = await start({ tenant: { ...tenant, login } });
    try {
      const token = await door.mint({ ...MAILLESS, jti: randomUUID() });
      const userinfo = { sub: 'sam.several', email: 'sam.several@example.com', name: 'Sam' };
      door.userinfo.set(token, { ...userinfo, groups: 'x'.repeat(200_000) });
      const { identity } = bodyOf<{ identity: ExhibitorIdentity }>(await visit(choosy, '/me', token));
      expect([identity.email, identity.claims]).toEqual([userinfo.email, { name: 'Sam' }]);
    } finally {
      await choosy.close();
    }
  });

  it('does not remember a token after it expired', async () => {
    const tenant = door.tenantOptions('acme');
    const strict = await start({
      tenant: { ...tenant, login: { ...tenant.login, clockTolerance: 0 } as typeof tenant.login },
    });
    try {
      const token = await door.mint({ jti: randomUUID(), exp: Math.floor(Date.now() / 1000) + 2 });
      expect((await visit(strict, '/me', token)).status).toBe(200);
      clockOf(strict.app).skip(2_200);
      const late = await visit(strict, '/me', token);
      expect([late.status, bodyOf(late)['reason']]).toEqual([401, 'expired']);
    } finally {
      await strict.close();
    }
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

  it('is preceded by requireVerifiedEmail', async () => {
    const strict = await startHost({
      options: () => {
        const tenant = door.tenantOptions('acme');
        const login = { ...tenant.login, requireVerifiedEmail: true } as typeof tenant.login;
        return { tenant: { ...tenant, login }, session: 'bearer' };
      },
    });
    try {
      const token = await door.mint({ jti: randomUUID() });
      door.userinfo.set(token, { sub: 'sam.several', email: 'sam.several@example.com' });
      const unsaid = await visit(strict, '/me', token);
      expect([unsaid.status, bodyOf(unsaid)['reason']]).toEqual([401, 'email_unverified']);
      const said = await visit(strict, '/me', await door.mint({ jti: randomUUID(), email_verified: true }));
      expect(said.status).toBe(200);
    } finally {
      await strict.close();
    }
  });
});

describe('verified tokens', () => {
  const sam = { sub: 'sam.several', email: 'sam.several@example.com' };

  /** A host and tokens of people of whom userinfo says this. */
  async function withTokens() {
    const host = await startHost({
      options: () => ({ tenant: door.tenantOptions('acme'), session: 'bearer' }),
    });
    const mint = (count: number, userinfo: object = sam) =>
      Promise.all(
        Array.from({ length: count }, async () => {
          const token = await door.mint({ ...MAILLESS, jti: randomUUID() });
          door.userinfo.set(token, { ...userinfo });
          return token;
        }),
      );
    const acme = await host.app.get(TenantRegistry).get('default');
    const identities = host.app.get(BearerIdentities, { strict: false });
    const identify = (tokens: readonly string[]) =>
      Promise.all(tokens.map((token) => identities.identify(acme, token)));
    return { host, mint, identify };
  }

  it('are remembered by their digest', async () => {
    const { host, mint, identify } = await withTokens();
    try {
      const tokens = await mint(50);
      const first = await identify(tokens);
      expect(await identify(tokens)).toEqual(first);
      expect(door.userinfoCalls).toHaveLength(50);
      expect(tokens.filter((token) => JSON.stringify(first).includes(token))).toEqual([]);
    } finally {
      await host.close();
    }
  });

  it('are verified again after 5 minutes', async () => {
    const { host, mint, identify } = await withTokens();
    try {
      const tokens = await mint(1);
      await identify(tokens);
      clockOf(host.app).skip(299_000);
      await identify(tokens);
      expect(door.userinfoCalls).toHaveLength(1);
      clockOf(host.app).skip(1_001);
      await identify(tokens);
      expect(door.userinfoCalls).toHaveLength(2);
    } finally {
      await host.close();
    }
  });

  it('are verified 1,000 at a time: more are refused for the moment', async () => {
    const { host, mint, identify } = await withTokens();
    try {
      const forged = Array.from({ length: 1_000 }, (_, index) => identify([`forged-${index}`]));
      const [good = ''] = await mint(1);
      await expect(identify([good])).resolves.toHaveLength(1);
      const flood = Array.from({ length: 1_000 }, (_, index) => identify([`other-${index}`]));
      await expect(identify(['one-more'])).rejects.toMatchObject({ code: 'service_unavailable' });
      const results = await Promise.allSettled([...forged, ...flood]);
      expect(results.every(({ status }) => status === 'rejected')).toBe(true);
    } finally {
      await host.close();
    }
  });

  it('are not pushed out by forged tokens, one after the other or all at once', async () => {
    const { host, mint, identify } = await withTokens();
    try {
      const good = await mint(1);
      await identify(good);
      const forged = await Promise.all(
        Array.from({ length: 60 }, () => door.mint({}, { kid: randomUUID() })),
      );
      const refused = (token: string): Promise<void> =>
        expect(identify([token])).rejects.toMatchObject({ reason: 'signature' });
      await Promise.all(forged.slice(30).map(refused));
      for (const token of forged.slice(0, 30)) {
        await refused(token);
      }
      await identify(good);
      expect(door.userinfoCalls).toEqual(good);
    } finally {
      await host.close();
    }
  });

  it('are remembered for their own tenant only', async () => {
    const host = await startHost({
      options: () => ({
        tenants: { acme: door.tenantOptions('acme'), globex: door.tenantOptions('globex') },
        session: 'bearer',
        resolveTenant: ({ headers }) => String(headers['x-tenant']),
      }),
    });
    try {
      const token = await door.mint({ ...MAILLESS, jti: randomUUID() });
      door.userinfo.set(token, { sub: 'sam.several', email: 'sam.several@example.com' });
      for (const tenant of ['acme', 'globex', 'acme']) {
        const reply = await fetch(`${host.url}/me`, {
          headers: { authorization: `Bearer ${token}`, 'x-tenant': tenant },
        });
        expect(await reply.json()).toMatchObject({ tenant, identity: { tenant } });
      }
      expect(door.userinfoCalls).toEqual([token, token]);
    } finally {
      await host.close();
    }
  });
});
