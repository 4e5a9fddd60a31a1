import { afterAll, beforeAll, beforeEach, describe, expect, it } from '@jest/globals';
import { Module, type INestApplication } from '@nestjs/common';
import { ExhibitorModule, type ExhibitorIdentity } from '../../lib/index.js';
import type { ExhibitorSandbox } from '../../lib/testing/index.js';
import { BoothController } from '../support/booth.controller.js';
import { COOKIE_SECRET, createApp, setUser } from '../support/host.js';
import { freePort } from '../support/server.js';
import { startSandbox } from '../support/sandbox.js';

let sandbox: ExhibitorSandbox;
beforeAll(async () => {
  sandbox = await startSandbox();
});
afterAll(() => sandbox?.stop());

/** A host that stores the identity itself. */
describe.each(['express', 'fastify'] as const)("session: 'host' on %s", (kind) => {
  let app: INestApplication;
  let url: string;
  let user: unknown;

  beforeAll(async () => {
    const port = await freePort();
    url = `http://127.0.0.1:${port}`;
    const redirectUri = `${url}/auth/callback`;

    @Module({
      imports: [
        ExhibitorModule.forRoot({
          tenants: {
            acme: sandbox.tenantOptions('acme', { redirectUri }),
            globex: sandbox.tenantOptions('globex', { redirectUri }),
          },
          resolveTenant: ({ headers }) => {
            const named = headers['x-tenant'];
            return typeof named === 'string' ? named : undefined;
          },
          session: 'host',
          secrets: [COOKIE_SECRET],
        }),
      ],
      controllers: [BoothController],
    })
    class AppModule {}

    app = await createApp(kind, AppModule);
    setUser(app, kind, () => user);
    await app.listen(port, '127.0.0.1');
  });
  afterAll(() => app?.close());

  const identity = (overrides: Partial<Record<keyof ExhibitorIdentity, unknown>> = {}): object => ({
    id: 'login-1',
    issuer: sandbox.url,
    subject: 'sam.several',
    email: 'sam.several@example.com',
    claims: { name: 'Sam Several' },
    tenant: 'acme',
    tenantId: sandbox.tenantOptions('acme').tenantId,
    clientId: 'acme-web',
    eventId: 'world-2026',
    expiresAt: Date.now() + 60_000,
    ...overrides,
  });
  beforeEach(() => {
    user = identity();
  });
  const get = async (path: string, headers: Record<string, string> = {}) => {
    const reply = await fetch(`${url}${path}`, { headers });
    return { status: reply.status, body: (await reply.json()) as Record<string, unknown> };
  };

  it('reads the identity from the request: plain data of any class', async () => {
    const { body } = await get('/me');
    expect(body).toEqual({ tenant: 'acme', identity: user });
    expect(await get('/mine')).toMatchObject({ status: 200, body: { eventId: 'world-2026' } });
    user = Object.assign(Object.create({ isHostUser: true }), identity(), { department: 'sales' });
    expect((await get('/me')).status).toBe(200);
  });

  it('requires subject, issuer and tenant', async () => {
    user = {
      issuer: sandbox.url,
      subject: 'sam.several',
      email: 'sam.several@example.com',
      tenant: 'acme',
    };
    expect((await get('/events/world-2026/mine')).status).toBe(200);
    for (const missing of ['issuer', 'subject', 'email', 'tenant'] as const) {
      user = identity({ [missing]: undefined });
      expect([missing, (await get('/me')).status]).toEqual([missing, 401]);
    }
  });

  it.each<[what: string, overrides: Partial<Record<keyof ExhibitorIdentity, unknown>>]>([
    ['of another issuer', { issuer: 'https://evil.example' }],
    ['of another client', { clientId: 'globex-web' }],
    ['of a tenant id that the key has no more', { tenantId: 'the id of a former customer' }],
    ['of a tenant nobody has', { tenant: '__proto__' }],
    ['that is over', { expiresAt: 1 }],
    ['whose end is no number', { expiresAt: Number.NaN }],
  ])('treats a user %s as not logged in', async (_, overrides) => {
    user = identity(overrides);
    expect(await get('/me')).toMatchObject({ status: 401, body: { code: 'unauthenticated' } });
  });

  it('treats a user with a member of a wrong type as not logged in', async () => {
    const texts = [
      'id',
      'issuer',
      'subject',
      'email',
      'tenant',
      'tenantId',
      'clientId',
      'eventId',
      'returnTo',
      'sid',
    ];
    const wrong = [...texts.map((name) => [name, 42]), ['claims', 'none'], ['claims', []], ['claims', null]];
    for (const [name, value] of [...wrong, ['loggedInAt', '1'], ['expiresAt', '9e15'], ['expiresAt', null]]) {
      user = identity({ [String(name)]: value });
      expect([name, value, (await get('/me')).status]).toEqual([name, value, 401]);
    }
    user = identity({ loggedInAt: 1, returnTo: '/', sid: 'session-1' });
    expect((await get('/me')).status).toBe(200);
  });

  it.each([null, undefined, 'sam.several', 42, [], { sub: 'sam.several' }])(
    'treats a user of another kind as not logged in: %j',
    async (other) => {
      user = other;
      expect((await get('/me')).status).toBe(401);
    },
  );

  it('treats a person of another tenant as not logged in', async () => {
    expect((await get('/me', { 'x-tenant': 'acme' })).status).toBe(200);
    expect((await get('/me', { 'x-tenant': 'globex' })).status).toBe(401);
  });
});
