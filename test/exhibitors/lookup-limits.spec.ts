/** What a lookup may cost: records, bytes in the cache, and time of the event loop. */
import { monitorEventLoopDelay } from 'node:perf_hooks';
import { setFlagsFromString } from 'node:v8';
import { runInNewContext } from 'node:vm';
import { gzipSync } from 'node:zlib';
import { afterEach, describe, expect, it, jest } from '@jest/globals';
import { firstValueFrom } from 'rxjs';
import { z } from 'zod';
import type { ExhibitorModuleOptions } from '../../lib/index.js';
import { honest, startRestHost, startService, type Answer, type PageRequest } from './rest-host.js';
import type { OtherOptions } from '../support/module-options.js';

const MIB = 1024 * 1024;

const endings: (() => Promise<void>)[] = [];
afterEach(async () => {
  for (const end of endings.splice(0)) {
    await end();
  }
});

/** A host with the tenants `one`, `two` and `three` of one service. */
async function against(answer: Answer, options: OtherOptions = {}) {
  const service = await startService(answer);
  const tenants = { one: service.tenant, two: service.tenant, three: service.tenant };
  const { exhibitors, close } = await startRestHost({ tenants, ...options });
  endings.push(close, service.stop);
  const find = (name: string, tenant = 'one') =>
    firstValueFrom(exhibitors.lookup('e', `${name}@example.com`, { tenant }));
  /** Finds, and says whether the answer came from the cache. */
  const isKept = async (name: string, tenant = 'one') => {
    const before = service.urls.length;
    await find(name, tenant);
    return service.urls.length === before;
  };
  return { service, find, isKept };
}

/** Answers with a gzip of this text. */
const packed = (text: string): Answer => {
  const body = gzipSync(text);
  return ({ response }) => {
    response.writeHead(200, { 'content-type': 'application/json', 'content-encoding': 'gzip' }).end(body);
  };
};

const many = (count: number, text: string) => `[${Array(count).fill(text).join(',')}]`;

const collectGarbage: () => void = (() => {
  setFlagsFromString('--expose-gc');
  return runInNewContext('gc');
})();

function heapUsed(): number {
  collectGarbage();
  return process.memoryUsage().heapUsed;
}

describe('the records of a lookup', () => {
  it.each<[string, number, ExhibitorModuleOptions['lookupCache']]>([
    ['1,000 by default', 1_000, {}],
    ['1,000 without a cache', 1_000, false],
    ['as many as the host says', 3, { maxRecords: 3 }],
  ])('are %s at most', async (_name, most, lookupCache) => {
    let count = most;
    const { find } = await against(() => Array.from({ length: count }, (_, id) => ({ id })), { lookupCache });
    await expect(find('sam')).resolves.toHaveLength(most);
    count += 1;
    await expect(find('olga')).rejects.toMatchObject({
      code: 'malformed_response',
      message: `not the exhibitors of a contact: more than ${most} records`,
    });
  });

  it('are counted over all pages, before the further ones are requested', async () => {
    const answer = ({ page }: PageRequest) => honest(Math.max(page, 1), 2, 5);
    const { service, find } = await against(answer, { lookupCache: { maxRecords: 4 } });
    await expect(find('sam')).rejects.toMatchObject({ code: 'malformed_response' });
    expect(service.urls).toHaveLength(1);
  });
});

describe('a small reply that unpacks to 5 MiB of small objects', () => {
  it.each([
    ['records', many(1_747_000, '{}')],
    ['members of a record', `[{"a":${many(1_747_000, '{}')}}]`],
    ['names', `[{${Array.from({ length: 400_000 }, (_, id) => `"k${id}":1`).join(',')}}]`],
  ])('is refused before it is parsed: %s', async (_name, text) => {
    const { find } = await against(packed(text));
    const before = heapUsed();
    const delay = monitorEventLoopDelay({ resolution: 5 });
    delay.enable();
    for (let call = 0; call < 3; call += 1) {
      await expect(find(`sam${call}`)).rejects.toMatchObject({ code: 'malformed_response' });
    }
    delay.disable();
    expect(delay.max / 1e6).toBeLessThan(300);
    expect(heapUsed() - before).toBeLessThan(10 * MIB);
  });
});

