import { afterAll, afterEach, beforeAll, describe, expect, it } from '@jest/globals';
import { Controller, Get, Module, Post, UseGuards } from '@nestjs/common';
import { createClient } from 'redis';
import {
  CurrentIdentity,
  ExhibitorIdentityGuard,
  ExhibitorLogins,
  ExhibitorLogoutGuard,
  ExhibitorModule,
  type ExhibitorIdentity,
  type SharedStore,
} from '../../lib/index.js';
import { RedisSharedStore } from '../../lib/integrations/redis/index.js';
import { clockOf } from '../support/clock.js';
import { COOKIE_SECRET, startHost, type Host, type HostKind } from '../support/host.js';
import type { ScriptedProvider } from '../support/provider.js';
import { says, set } from '../support/provider-script.js';
import { describeWithRedis, RedisServer } from '../support/redis.js';
import type { Visitor } from '../support/visitor.js';
import { withProvider } from './hosts.js';
import { copyOf, enter, identityOf, isLoggedIn, logOut, toHost, toProvider } from './journey.js';

const MINUTE = 60_000;
const [ACME, GLOBEX] = ['?tenant=acme', '?tenant=globex'];

let provider: ScriptedProvider;
const start = withProvider((started) => (provider = started));

const others = (kind: HostKind): HostKind => (kind === 'express' ? 'fastify' : 'express');

/** A login replaces others in each process: with a store in two of them, else in one. */
function replacesLogins(kind: HostKind, openStore?: () => Promise<SharedStore> | SharedStore): void {
  let one: Host;
  let all: Host[];
  beforeAll(async () => {
    const shared = {
      ...(openStore && { store: await openStore() }),
      logoutCheck: { ttl: 0 },
      cookies: { identityTtl: 2 * MINUTE, absoluteTtl: 60 * MINUTE },
    };
    const startAt = (at: HostKind, callback?: string): Promise<Host> =>
      start({ kind: at, ...shared }, (own) => {
        const options = provider.tenantOptions(callback ?? own);
        return { tenants: { acme: options, globex: { ...options, tenantId: 'globex' } } };
      });
    one = await startAt(kind);
    all = openStore === undefined ? [one] : [one, await startAt(others(kind), one.callback)];
  });
  afterEach(() => all.forEach(({ app }) => clockOf(app).back()));

  const pass = (ms: number): void => all.forEach(({ app }) => clockOf(app).skip(ms));

  /** In which processes a browser is logged in: in all or in none. */
  async function isKnown(visitor: Visitor): Promise<boolean> {
    const known = await Promise.all(all.map(async (host) => isLoggedIn(copyOf(visitor, one), host)));
    expect(new Set(known).size).toBe(1);
    return known.includes(true);
  }

  const replace = (visitor: Visitor, query = ACME): Promise<Visitor> => enter(one, query, visitor);

  it('of the same person after a minute: requests that are under way end well, and no copy outlives it', async () => {
    const visitor = await enter(one, ACME);
    const former = copyOf(visitor, one);
    await replace(visitor);
    for (const [ms, isLeft] of [
      [0, true],
      [MINUTE - 2_000, true],
      [4_000, false],
    ] as const) {
      pass(ms);
      expect([ms, await isKnown(former), await isKnown(visitor)]).toEqual([ms, isLeft, true]);
    }
  });

  it('of another person at once', async () => {
    const visitor = await enter(one, ACME);
    const former = copyOf(visitor, one);
    provider.script = says({ sub: 'quinn' });
    await replace(visitor);
    expect([await isKnown(former), (await identityOf(visitor, one))?.subject]).toEqual([false, 'quinn']);
  });

  it.each(['pat', 'quinn'])(
    'of another tenant never: its cookie alone is replaced, by one of %s',
    async (sub) => {
      const visitor = await enter(one, ACME);
      const former = copyOf(visitor, one);
      provider.script = says({ sub });
      await replace(visitor, GLOBEX);
      expect(await identityOf(visitor, one)).toMatchObject({ tenant: 'globex', subject: sub });
      pass(MINUTE + 2_000);
      expect([await isKnown(former), await isKnown(visitor)]).toEqual([true, true]);
      // A link alone ends nothing either.
      await toProvider(former, one, GLOBEX);
      expect(await isKnown(former)).toBe(true);
    },
  );

  it('that was there when the login began, although the callback brings no cookie of it', async () => {
    for (const [sub, isLeft] of [
      ['pat', true],
      ['quinn', false],
    ] as const) {
      const visitor = await enter(one, ACME);
      const former = copyOf(visitor, one);
      const arrival = await toProvider(visitor, one, ACME);
      visitor.cookies().delete('exhibitor-identity');
      provider.script = says({ sub });
      const { status, setCookies } = await toHost(visitor, arrival);
      // Nor that of the selections, which are of the former person.
      const isCleared = setCookies.some((cookie) => cookie.startsWith('exhibitor-selection=;'));
      expect([status, isCleared]).toEqual([303, !isLeft]);
      provider.script = {};
      expect(await isKnown(former)).toBe(isLeft);
      pass(MINUTE + 2_000);
      expect(await isKnown(former)).toBe(false);
      all.forEach(({ app }) => clockOf(app).back());
    }
  });

  it('but takes back no logout that came while it was under way, nor delays one that follows', async () => {
    const visitor = await enter(one, ACME);
    const former = copyOf(visitor, one);
    const [before, after] = [await toProvider(visitor, one, ACME), copyOf(visitor, one)];
    await logOut(visitor, all.at(-1) ?? one);
    expect((await toHost(visitor, before)).status).toBe(303);
    expect([await isKnown(former), await isKnown(after), await isKnown(visitor)]).toEqual([
      false,
      false,
      true,
    ]);
    const second = copyOf(visitor, one);
    await replace(visitor);
    expect(await isKnown(second)).toBe(true);
    await logOut(copyOf(second, one), all.at(-1) ?? one);
    expect([await isKnown(second), await isKnown(visitor)]).toEqual([false, true]);
  });

  it('and no reply to a request that was under way brings back the cookie of the former one', async () => {
    for (const isReplaced of [true, false]) {
      const visitor = await enter(one, ACME);
      const former = copyOf(visitor, one);
      pass(MINUTE + 5_000);
      await (isReplaced ? replace(visitor) : undefined);
      for (const host of all) {
        const reply = await copyOf(former, one).visit(`${host.url}/me`);
        expect([reply.status, reply.setCookies.length]).toEqual([200, isReplaced ? 0 : 1]);
      }
      all.forEach(({ app }) => clockOf(app).back());
    }
  });
}

