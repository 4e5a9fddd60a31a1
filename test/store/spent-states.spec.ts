import { afterAll, afterEach, beforeAll, expect, it } from '@jest/globals';
import * as ioredis from 'ioredis';
import type { ExhibitorModuleOptions } from '../../lib/index.js';
import { RedisSharedStore } from '../../lib/redis/index.js';
import { SpentStates } from '../../lib/store/spent-states.service.js';
import { copyOf, expectRefusal, toHost, toProvider } from '../login/journey.js';
import { COOKIE_SECRET, startHost, type Host } from '../support/host.js';
import { ScriptedProvider } from '../support/provider.js';
import { describeWithRedis, RedisServer } from '../support/redis.js';
import { Visitor } from '../support/visitor.js';

const LOGIN_TTL = 600_000;

describeWithRedis('used login states in Redis', (path) => {
  let redis: RedisServer;
  let client: ioredis.Redis;
  let provider: ScriptedProvider;
  let hosts: Host[] = [];
  beforeAll(async () => {
    [redis, provider] = await Promise.all([RedisServer.start(path), ScriptedProvider.start()]);
    client = new ioredis.Redis(redis.url);
  });
  afterEach(async () => {
    await Promise.all(hosts.splice(0).map((host) => host.close()));
    await client.flushall();
  });
  afterAll(async () => {
    client?.disconnect();
    await Promise.all([redis?.stop(), provider?.stop()]);
  });

  async function start(kind: 'express' | 'fastify', callback?: string): Promise<Host> {
    const host = await startHost({
      kind,
      options: (own): ExhibitorModuleOptions => ({
        tenant: provider.tenantOptions(callback ?? own),
        secrets: [COOKIE_SECRET],
        store: new RedisSharedStore(client),
      }),
    });
    hosts = [...hosts, host];
    return host;
  }

  /** A callback that anybody can send: a login that was started, and an answer that the provider never gave. */
  async function forged(host: Host, answer: Record<string, string>): Promise<void> {
    const visitor = new Visitor();
    const arrival = await toProvider(visitor, host);
    const state = arrival.parameters.get('state') ?? '';
    const reply = await toHost(visitor, {
      ...arrival,
      parameters: new URLSearchParams({ state, ...answer }),
    });
    expect(reply.status).toBe(401);
  }

  it('are a key alone, which says nothing and lives as long as its pending login', async () => {
    const host = await start('express');
    await forged(host, { code: 'forged' });
    const [key = '', ...others] = await client.keys('*');
    expect(others).toEqual([]);
    expect(key).toMatch(/^nestjs-exhibitor:spent-state:[\w-]{43}$/);
    expect(await client.get(key)).toBe('1');
    expect(await client.memory('USAGE', key)).toBeLessThan(200);
    const left = await client.pttl(key);
    expect(left).toBeGreaterThan(LOGIN_TTL - 60_000);
    expect(left).toBeLessThanOrEqual(LOGIN_TTL);
  });

  it('leave nothing in Redis where the callback has an error: its pending login goes', async () => {
    const host = await start('express');
    await forged(host, { error: 'access_denied' });
    await forged(host, { error: '' });
    await forged(host, { error: 'server_error', code: 'forged' });
    expect(await client.keys('*')).toEqual([]);
    const visitor = new Visitor();
    const arrival = await toProvider(visitor, host);
    const { callback, parameters } = arrival;
    await visitor.visit(`${callback}?error=access_denied&state=${parameters.get('state')}`);
    expectRefusal(await toHost(visitor, arrival), 'state');
  });

  it('are used once, in whichever process, also while Redis was empty in between', async () => {
    const one = await start('express');
    const other = await start('fastify', one.callback);
    const visitor = new Visitor();
    const arrival = await toProvider(visitor, one);
    const [first, second] = [copyOf(visitor, one), copyOf(visitor, one)];
    expect((await toHost(visitor, arrival)).status).toBe(303);
    const toOther = { ...arrival, callback: arrival.callback.replace(one.url, other.url) };
    expectRefusal(await toHost(first, toOther), 'state');
    await client.flushall();
    expectRefusal(await toHost(second, arrival), 'state');
  });

  it('are accepted once of many at the same time, in several processes', async () => {
    const [one, other] = [await start('express'), await start('fastify')];
    const [here, there] = [one.app.get(SpentStates), other.app.get(SpentStates)];
    const claims = await Promise.all(
      [here, there, here, there].map((states) => states.spend('same', LOGIN_TTL)),
    );
    expect(claims.filter(Boolean)).toHaveLength(1);
  });
});
