/** Who a request is outside of guards, and the recipes of docs/websockets.md as they are. */
import { once } from 'node:events';
import { IncomingMessage } from 'node:http';
import { Socket } from 'node:net';
import { afterEach, describe, expect, it, jest } from '@jest/globals';
import { Controller, Get, Inject, Req, UseGuards, type INestApplication, type Type } from '@nestjs/common';
import { IoAdapter } from '@nestjs/platform-socket.io';
import { WsAdapter } from '@nestjs/platform-ws';
import { io, type Socket as IoClient } from 'socket.io-client';
import { WebSocket } from 'ws';
import { ExhibitorIdentityGuard, ExhibitorLogins, type ExhibitorIdentity } from '../../lib/index.js';
import { Sealer } from '../../lib/store/sealer.service.js';
import { hostUser, signIn } from '../nest/signed-in.js';
import { clockOf } from '../support/clock.js';
import { acmeOptions, COOKIE_SECRET, startHost, tenantsOptions, type Host } from '../support/host.js';
import { useHost, useSandbox } from '../support/lifetimes.js';
import { loadSnippets } from '../support/snippets.js';
import { Visitor } from '../support/visitor.js';
import { eventually } from '../support/wait.js';
import { copyOf, identityOf, logOut } from './journey.js';

const MINUTE = 60_000;
const TRUSTED = 'https://app.example.com';

const sandbox = await useSandbox();
afterEach(() => void jest.restoreAllMocks());

/** A request that no guard sees. */
function messageOf(headers: Record<string, string>, user?: unknown): IncomingMessage {
  const message = new IncomingMessage(new Socket());
  return Object.assign(message, { method: 'GET', url: '/live', headers }, user === undefined ? {} : { user });
}

const cookieOf = (visitor: Visitor): string =>
  [...visitor.cookies()].map(([name, value]) => `${name}=${value}`).join('; ');

const identify = (
  { app }: Host,
  headers: Record<string, string>,
  options?: { tenant?: string },
  user?: unknown,
): Promise<ExhibitorIdentity | undefined> =>
  app.get(ExhibitorLogins).identify(messageOf(headers, user), options);