describe('on Fastify a login ends one that it replaces in a browser, in its process', () =>
  replacesLogins('fastify'));

describeWithRedis('with Redis a login ends one that it replaces in a browser, in all processes', (path) => {
  let server: RedisServer;
  let client: ReturnType<typeof createClient>;
  beforeAll(async () => {
    server = await RedisServer.start(path);
    client = createClient({ url: server.url });
    await client.connect();
  });
  afterAll(async () => {
    client.destroy();
    await server.stop();
  });
  replacesLogins('express', () => new RedisSharedStore(client));
});

/** A feature of a host with a registration of its own. */
function featureAt(path: string, redirectUri: () => string) {
  @Controller(path)
  class FeatureController {
    @Get('me')
    @UseGuards(ExhibitorIdentityGuard)
    me(@CurrentIdentity() identity: ExhibitorIdentity): object {
      return { identity };
    }

    @Post('auth/logout')
    @UseGuards(ExhibitorLogoutGuard)
    logout(): void {}
  }

  @Module({
    imports: [
      ExhibitorModule.forRootAsync({
        bindFilter: false,
        useFactory: () => ({
          tenant: provider.tenantOptions(redirectUri()),
          secrets: [COOKIE_SECRET],
          logoutCheck: { provider: true },
        }),
      }),
    ],
    controllers: [FeatureController],
  })
  class FeatureModule {}
  return FeatureModule;
}

describe.each<HostKind>(['express', 'fastify'])('two registrations in one process on %s', (kind) => {
  let host: Host;
  let application: Host;
  beforeAll(async () => {
    let callback = '';
    host = await startHost({
      kind,
      options: (own) => {
        callback = own;
        return { tenant: provider.tenantOptions(own), secrets: [COOKIE_SECRET] };
      },
      importedAfter: [featureAt('feature', () => callback)],
    });
    application = await start({ kind: others(kind), redirectUri: host.callback });
  });
  afterAll(() => host?.close());

  it.each<[what: string, url: () => string]>([
    ['of one application', () => `${host.url}/feature`],
    ['of two applications', () => application.url],
  ])('%s know each other’s ended logins', async (_what, urlOf) => {
    const [own, other] = [{ url: host.url }, { url: urlOf() }];
    for (const [ended, at] of [
      [own, other],
      [other, own],
    ] as const) {
      const [visitor, stays] = [await enter(own), await enter(own)];
      const copy = copyOf(visitor, host);
      expect([await isLoggedIn(copy, own), await isLoggedIn(copy, other)]).toEqual([true, true]);
      expect((await logOut(visitor, ended)).status).toBeLessThan(400);
      expect([await isLoggedIn(copy, ended), await isLoggedIn(copy, at)]).toEqual([false, false]);
      expect([await isLoggedIn(stays, own), await isLoggedIn(stays, other)]).toEqual([true, true]);
    }
    provider.script = { backToken: set({ sub: 'zoe' }) };
    const visitor = await enter(own);
    await host.app.get(ExhibitorLogins).end({ tenant: 'default', subject: 'zoe' });
    expect(await isLoggedIn(visitor, other)).toBe(false);
  });
});
