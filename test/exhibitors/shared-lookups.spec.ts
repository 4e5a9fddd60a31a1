import { createHash } from 'node:crypto';
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it, jest } from '@jest/globals';
import { Logger } from '@nestjs/common';
import { firstValueFrom } from 'rxjs';
import { z } from 'zod';
import {
  TenantRegistry,
  type ExhibitorModuleOptions,
  type LookupFilter,
  type LookupOptions,
  type TenantOptions,
} from '../../lib/index.js';
import type { OtherOptions } from '../support/module-options.js';
import type { ExhibitorSandbox } from '../../lib/testing/index.js';
import { MemoryStore } from '../store/memory-store.js';
import { Clock } from '../../lib/time/clock.js';
import { clockOf } from '../support/clock.js';
import { startSandbox } from '../support/sandbox.js';
import { sendJson } from '../support/server.js';
import { eventually, pause } from '../support/wait.js';
import {
  messagesOn,
  SECRETS,
  startRestHost,
  startService,
  threeTenants,
  type HandMadeService,
  type RestHost,
} from './rest-host.js';

const SAM = 'sam.several@example.com';
const OLGA = 'olga.one@example.com';
const EVENT = 'world-2026';
const NEW_SECRET = 'another cookie secret of the tests, 32+';

let sandbox: ExhibitorSandbox;
let store: MemoryStore;
let hosts: RestHost[];
let services: HandMadeService[];

beforeAll(async () => {
  sandbox = await startSandbox();
});
afterAll(() => sandbox?.stop());
beforeEach(() => {
  store = new MemoryStore();
  hosts = [];
  services = [];
  sandbox.clearRequests();
});
afterEach(async () => {
  jest.restoreAllMocks();
  sandbox.clearFaults();
  sandbox.latency = 0;
  await Promise.all([...hosts.map((host) => host.close()), ...services.map((service) => service.stop())]);
});

/** A process of the host. */
async function start({
  tenant,
  ...options
}: OtherOptions & { tenant?: TenantOptions } = {}): Promise<RestHost> {
  const tenants = tenant === undefined ? threeTenants(sandbox) : { tenant };
  const host = await startRestHost({ ...tenants, store, ...options });
  hosts.push(host);
  return host;
}

async function serve(answer: Parameters<typeof startService>[0]): Promise<HandMadeService> {
  const service = await startService(answer);
  services.push(service);
  return service;
}

interface Lookup extends LookupOptions {
  event?: string;
  email?: string;
}

const find = (host: RestHost, { tenant = 'acme', event = EVENT, email = SAM, ...options }: Lookup = {}) =>
  firstValueFrom(host.exhibitors.lookup(event, email, { tenant, ...options }));
const own = (host: RestHost, options = {}) => firstValueFrom(host.exhibitors.lookup('e', SAM, options));
const asked = () => sandbox.requests.filter(({ operation }) => operation === 'lookup');

/** Lets time pass, for every process and for the store. */
function skip(ms: number): void {
  store.skip(ms);
  for (const { context } of hosts) {
    clockOf(context).skip(ms);
  }
}