describe('identify', () => {
  const host = useHost(() =>
    startHost({
      options: acmeOptions(sandbox, {
        trustedOrigins: [TRUSTED],
        cookies: { identityTtl: 60 * MINUTE, absoluteTtl: 240 * MINUTE },
      }),
    }),
  );
  afterEach(() => clockOf(host.app).back());

  it('answers the user of the cookie until its end or a logout, and renews nothing', async () => {
    const visitor = await signIn(sandbox, host);
    const cookie = cookieOf(visitor);
    const known = await identityOf(visitor, host);
    expect(await identify(host, { cookie })).toEqual(known);
    expect([await identify(host, {}), await identify(host, { cookie: 'exhibitor-identity=e30' })]).toEqual([
      undefined,
      undefined,
    ]);
    clockOf(host.app).skip(40 * MINUTE);
    const seal = jest.spyOn(host.app.get(Sealer), 'seal');
    expect((await identify(host, { cookie }))?.expiresAt).toBe(known?.expiresAt);
    expect(seal).not.toHaveBeenCalled();
    clockOf(host.app).skip(21 * MINUTE);
    expect(await identify(host, { cookie })).toBeUndefined();
    clockOf(host.app).back();
    await logOut(copyOf(visitor, host), host);
    expect(await identify(host, { cookie })).toBeUndefined();
  });

  it('takes a handshake of a page of another origin for nobody', async () => {
    const cookie = cookieOf(await signIn(sandbox, host));
    const isKnown = async (headers: Record<string, string>): Promise<boolean> =>
      (await identify(host, { cookie, ...headers })) !== undefined;
    const upgrade = 'websocket';
    for (const headers of [
      { upgrade },
      { upgrade, origin: host.url },
      { upgrade, origin: host.url.toUpperCase() },
      { upgrade, origin: TRUSTED },
      { upgrade, origin: TRUSTED, 'sec-fetch-site': 'cross-site' },
      // No handshake: what reads the reply is the matter of CORS.
      { origin: 'https://evil.example' },
    ] as Record<string, string>[]) {
      expect([headers, await isKnown(headers)]).toEqual([headers, true]);
    }
    for (const headers of [
      { upgrade, origin: 'https://evil.example' },
      { ':protocol': 'websocket', origin: 'https://evil.example' },
      { upgrade: 'WebSocket, h2c', origin: 'http://127.0.0.1' },
      { upgrade, origin: host.url.replace('127.0.0.1', 'localhost') },
      { upgrade, origin: host.url.replace('http:', 'https:') },
      { upgrade, origin: `${TRUSTED}.evil.example` },
      { upgrade, origin: 'null' },
      { upgrade, origin: '' },
      { upgrade, 'sec-fetch-site': 'cross-site' },
    ] as Record<string, string>[]) {
      expect([headers, await isKnown(headers)]).toEqual([headers, false]);
    }
  });

  it('needs the tenant where there are several, and takes an identity of another one for nobody', async () => {
    const several = await startHost({
      options: tenantsOptions(sandbox, ['acme', 'globex'], { resolveTenant: () => 'acme' }),
    });
    const cookie = cookieOf(await signIn(sandbox, several));
    await expect(identify(several, { cookie })).rejects.toMatchObject({ code: 'tenant_required' });
    await expect(identify(several, {}, { tenant: 'nobody' })).rejects.toMatchObject({
      code: 'unknown_tenant',
    });
    const found = [
      await identify(several, { cookie }, { tenant: 'acme' }),
      await identify(several, { cookie }, { tenant: 'globex' }),
    ];
    expect(found.map((one) => one?.tenant)).toEqual(['acme', undefined]);
    await several.close();
  });

  it('reads request.user of the host, and leaves it as it is', async () => {
    const options = (redirectUri: string) => ({
      tenant: sandbox.tenantOptions('acme', { redirectUri }),
      secrets: [COOKIE_SECRET],
      session: 'host' as const,
    });
    const keeping = await startHost({ options });
    const user = hostUser(sandbox.tenantOptions('acme', { redirectUri: keeping.callback }));
    const cookie = cookieOf(await signIn(sandbox, host));
    const message = messageOf({}, { ...user, expiresAt: 1 });
    expect(await keeping.app.get(ExhibitorLogins).identify(message)).toBeUndefined();
    expect(message).toHaveProperty('user');
    expect(await identify(keeping, { cookie })).toBeUndefined();
    expect(await identify(keeping, {}, {}, user)).toMatchObject({ subject: 'sam.several' });
    await keeping.close();
  });

  it('takes no user whom a guard has set for one of the session of the host', async () => {
    let user: object;
    class KeyGuard extends ExhibitorIdentityGuard {
      protected override getIdentity(): ExhibitorIdentity {
        return user as ExhibitorIdentity;
      }
    }
    @Controller()
    class KeyController {
      constructor(@Inject(ExhibitorLogins) private readonly logins: ExhibitorLogins) {}

      @Get('key')
      @UseGuards(KeyGuard)
      async key(@Req() request: IncomingMessage): Promise<boolean> {
        return (await this.logins.identify(request)) !== undefined;
      }
    }
    const keyed = await startHost({
      controllers: [KeyController],
      options: acmeOptions(sandbox, { session: 'host' }),
    });
    user = hostUser(sandbox.tenantOptions('acme', { redirectUri: keyed.callback }));
    const reply = await new Visitor().visit(`${keyed.url}/key`);
    expect([reply.status, reply.text]).toEqual([200, 'false']);
    await keyed.close();
  });
});

/** Timers with such a delay, in ms, that are started from now on. */
function watchTimers(least: number, most: number) {
  const { calls, results } = jest.spyOn(globalThis, 'setTimeout').mock;
  const all = (): number[] =>
    calls.flatMap(([, ms = 0], index) => (ms >= least && ms <= most ? [index] : []));
  return {
    count: () => all().length,
    /** Does what the last one would do, at once. */
    fire(): void {
      const last = all().at(-1) ?? -1;
      clearTimeout(results[last]?.value as NodeJS.Timeout);
      calls[last]?.[0]();
    },
  };
}

interface Recipe {
  LiveModule: Type;
  guardFiles(app: INestApplication): void;
}