describe('a large answer', () => {
  const large = `[${Array.from({ length: 900 }, (_, id) => `{"id":${id},"text":"${'x'.repeat(5_000)}"}`).join(',')}]`;

  it('is served, and not kept', async () => {
    const { find, isKept } = await against(packed(large));
    await expect(find('sam')).resolves.toHaveLength(900);
    expect(await isKept('sam')).toBe(false);
    expect(await isKept('sam')).toBe(false);
  });

  it('is parsed in a turn of the event loop of its own', async () => {
    const { parse } = JSON;
    let isNextTurn: boolean | undefined;
    const spy = jest.spyOn(JSON, 'parse').mockImplementation((text: string) => {
      if (text.length === large.length) {
        isNextTurn = false;
        setImmediate(() => (isNextTurn = true));
      }
      return parse(text) as unknown;
    });
    const turns: unknown[] = [];
    const exhibitorSchema = z.looseObject({}).transform((record) => {
      turns.push(isNextTurn);
      return record;
    });
    const checked = await against(packed(large), { exhibitorSchema });
    await checked.find('sam');
    spy.mockRestore();
    expect(turns[0]).toBe(true);
  });

  it('is frozen all the same, and checked by the schema', async () => {
    const exhibitorSchema = z.object({ id: z.number().max(898) });
    const { find } = await against(packed(large));
    const records = await find('sam');
    expect(Object.isFrozen(records.at(-1))).toBe(true);
    const checked = await against(packed(large), { exhibitorSchema });
    await expect(checked.find('sam')).rejects.toMatchObject({
      message: '899.id does not fit exhibitorSchema',
    });
  });
});

describe('the bytes of the cache of lookups', () => {
  /** A record of small objects: 3 bytes of text and about 64 of heap each. */
  const heavy = (objects: number) => packed(`[{"a":${many(objects, '{}')}}]`);

  it('are bounded by maxBytes, whatever small objects take', async () => {
    const { find, isKept } = await against(heavy(12_000), { lookupCache: { maxBytes: 16 * MIB } });
    const before = heapUsed();
    for (let id = 0; id < 45; id += 1) {
      await find(`sam${id}`);
    }
    expect(heapUsed() - before).toBeLessThan(22 * MIB);
    expect(await isKept('sam44')).toBe(true);
    expect(await isKept('sam0')).toBe(false);
  }, 30_000);

  it('are 64 MiB by default', async () => {
    const { find, isKept } = await against(packed(`[{"a":"${'x'.repeat(3_200_000)}"}]`));
    for (let id = 0; id < 22; id += 1) {
      await find(`sam${id}`);
    }
    expect(await isKept('sam12')).toBe(true);
    expect(await isKept('sam0')).toBe(false);
  }, 30_000);

  it('of one tenant push out no answer of another', async () => {
    const { find, isKept } = await against(heavy(3_000), { lookupCache: { maxBytes: 4 * MIB } });
    await find('olga', 'two');
    await find('nora', 'three');
    for (let id = 0; id < 25; id += 1) {
      await find(`sam${id}`);
    }
    expect(await isKept('olga', 'two')).toBe(true);
    expect(await isKept('nora', 'three')).toBe(true);
    expect(await isKept('sam24')).toBe(true);
    expect(await isKept('sam0')).toBe(false);
  }, 30_000);
});

describe('the number of answers in the cache', () => {
  it('of one tenant pushes out no answer of another', async () => {
    const { find, isKept } = await against(() => [{ id: 1 }], { lookupCache: { max: 10 } });
    await find('olga', 'two');
    for (let id = 0; id < 40; id += 1) {
      await find(`sam${id}`);
    }
    expect(await isKept('olga', 'two')).toBe(true);
    expect(await isKept('sam39')).toBe(true);
  });

  it('leaves a place for every tenant', async () => {
    const { find, isKept } = await against(() => [{ id: 1 }], { lookupCache: { max: 2 } });
    for (const tenant of ['one', 'two', 'three']) {
      await find('sam', tenant);
      expect(await isKept('sam', tenant)).toBe(true);
    }
    expect(await isKept('sam', 'two')).toBe(true);
  });
});