describe('the lookups of several processes with a store', () => {
  it('reach the service once, one after the other, and once for each process at once', async () => {
    const all = await Promise.all(Array.from({ length: 5 }, () => start()));
    const [one, other] = [all[0] as RestHost, all[1] as RestHost];
    const records = await find(one);
    const outcomes = await messagesOn('nestjs-exhibitor:lookup', async () => {
      expect(await find(other)).toEqual(records);
    });
    expect(outcomes).toEqual([{ tenant: 'acme', outcome: 'hit' }]);
    expect(asked()).toHaveLength(1);

    sandbox.latency = 150;
    const answers = await Promise.all(all.map((host) => find(host, { email: OLGA })));
    expect(answers.every(({ length }) => length === 1)).toBe(true);
    const together = asked().length;
    expect(together).toBeLessThanOrEqual(1 + all.length);
    skip(30_000);
    await Promise.all(all.map((host) => find(host, { email: OLGA })));
    await find(await start(), { email: OLGA });
    expect(asked()).toHaveLength(together);
  });

  it('are as old in every process: ttl ms after the request it is sent again', async () => {
    const [one, other] = [await start(), await start()];
    await find(one);
    skip(50_000);
    await find(other);
    skip(9_000);
    await find(other);
    expect(asked()).toHaveLength(1);
    skip(1_001);
    await find(other);
    await find(one);
    expect(asked()).toHaveLength(2);
  });

  it('show neither address nor exhibitor in the store, and no key that can be guessed', async () => {
    const [one, other] = [await start(), await start({ secrets: [NEW_SECRET] })];
    const records = await find(one);
    const keys = [...store.raw.keys()].filter((key) => key.includes(':lookup:'));
    expect(keys).toHaveLength(1);
    expect(store.dump).not.toMatch(/example\.com|sam\.several|world-2026|Booth|acme-/);
    const { tenantId, baseUrl, clientId } = sandbox.tenantOptions('acme');
    const name = JSON.stringify([baseUrl, 'acme', tenantId, clientId, EVENT, SAM]);
    for (const guess of [SAM, name, `lookup:${name}`]) {
      for (const encoding of ['hex', 'base64url', 'base64'] as const) {
        expect(keys[0]).not.toContain(createHash('sha256').update(guess).digest(encoding));
      }
    }
    // Without the secret a process computes another key and opens nothing.
    expect(await find(other)).toEqual(records);
    expect(asked()).toHaveLength(2);
    expect([...store.raw.keys()].filter((key) => key.includes(':lookup:'))).toHaveLength(2);
  });

  it('are shared while secrets are rotated', async () => {
    const [old] = SECRETS as [string];
    const [one, other] = [
      await start({ secrets: [old, NEW_SECRET] }),
      await start({ secrets: [NEW_SECRET, old] }),
    ];
    await find(one);
    await find(other);
    await find(other, { email: OLGA });
    await find(one, { email: OLGA });
    expect(asked()).toHaveLength(2);
    await other.exhibitors.invalidateLookups({ tenant: 'acme' });
    skip(1_000);
    await find(one);
    await find(other);
    expect(asked()).toHaveLength(3);
  });

  it('are not shared between services, tenants, clients, events and addresses', async () => {
    const service = await serve(({ url }) => [{ id: url }]);
    const twin = await serve(({ url }) => [{ id: url }]);
    const { tenant } = service;
    const variants = [tenant, { ...tenant, tenantId: 'b' }, { ...tenant, clientId: 'b' }, twin.tenant];
    for (const variant of variants) {
      await own(await start({ tenant: variant }));
    }
    expect([service.urls.length, twin.urls.length]).toEqual([3, 1]);
    const another = await start({ tenant });
    await own(another);
    expect(service.urls).toHaveLength(3);
    await firstValueFrom(another.exhibitors.lookup('f', SAM));
    await firstValueFrom(another.exhibitors.lookup('e', OLGA));
    expect(service.urls).toHaveLength(5);
  });

  it('are checked by each process with its own schema, from the rows of the service', async () => {
    const { tenant, urls } = await serve(() => [{ id: 7, extra: 'kept' }]);
    const withSchema = (exhibitorSchema: ExhibitorModuleOptions['exhibitorSchema']) =>
      start({ tenant, exhibitorSchema });
    const numbers = z.object({ id: z.number().transform((id) => id + 1) });
    expect(await own(await withSchema(numbers))).toEqual([{ id: 8 }]);
    const frozen = await own(await withSchema(z.object({ id: z.number().transform(String) })));
    expect([frozen, Object.isFrozen(frozen[0])]).toEqual([[{ id: '7' }], true]);
    expect(await own(await start({ tenant }))).toEqual([{ id: 7, extra: 'kept' }]);
    expect(urls).toHaveLength(1);
    // Rows that do not fit this version of the host are no answer: the service is asked.
    await expect(own(await withSchema(z.object({ id: z.string() })))).rejects.toMatchObject({
      code: 'malformed_response',
    });
    expect(urls).toHaveLength(2);
  });

  it('that are too large are not shared, and remove what was shared before', async () => {
    const rows = Array.from({ length: 800 }, (_, id) => ({ id, text: 'x'.repeat(400) }));
    let small: object[] | undefined = [{ id: 1 }];
    const { tenant, urls } = await serve(() => small ?? rows);
    const all = [await start({ tenant }), await start({ tenant }), await start({ tenant })];
    const [first] = all as [RestHost];
    expect(await own(first)).toHaveLength(1);
    small = undefined;
    expect(await own(first, { fresh: true })).toHaveLength(800);
    for (const host of all) {
      expect(await own(host)).toHaveLength(800);
    }
    expect(urls).toHaveLength(4);
    expect(store.dump.length).toBeLessThan(10_000);
  });

  it('are asked for and shared again with fresh', async () => {
    let version = 0;
    const { tenant } = await serve(() => [{ version: (version += 1) }]);
    const [one, other] = [await start({ tenant }), await start({ tenant })];
    await own(one);
    expect(await own(one, { fresh: true })).toEqual([{ version: 2 }]);
    expect(await own(other)).toEqual([{ version: 2 }]);
  });

  it('are not shared with lookupCache: false', async () => {
    const hostsWithout = [await start({ lookupCache: false }), await start({ lookupCache: false })];
    await Promise.all(hostsWithout.map((host) => find(host)));
    expect(asked()).toHaveLength(2);
    expect([...store.raw.keys()].filter((key) => /lookup|generation/.test(key))).toEqual([]);
  });
});