/** A client of a recipe, which is connected or not. */
interface Client {
  /** Asks who the server takes it for. */
  who(): Promise<string>;
  closed: Promise<unknown>;
}

const ws = async (host: Host, headers: Record<string, string>): Promise<Client> => {
  const client = new WebSocket(`${host.url.replace('http', 'ws')}/live`, { headers });
  const closed = once(client, 'close').then(([code]: unknown[]) => code);
  await once(client, 'open');
  const who = async (): Promise<string> => {
    client.send(JSON.stringify({ event: 'who' }));
    const [data] = (await once(client, 'message')) as [Buffer];
    return (JSON.parse(data.toString()) as { data: string }).data;
  };
  return { who, closed };
};

const socketIo = async (host: Host, extraHeaders: Record<string, string>): Promise<Client> => {
  const client: IoClient = io(host.url, {
    path: '/live',
    transports: ['websocket'],
    reconnection: false,
    forceNew: true,
    extraHeaders,
  });
  const closed = new Promise((resolve) => {
    client.on('disconnect', resolve);
    client.on('connect_error', (error) => resolve(error.message));
  });
  const connected = new Promise((resolve) => client.on('connect', () => resolve(undefined)));
  await Promise.race([closed, connected]);
  const who = (): Promise<string> =>
    new Promise((resolve) => {
      client.on('you', resolve);
      client.emit('who');
    });
  return { who, closed };
};

describe.each([
  { kind: 'express' as const, names: ['ws', 'express'], adapter: WsAdapter, connect: { ws } },
  {
    kind: 'fastify' as const,
    names: ['socket.io', 'fastify'],
    adapter: IoAdapter,
    connect: { socketIo },
  },
])('the recipes of docs/websockets.md on $kind', ({ kind, names, adapter, connect }) => {
  const host = useHost(async () => {
    const { LiveModule, guardFiles } = await loadSnippets<Recipe>('websockets.md', ...names);
    return startHost({
      kind,
      importedAfter: [LiveModule],
      configure: (app) => {
        app.useWebSocketAdapter(new adapter(app));
        guardFiles(app);
      },
      options: (callback) => ({
        ...acmeOptions(sandbox, { cookies: { identityTtl: 10 * MINUTE } })(callback),
        isGlobal: true,
      }),
    });
  });
  afterEach(() => clockOf(host.app).back());
  const clients = Object.entries(connect);

  it.each(clients)(
    'know the user of %s, ask again each minute, and close after a logout',
    async (_name, open) => {
      const visitor = await signIn(sandbox, host);
      const timers = watchTimers(MINUTE, MINUTE);
      const client = await open(host, { cookie: cookieOf(visitor) });
      expect(await client.who()).toBe('sam.several@example.com');
      timers.fire();
      await eventually(() => timers.count() === 2);
      await logOut(visitor, host);
      timers.fire();
      expect(await client.closed).toBeDefined();
    },
  );

  it.each(clients)('close %s at the end of the identity', async (_name, open) => {
    const visitor = await signIn(sandbox, host);
    // The recipes read the time of the host, which goes on.
    const now = Date.now();
    jest.spyOn(Date, 'now').mockImplementation(() => now + 10 * MINUTE - 30_000);
    const timers = watchTimers(28_000, 30_000);
    const client = await open(host, { cookie: cookieOf(visitor) });
    expect(await client.who()).toBe('sam.several@example.com');
    jest.spyOn(Date, 'now').mockImplementation(() => now + 10 * MINUTE + 1_000);
    timers.fire();
    expect(await client.closed).toBeDefined();
  });

  it.each(clients)('refuse nobody at %s', async (name, open) => {
    const cookie = cookieOf(await signIn(sandbox, host));
    const evil = { cookie, origin: 'https://evil.example' };
    for (const headers of [{}, evil]) {
      const { closed } = await open(host, headers);
      expect(await closed).toBe({ ws: 4401, socketIo: 'log in' }[name]);
    }
  });

  it('let users read files, and nobody else', async () => {
    const file = `${host.url}/plans/hall-7.txt`;
    const visitor = await signIn(sandbox, host);
    // There is no such file.
    expect((await visitor.visit(file)).status).toBe(404);
    expect((await new Visitor().visit(file)).status).toBe(401);
  });
});
