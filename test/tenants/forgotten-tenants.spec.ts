import { afterEach, beforeEach, describe, expect, it, jest } from '@jest/globals';
import { Logger } from '@nestjs/common';
import { TenantRegistry, type Tenant, type TenantOptions } from '../../lib/index.js';
import { startRestHost, type RestHost } from '../exhibitors/rest-host.js';
import { MemoryStore } from '../store/memory-store.js';
import { clockOf, type MovedClock } from '../support/clock.js';
import { eventually } from '../support/wait.js';

/** A process of a host whose tenants come from a source. */
interface Process {
  host: RestHost;
  registry: TenantRegistry;
  clock: MovedClock;
  /** Keys that its source was asked for. */
  asked: string[];
}

let store: MemoryStore;
let source: (key: string) => Promise<TenantOptions | undefined>;
let processes: Process[];

async function startProcess(): Promise<Process> {
  const asked: string[] = [];
  const find = (key: string): ReturnType<typeof source> => {
    asked.push(key);
    return source(key);
  };
  const host = await startRestHost({ tenants: { find }, allowedOrigins: 'any', store });
  const started = { host, registry: host.context.get(TenantRegistry), clock: clockOf(host.context), asked };
  processes.push(started);
  return started;
}

async function optionsOf(key: string): Promise<TenantOptions> {
  const url = 'https://service.example';
  return { tenantId: `id of ${key}`, baseUrl: url, authUrl: url, clientId: key, clientSecret: 'a secret' };
}

beforeEach(() => {
  store = new MemoryStore();
  source = optionsOf;
  processes = [];
});
afterEach(async () => {
  await Promise.all(processes.map(({ host }) => host.close()));
});

/** Waits until the store has both values: for the tenant, and for its lookups. */
async function forgetIn({ registry }: Process, key: string): Promise<void> {
  const before = store.calls;
  registry.forget(key);
  await eventually(() => store.calls === before + 2);
}

describe('a tenant that is forgotten in one process', () => {
  it('is read again in every process within a second, with another state; the other tenants stay', async () => {
    const [one, other] = [await startProcess(), await startProcess()];
    const before = new Map<string, Tenant>();
    for (const key of ['acme', 'globex', 'initech']) {
      await one.registry.get(key);
      before.set(key, await other.registry.get(key));
    }
    source = async (key) => ({ ...(await optionsOf(key)), tenantId: 'newer' });
    await forgetIn(one, 'acme');
    other.clock.skip(1_000);
    expect(await other.registry.get('acme')).toMatchObject({ tenantId: 'newer' });
    for (const key of ['globex', 'initech']) {
      expect(await other.registry.get(key)).toBe(before.get(key));
      one.clock.skip(1_000);
      await one.registry.get(key);
    }
    expect(await one.registry.get('acme')).toMatchObject({ tenantId: 'newer' });
    expect([one.asked, other.asked]).toEqual([
      ['acme', 'globex', 'initech', 'acme'],
      ['acme', 'globex', 'initech', 'acme'],
    ]);
  });

  it('is read again also where a call of the source that began before has not ended', async () => {
    const [one, other] = [await startProcess(), await startProcess()];
    let answer = (_options: TenantOptions): void => {};
    source = () => new Promise((resolve) => (answer = resolve));
    const before = other.registry.get('acme');
    await eventually(() => other.asked.length === 1);
    source = async (key) => ({ ...(await optionsOf(key)), tenantId: 'newer' });
    await forgetIn(one, 'acme');
    other.clock.skip(1_000);
    expect(await other.registry.get('acme')).toMatchObject({ tenantId: 'newer' });
    answer(await optionsOf('acme'));
    expect(await before).toMatchObject({ tenantId: 'id of acme' });
    expect(await other.registry.get('acme')).toMatchObject({ tenantId: 'newer' });
  });

  it('is not read a second time for the same reason', async () => {
    const [one, other] = [await startProcess(), await startProcess()];
    await other.registry.get('acme');
    await forgetIn(one, 'acme');
    for (const { registry, clock } of [one, other]) {
      for (let second = 0; second < 5; second++) {
        clock.skip(1_000);
        await Promise.all([registry.get('acme'), registry.get('acme')]);
        await forgetIn(one, `another ${second}`);
      }
    }
    expect([one.asked, other.asked]).toEqual([['acme'], ['acme', 'acme']]);
  });

  it('loses its last good options too', async () => {
    const [one, other] = [await startProcess(), await startProcess()];
    await other.registry.get('acme');
    source = () => Promise.reject(new Error('the database is down'));
    other.clock.skip(300_000);
    await other.registry.get('acme');
    await forgetIn(one, 'acme');
    other.clock.skip(1_000);
    await expect(other.registry.get('acme')).rejects.toMatchObject({ code: 'service_unavailable' });
  });

  it('is found at once where it was unknown', async () => {
    const [one, other] = [await startProcess(), await startProcess()];
    source = async () => undefined;
    await expect(other.registry.get('acme')).rejects.toMatchObject({ code: 'unknown_tenant' });
    source = optionsOf;
    await forgetIn(one, 'acme');
    other.clock.skip(1_000);
    expect(await other.registry.get('acme')).toMatchObject({ key: 'acme' });
  });

  it('is read again also where it was being read', async () => {
    const [one, other] = [await startProcess(), await startProcess()];
    const answers: ((options: TenantOptions) => void)[] = [];
    source = () => new Promise((resolve) => void answers.push(resolve));
    const older = other.registry.get('acme');
    await eventually(() => answers.length === 1);
    await forgetIn(one, 'acme');
    answers[0]?.({ ...(await optionsOf('acme')), tenantId: 'old' });
    expect(await older).toMatchObject({ tenantId: 'old' });
    source = optionsOf;
    other.clock.skip(1_000);
    expect(await other.registry.get('acme')).toMatchObject({ tenantId: 'id of acme' });
  });

  it('is announced later where the store is down', async () => {
    jest.spyOn(Logger.prototype, 'warn').mockImplementation(() => undefined);
    const [one, other] = [await startProcess(), await startProcess()];
    await other.registry.get('acme');
    store.failure = 'rejects';
    one.registry.forget('acme');
    await one.registry.get('acme');
    other.clock.skip(1_000);
    await other.registry.get('acme');
    expect(other.asked).toEqual(['acme']);
    store.failure = 'none';
    await eventually(async () => {
      one.clock.skip(1_000);
      await one.registry.get('globex');
      return store.raw.size === 2;
    });
    other.clock.skip(1_000);
    await other.registry.get('acme');
    expect([one.asked, other.asked]).toEqual([
      ['acme', 'globex'],
      ['acme', 'acme'],
    ]);
    jest.restoreAllMocks();
  });

  it('costs the others one value a second for each tenant that they use', async () => {
    const other = await startProcess();
    const keys = ['acme', 'globex', 'initech'];
    for (const key of keys) {
      await other.registry.get(key);
      await other.registry.get(key);
    }
    expect(store.calls).toBe(3);
    other.clock.skip(1_000);
    await Promise.all(keys.flatMap((key) => [other.registry.get(key), other.registry.get(key)]));
    expect(store.calls).toBe(6);
    other.clock.skip(500);
    await Promise.all(keys.map((key) => other.registry.get(key)));
    expect(store.calls).toBe(9);
  });
});