describe('an answer in the memory of a process', () => {
  it('costs nothing at the store for half a second, then two values: of all lookups, and of the tenant', async () => {
    const host = await start();
    const clock = host.context.get(Clock, { strict: false });
    let time = 0;
    clock.now = () => time;
    await find(host);
    const { calls } = store;
    for (const [at, reads] of [
      [499, 0],
      [500, 2],
      [999, 2],
      [1_000, 4],
      [9_000, 6],
    ] as const) {
      time = at;
      await Promise.all(Array.from({ length: 20 }, () => find(host)));
      await find(host);
      // Reads in the background end before the time changes.
      await pause(0);
      expect(store.calls - calls).toBe(reads);
    }
    expect(asked()).toHaveLength(1);
  });

  it.each(['throws', 'rejects', 'hangs'] as const)(
    'is used while the store %s; other lookups reach the service',
    async (failure) => {
      jest.spyOn(Logger.prototype, 'warn').mockImplementation(() => undefined);
      const [one, other] = [await start(), await start()];
      const records = await find(one);
      store.failure = failure;
      skip(2_000);
      expect(await find(one)).toEqual(records);
      expect(asked()).toHaveLength(1);
      expect(await find(other)).toEqual(records);
      expect(await find(one, { email: OLGA })).toHaveLength(1);
      expect(asked()).toHaveLength(3);
      // The answers of the outage are not older than what was invalidated since.
      store.failure = 'none';
      await one.exhibitors.invalidateLookups();
      skip(6_000);
      await eventually(() => [...store.raw.keys()].some((key) => key.includes('generation')));
      await usesStore(one);
      await usesStore(other);
      const before = asked().length;
      await find(one);
      await find(other);
      expect(asked()).toHaveLength(before + 1);
    },
  );
});

/** Waits until a process shares its lookups: while one operation finds out that the store is back, the others do without. */
async function usesStore(host: RestHost): Promise<void> {
  let attempts = 0;
  await eventually(async () => {
    const { size } = store.raw;
    await find(host, { email: `visitor-${store.calls}-${(attempts += 1)}@example.com` });
    return store.raw.size > size;
  });
}

