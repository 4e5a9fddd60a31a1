/** What a lookup may cost: bytes in the cache. */
import { gzipSync } from 'node:zlib';
import { afterEach, describe, expect, it } from '@jest/globals';
import { firstValueFrom } from 'rxjs';
import { z } from 'zod';
import { startRestHost, startService, type Answer } from './rest-host.js';
import type { OtherOptions } from '../support/module-options.js';

const MIB = 1024 * 1024;

const endings: (() => Promise<void>)[] = [];
afterEach(async () => {
  for (const end of endings.splice(0)) {
    await end();
  }
});

async function against(answer: Answer, options: OtherOptions = {}) {
  const service = await startService(answer);
  const { exhibitors, close } = await startRestHost({
    tenant: service.tenant,
    http: { maxResponseBytes: 5 * MIB },
    ...options,
  });
  endings.push(close, service.stop);
  const find = (name: string) => firstValueFrom(exhibitors.lookup('e', `${name}@example.com`));
  /** Finds, and says whether the answer came from the cache. */
  const isKept = async (name: string) => {
    const before = service.urls.length;
    await find(name);
    return service.urls.length === before;
  };
  return { find, isKept };
}

/** Answers with a gzip of this text. */
const packed = (text: string): Answer => {
  const body = gzipSync(text);
  return ({ response }) => {
    response.writeHead(200, { 'content-type': 'application/json', 'content-encoding': 'gzip' }).end(body);
  };
};

describe('a large answer', () => {
  const large = `[${Array.from({ length: 900 }, (_, id) => `{"id":${id},"text":"${'x'.repeat(5_000)}"}`).join(',')}]`;

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
  it('are 64 MiB by default', async () => {
    const { find, isKept } = await against(packed(`[{"a":"${'x'.repeat(1_600_000)}"}]`));
    for (let id = 0; id < 45; id += 1) {
      await find(`sam${id}`);
    }
    expect(await isKept('sam44')).toBe(true);
    expect(await isKept('sam0')).toBe(false);
  }, 30_000);
});
