import { afterAll, afterEach, beforeAll, expect, it } from '@jest/globals';
import { createClient } from 'redis';
import { describeWithRedis, RedisServer } from '../support/redis.js';
import { pause } from '../support/wait.js';
import type { ProcessCall, ProcessResult } from './commands.js';
import type { CompiledSources } from './compile.js';
import { compileHost, startProcess, type FleetProcess } from './fleet.js';
import { FleetWorld } from './world.js';

const SIZE = 8;
const SECRETS = ['the first secret of the fleet, 32 characters', 'the second secret of the fleet, 32 chars.'];

/** Each case has tenants of its own, so that they are cold in every process. */
const GROUPS = ['cold', 'frozen', 'chilled', 'poisoned'] as const;
type Group = (typeof GROUPS)[number];
const tenantsOf = (group: Group): string[] => [0, 1, 2, 3].map((index) => `${group}${index}`);

describeWithRedis('a fleet of 8 processes on one Redis', (path) => {
  let sources: CompiledSources;
  let redis: RedisServer;
  let world: FleetWorld;
  let fleet: FleetProcess[] = [];
  const figures: Record<string, unknown> = {};

  /** Half of the fleet has `redis`, half `ioredis`; every second one has the newer secret first, as during a rotation. */
  beforeAll(async () => {
    sources = compileHost();
    const keys = GROUPS.flatMap(tenantsOf);
    [redis, world] = await Promise.all([RedisServer.start(path), FleetWorld.start(keys)]);
    const tenants = Object.fromEntries(keys.map((key) => [key, world.optionsOf(key)]));
    const starting = Array.from({ length: SIZE }, (_, index) =>
      startProcess(sources, {
        kind: 'fastify',
        redis: { url: redis.url, client: index < SIZE / 2 ? 'redis' : 'ioredis' },
        secrets: index % 2 === 0 ? SECRETS : SECRETS.toReversed(),
        tenants,
      }),
    );
    fleet = await Promise.all(starting);
  }, 60_000);
  afterEach(() => world.sandbox.clearFaults());
  afterAll(async () => {
    await Promise.all(fleet.map((one) => one.kill()));
    await Promise.all([redis?.stop(), world?.sandbox.stop()]);
    sources?.remove();
    process.stderr.write(`fleet: ${JSON.stringify(figures)}\n`);
  });

  const tokenRequests = (group: Group): number =>
    world.sandbox.requests.filter(
      ({ operation, tenantKey }) => operation === 'token' && tenantKey?.startsWith(group),
    ).length;
  const callsOf = (kind: ProcessCall['kind'], ...tenants: string[]): ProcessCall[] =>
    tenants.map((tenant) => ({ kind, tenant, eventId: 'fair', contactEmail: 'olga.one@example.com' }));
  const load = (calls: readonly ProcessCall[], duration: number): Promise<ProcessResult[]>[] =>
    fleet.map((one) => one.send('load', { calls, duration, pause: 150 }));
  /** Requests these tokens, which are 10 s old then: a younger one is not renewed because of a 401. */
  const warm = async (calls: readonly ProcessCall[]): Promise<void> => {
    const results = await Promise.all(fleet.map((one) => one.send('run', calls)));
    expect(codesOf(results.flat())).toEqual([]);
    await Promise.all(fleet.map((one) => one.send('skip', 10_000)));
  };
  const codesOf = (results: readonly ProcessResult[]): string[] => results.flatMap(({ code }) => code ?? []);

  /** Median and longest duration, in ms. */
  function durationsOf(results: readonly ProcessResult[]): { median: number; slowest: number } {
    const sorted = results.map(({ ms }) => ms).toSorted((a, b) => a - b);
    return { median: sorted[Math.floor(sorted.length / 2)] ?? Infinity, slowest: sorted.at(-1) ?? Infinity };
  }

  it('sends one token request a tenant when all processes start, also during a rotation of secrets', async () => {
    world.sandbox.failNext('token', { kind: 'delay', ms: 60 }, Infinity);
    const calls = Array.from({ length: 5 }, () => callsOf('list', ...tenantsOf('cold'))).flat();
    const results = (await Promise.all(fleet.map((one) => one.send('run', calls)))).flat();
    expect(results).toHaveLength(SIZE * 4 * 5);
    expect(codesOf(results)).toEqual([]);
    figures['cold'] = tokenRequests('cold');
    // Four in the usual case, and 32 without sharing. On a busy machine, a process that starts a second late asks for itself.
    expect(figures['cold']).toBeLessThanOrEqual(12);
  });

  it('fails no call and stays fast while Redis is frozen for 6 s, with tokens, without, and with revoked ones', async () => {
    const kinds = ['list', 'lookup'] as const;
    const callsFor = (...tenants: string[]) => kinds.flatMap((kind) => callsOf(kind, ...tenants));
    const frozen = callsFor(...tenantsOf('frozen'));
    await warm(frozen);
    const end = performance.now() + 7_200;
    const withTokens = load(frozen, 7_200);
    await pause(500);
    redis.freeze();
    // One tenant begins while no process knows of the outage, the last one shortly before Redis is back.
    const withoutTokens: Promise<ProcessResult[]>[] = [];
    for (const [index, tenant] of tenantsOf('chilled').entries()) {
      withoutTokens.push(...load(callsFor(tenant), end - performance.now()));
      await pause(750);
      world.sandbox.revokeTokens(`frozen${index}`);
      await pause(750);
    }
    redis.thaw();
    for (const [name, loads] of Object.entries({ withTokens, withoutTokens })) {
      const results = (await Promise.all(loads)).flat();
      const { median, slowest } = durationsOf(results);
      figures[`frozen, ${name}: calls, median ms, slowest ms`] = [results.length, median, slowest].map(
        Math.round,
      );
      expect(codesOf(results)).toEqual([]);
      expect(results.length).toBeGreaterThan(300);
      expect(median).toBeLessThan(200);
      expect(slowest).toBeLessThan(5_000);
    }
    // Each process asked for itself.
    figures['frozen, withoutTokens: token requests'] = tokenRequests('chilled');
    expect(tokenRequests('chilled')).toBeGreaterThan(4 * 4);
  });

  it('fails no call while Redis is poisoned, flushed, killed and started again empty', async () => {
    const client = createClient({ url: redis.url });
    client.on('error', () => {});
    await client.connect();
    const poisoning = new AbortController();
    /** Overwrites each hint and token, for ever. */
    const poison = async (): Promise<void> => {
      while (!poisoning.signal.aborted) {
        const keys = await client.keys('nestjs-exhibitor:token*');
        await Promise.all(keys.map((key) => client.set(key, 'rubbish')));
        await pause(20);
      }
    };
    const calls = callsOf('list', ...tenantsOf('poisoned'));
    await warm(calls);
    /** Each once. A process that finds a hint asks after a second: it has a token again before the next revocation. */
    const revoke = async (index: number): Promise<void> => {
      world.sandbox.revokeTokens(`poisoned${index}`);
      await pause(1_500);
    };
    const loads = load(calls, 9_000);
    const poisoned = poison();
    await pause(1_500);
    await revoke(0);
    await revoke(1);
    poisoning.abort();
    await poisoned;
    await client.flushAll();
    await revoke(2);
    client.destroy();
    await redis.kill();
    await revoke(3);
    await redis.restart();
    const results = (await Promise.all(loads)).flat();
    const { slowest } = durationsOf(results);
    figures['poisoned, flushed, killed: calls, slowest ms'] = [results.length, Math.round(slowest)];
    figures['poisoned: token requests'] = tokenRequests('poisoned');
    expect(results.length).toBeGreaterThan(320);
    expect(codesOf(results)).toEqual([]);
    expect(slowest).toBeLessThan(5_000);
  });
});