describe('a store that answers after 900 ms', () => {
  it.each([{ fresh: false }, { fresh: true }])('is a miss for lookups of 500 ms with %j', async (options) => {
    const host = await start();
    const records = await find(host);
    await host.exhibitors.invalidateLookups();
    skip(1_000);
    slowDown(900);
    const startedAt = performance.now();
    expect(await find(host, { ...options, deadline: 500 })).toEqual(records);
    expect(performance.now() - startedAt).toBeLessThan(500);
    expect(asked()).toHaveLength(2);
  });

  it('does not fail a lookup where it becomes slow while the service is asked', async () => {
    const host = await start();
    await find(host, { email: OLGA });
    sandbox.failNext('lookup', { kind: 'delay', ms: 100 });
    const answer = find(host, { deadline: 500 });
    await eventually(() => asked().length === 2);
    slowDown(900);
    expect(await answer).not.toEqual([]);
  });

  it('does not keep an answer in memory whose generation it told too late', async () => {
    const host = await start();
    await find(host, { email: OLGA });
    skip(1_000);
    const slow = slowDown(900);
    await find(host, { deadline: 500 });
    slow.forEach((spy) => spy.mockRestore());
    await pause(1_000);
    await find(host);
    await find(host);
    expect(asked()).toHaveLength(3);
  });
});

/** Lets every operation of the store take this long, in ms. */
function slowDown(ms: number) {
  const [get, set] = [store.get.bind(store), store.set.bind(store)];
  return [
    jest.spyOn(store, 'get').mockImplementation(async (key) => {
      await pause(ms);
      return get(key);
    }),
    jest.spyOn(store, 'set').mockImplementation(async (key, value, options) => {
      await pause(ms);
      return set(key, value, options);
    }),
  ];
}

describe('invalidateLookups', () => {
  const LOOKUPS = {
    'sam in acme': { email: SAM },
    'olga in acme': { email: OLGA },
    'another event of acme': { event: 'national-2026' },
    globex: { tenant: 'globex' },
  };
  const ACME = ['sam in acme', 'olga in acme', 'another event of acme'];

  it.each<[filter: LookupFilter | undefined, again: string[]]>([
    [undefined, Object.keys(LOOKUPS)],
    [{ tenant: 'acme' }, ACME],
    [{ tenant: 'acme', eventId: EVENT }, ACME],
    [{ tenant: 'acme', eventId: EVENT, contactEmail: SAM }, ACME],
    [{ tenant: 'acme', contactEmail: SAM }, ACME],
    [{ eventId: EVENT }, Object.keys(LOOKUPS)],
    [{ contactEmail: SAM }, Object.keys(LOOKUPS)],
    [{ tenant: 'initech' }, []],
  ])('(%j) reaches every process within a second, and what is in the store', async (filter, again) => {
    const [one, other] = [await start(), await start()];
    for (const lookup of Object.values(LOOKUPS)) {
      await find(one, lookup);
      await find(other, lookup);
    }
    await one.exhibitors.invalidateLookups(filter);
    const third = await start();
    skip(1_000);
    const seen: string[] = [];
    for (const [name, lookup] of Object.entries(LOOKUPS)) {
      const before = asked().length;
      await find(other, lookup);
      await find(third, lookup);
      await find(one, lookup);
      expect(asked().length - before).toBeLessThanOrEqual(1);
      if (asked().length > before) {
        seen.push(name);
      }
    }
    expect(seen).toEqual(again);
  });

  it('reaches lookups that are under way in another process', async () => {
    const [one, other] = [await start(), await start()];
    sandbox.failNext('lookup', { kind: 'delay', ms: 200 });
    const older = find(other);
    await eventually(() => asked().length === 1);
    await one.exhibitors.invalidateLookups({ tenant: 'acme' });
    await older;
    expect(await find(one)).toEqual(await older);
    expect(asked()).toHaveLength(2);
    skip(1_000);
    await find(other);
    expect(asked()).toHaveLength(2);
  });

  it('reaches a lookup of its own process that is comparing its generation', async () => {
    const host = await start();
    await find(host);
    skip(1_000);
    let release = (): void => {};
    const held = new Promise<void>((resolve) => (release = resolve));
    const get = store.get.bind(store);
    const reads = jest.spyOn(store, 'get').mockImplementation(async (key) => {
      const value = await get(key);
      await held;
      return value;
    });
    const older = find(host);
    await eventually(() => reads.mock.calls.length > 0);
    await host.exhibitors.invalidateLookups({ tenant: 'acme' });
    release();
    await older;
    await find(host);
    expect(asked()).toHaveLength(2);
  });

  it('reaches the others later where the store is down', async () => {
    jest.spyOn(Logger.prototype, 'warn').mockImplementation(() => undefined);
    const [one, other] = [await start(), await start()];
    await find(one);
    await find(other);
    store.failure = 'rejects';
    await one.exhibitors.invalidateLookups({ tenant: 'acme' });
    await find(one);
    expect(asked()).toHaveLength(2);
    store.failure = 'none';
    await eventually(async () => {
      skip(1_000);
      await find(other);
      return asked().length > 2;
    });
  });

  it('is done by forgetting the tenant, in every process', async () => {
    const [one, other] = [await start(), await start()];
    await find(one);
    await find(other);
    const { calls } = store;
    one.context.get(TenantRegistry).forget('acme');
    await eventually(() => store.calls >= calls + 2);
    skip(1_000);
    await find(one);
    await find(other);
    expect(asked()).toHaveLength(2);
  });
});

describe('staleIfError with a store', () => {
  it('uses the answer of another process while the service fails, unless it was invalidated', async () => {
    let isDown = false;
    const { tenant, urls } = await serve(({ response }) =>
      isDown ? sendJson(response, {}, 503) : [{ id: 1 }],
    );
    const options = { tenant, lookupCache: { ttl: 10_000, staleIfError: 60_000 }, http: { attempts: 1 } };
    const one = await start(options);
    await own(one);
    isDown = true;
    const other = await start(options);
    skip(15_000);
    const outcomes = await messagesOn('nestjs-exhibitor:lookup', async () => {
      expect(await own(other)).toEqual([{ id: 1 }]);
    });
    expect(outcomes).toEqual([{ tenant: 'default', outcome: 'stale' }]);
    expect(urls).toHaveLength(2);
    await one.exhibitors.invalidateLookups();
    skip(1_000);
    await expect(own(other)).rejects.toMatchObject({ code: 'service_unavailable' });
    isDown = false;
    skip(12_000);
    expect(await own(other)).toEqual([{ id: 1 }]);
    isDown = true;
    skip(71_000);
    await expect(own(await start(options))).rejects.toMatchObject({ code: 'service_unavailable' });
  });

  it.each([
    { what: 'one, where the store is slow', wait: 900, deadline: 400, wasInvalidated: false, isUsed: false },
    { what: 'it, where the store answers', wait: 10, deadline: 1_100, wasInvalidated: false, isUsed: true },
    { what: 'one invalidated meanwhile', wait: 10, deadline: 1_100, wasInvalidated: true, isUsed: false },
  ])('asks the store only briefly after the deadline: $what', async (given) => {
    let isSilent = false;
    const { tenant, urls } = await serve(() => (isSilent ? undefined : [{ id: 1 }]));
    const options = { tenant, lookupCache: { ttl: 10_000, staleIfError: 60_000 } };
    const [one, other] = [await start(options), await start(options)];
    await own(one);
    isSilent = true;
    skip(11_000);
    slowDown(given.wait);
    const startedAt = performance.now();
    const answer = own(one, { deadline: given.deadline }).catch(({ code }: { code: string }) => code);
    await eventually(() => urls.length === 2);
    if (given.wasInvalidated) {
      await other.exhibitors.invalidateLookups();
    }
    expect(await answer).toEqual(given.isUsed ? [{ id: 1 }] : 'deadline_exceeded');
    expect(performance.now() - startedAt).toBeLessThan(given.deadline + 300);
  });

  it('prefers the newer answer in memory where the store did not take it', async () => {
    jest.spyOn(Logger.prototype, 'warn').mockImplementation(() => undefined);
    let version = 0;
    const { tenant } = await serve(({ response }) =>
      version < 2 ? [{ version: (version += 1) }] : sendJson(response, {}, 503),
    );
    const lookupCache = { ttl: 10_000, staleIfError: 60_000 };
    const host = await start({ tenant, lookupCache, http: { attempts: 1 } });
    expect(await own(host)).toEqual([{ version: 1 }]);
    skip(11_000);
    const set = jest.spyOn(store, 'set').mockRejectedValue(new Error('read-only'));
    expect(await own(host)).toEqual([{ version: 2 }]);
    set.mockRestore();
    skip(11_000);
    expect(await own(host)).toEqual([{ version: 2 }]);
  });
});
