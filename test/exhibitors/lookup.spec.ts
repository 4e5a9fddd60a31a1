import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it } from '@jest/globals';
import { firstValueFrom } from 'rxjs';
import { TenantRegistry, type ExhibitorModuleOptions } from '../../lib/index.js';
import type { ExhibitorSandbox } from '../../lib/testing/index.js';
import {
  messagesOn,
  startRestHost,
  startService,
  threeTenants,
  type Answer,
  type RestHost,
} from './rest-host.js';
import { clockOf } from '../support/clock.js';
import { eventually, pause } from '../support/wait.js';
import { sendJson } from '../support/server.js';
import { startSandbox } from '../support/sandbox.js';
import { stall } from '../support/faults.js';
import { traced } from '../support/traced-requests.js';

const SAM = 'sam.several@example.com';
const EVENT = 'world-2026';

let sandbox: ExhibitorSandbox;
let host: RestHost;

beforeAll(async () => {
  sandbox = await startSandbox();
});
afterAll(() => sandbox?.stop());
beforeEach(async () => {
  host = await startRestHost(threeTenants(sandbox));
  sandbox.clearRequests();
});
afterEach(async () => {
  await host?.close();
  sandbox?.clearFaults();
  sandbox.latency = 0;
});

const lookups = () => traced(sandbox).filter(({ operation }) => operation === 'lookup');
const find = (email = SAM, options: object = {}) =>
  firstValueFrom(host.exhibitors.lookup(EVENT, email, { tenant: 'acme', ...options }));
const recordsOf = (email: string) =>
  sandbox.exhibitors(EVENT, 'acme').filter(({ contactEmails }) => contactEmails.includes(email));

describe('lookup', () => {
  it('finds no, one and several exhibitors', async () => {
    await expect(find('nora.none@example.com')).resolves.toEqual([]);
    await expect(find('olga.one@example.com')).resolves.toHaveLength(1);
    expect((await find()).length).toBeGreaterThan(1);
    await expect(find()).resolves.toEqual(recordsOf(SAM));
  });

  it('sends the address byte for byte', async () => {
    await expect(find('zoë+fair@example.com')).resolves.toEqual(recordsOf('zoë+fair@example.com'));
    await expect(find('Sam.Several@example.com')).resolves.toEqual([]);
    const odd = '"a:b=c&d@e"@例え.jp';
    await find(odd);
    expect(lookups().map(({ contactEmail }) => contactEmail)).toEqual([
      'zoë+fair@example.com',
      'Sam.Several@example.com',
      odd,
    ]);
  });

  it('refuses an invalid address through the Observable, without showing it, and sends nothing', async () => {
    await expect(find('sam at example.com')).rejects.toMatchObject({
      code: 'invalid_argument',
      message: 'contactEmail must be an e-mail address',
    });
    expect(sandbox.requests).toHaveLength(0);
  });

  it('fails like every call and does not cache the failure', async () => {
    sandbox.failNext('lookup', { kind: 'status', status: 403 });
    await expect(find()).rejects.toMatchObject({ code: 'access_denied', status: 403 });
    await expect(find()).resolves.toEqual(recordsOf(SAM));
  });
});

describe('a reply to lookup', () => {
  it.each<[string, Answer, unknown[]]>([
    ['an array', () => [{ id: 1 }, { id: 2 }], [{ id: 1 }, { id: 2 }]],
    [
      'the wrapper',
      () => ({
        paginationMetadata: { currentPage: 1, totalCount: 2, totalPages: 1, itemsPerPage: 2 },
        data: [{ id: 1 }, { id: 2 }],
      }),
      [{ id: 1 }, { id: 2 }],
    ],
    ['one object', () => ({ id: 1 }), [{ id: 1 }]],
    ['null', ({ response }) => sendJson(response, null), []],
    ['an empty object', () => ({}), []],
    ['an empty array', () => [], []],
    ['204', ({ response }) => void response.writeHead(204).end(), []],
    ['404', ({ response }) => sendJson(response, { error: 'not_found' }, 404), []],
    ['404 without JSON', ({ response }) => void response.writeHead(404).end('no'), []],
  ])('may be %s', async (_name, answer, records) => {
    const service = await startService(answer);
    const { exhibitors, close } = await startRestHost({ tenant: service.tenant });
    await expect(firstValueFrom(exhibitors.lookup('e', SAM))).resolves.toEqual(records);
    await close();
    await service.stop();
  });

  it('is malformed where it contains no exhibitors', async () => {
    const service = await startService(() => ['text']);
    const { exhibitors, close } = await startRestHost({ tenant: service.tenant });
    await expect(firstValueFrom(exhibitors.lookup('e', SAM))).rejects.toMatchObject({
      code: 'malformed_response',
      message: '0 is not an object',
    });
    await close();
    await service.stop();
  });
});

describe('the cache of lookups', () => {
  it('answers equal lookups without a request, also those without exhibitors', async () => {
    for (const email of [SAM, 'nora.none@example.com']) {
      const first = await find(email);
      expect(await find(email)).toBe(first);
    }
    expect(lookups()).toHaveLength(2);
  });

  it('distinguishes tenants, events and addresses byte for byte', async () => {
    const all = [
      ['acme', EVENT, SAM],
      ['globex', EVENT, SAM],
      ['acme', 'national-2026', SAM],
      ['acme', EVENT, 'SAM.several@example.com'],
      // The same text where event and address are concatenated.
      ['acme', 'a', 'b@example.com'],
      ['acme', 'ab', '@example.com'.replace('@', 'x@')],
    ] as const;
    for (const [tenant, eventId, email] of [...all, ...all]) {
      await firstValueFrom(host.exhibitors.lookup(eventId, email, { tenant }));
    }
    // The two unknown events answer 404, which is cached as no exhibitor.
    expect(lookups()).toHaveLength(all.length);
  });

  it('holds frozen records, since several requests share them', async () => {
    const records = await find();
    expect(Object.isFrozen(records)).toBe(true);
    expect(Object.isFrozen(records[0]?.contactEmails)).toBe(true);
  });

  it('shares one request between equal lookups that are running', async () => {
    sandbox.latency = 100;
    const all = await Promise.all(Array.from({ length: 50 }, () => find()));
    expect(new Set(all).size).toBe(1);
    expect(lookups()).toHaveLength(1);
  });

  it('is bypassed by fresh, and filled by its answer', async () => {
    await find();
    const before = sandbox.exhibitors(EVENT, 'acme');
    sandbox.setExhibitors(EVENT, [], 'acme');
    await expect(find()).resolves.not.toEqual([]);
    await expect(find(SAM, { fresh: true })).resolves.toEqual([]);
    await expect(find()).resolves.toEqual([]);
    expect(lookups()).toHaveLength(2);
    sandbox.setExhibitors(EVENT, before, 'acme');
  });

  it('sends a new request for fresh, since a running one may be older', async () => {
    sandbox.failNext('lookup', { kind: 'delay', ms: 300 });
    const older = find();
    await eventually(() => lookups().length === 1);
    const fresh = await find(SAM, { fresh: true });
    expect(lookups()).toHaveLength(2);
    await older;
    expect(await find()).toBe(fresh);
  });

  it('forgets the lookups that a filter names', async () => {
    const globex = () => firstValueFrom(host.exhibitors.lookup(EVENT, SAM, { tenant: 'globex' }));
    const asked = async (filter?: Parameters<typeof host.exhibitors.invalidateLookups>[0]) => {
      await host.exhibitors.invalidateLookups(filter);
      const before = lookups().length;
      await Promise.all([find(), find('olga.one@example.com'), globex()]);
      return lookups().length - before;
    };
    expect(await asked()).toBe(3);
    expect(await asked({ tenant: 'initech' })).toBe(0);
    expect(await asked({ tenant: 'acme' })).toBe(2);
    expect(await asked({ contactEmail: SAM })).toBe(2);
    expect(await asked({ tenant: 'globex', eventId: EVENT, contactEmail: SAM })).toBe(1);
    expect(await asked({ eventId: 'another' })).toBe(0);
    expect(await asked()).toBe(3);
  });

  it('forgets only the lookups of its tenant through a bound view', async () => {
    await find();
    await host.exhibitors.forTenant('globex').invalidateLookups();
    await find();
    expect(lookups()).toHaveLength(1);
    const wrong = host.exhibitors.invalidateLookups({ contactEmail: 'nobody' });
    await expect(wrong).rejects.toMatchObject({ code: 'invalid_argument' });
  });

  it('is not filled by a running lookup that was invalidated', async () => {
    sandbox.failNext('lookup', { kind: 'delay', ms: 200 });
    const older = find();
    await eventually(() => lookups().length === 1);
    await host.exhibitors.invalidateLookups({ tenant: 'acme' });
    await expect(older).resolves.toEqual(recordsOf(SAM));
    await find();
    expect(lookups()).toHaveLength(2);
  });

  it('drops the lookups of a tenant that leaves the registry', async () => {
    await find();
    host.context.get(TenantRegistry).forget('acme');
    await find();
    expect(lookups()).toHaveLength(2);
  });
});

describe('callers of one shared lookup', () => {
  it('do not cancel it for the others by an abort or a shorter deadline', async () => {
    sandbox.latency = 300;
    const controller = new AbortController();
    const leaves = find(SAM, { signal: controller.signal });
    const hurries = find(SAM, { deadline: 50 });
    const waits = find();
    const left = expect(leaves).rejects.toMatchObject({ code: 'aborted' });
    const late = expect(hurries).rejects.toMatchObject({ code: 'deadline_exceeded' });
    await eventually(() => lookups().length === 1);
    controller.abort();
    await Promise.all([left, late]);
    await expect(waits).resolves.toEqual(recordsOf(SAM));
    expect(lookups()).toHaveLength(1);
    expect(lookups()[0]?.aborted).toBe(false);
  });

  it('give it the longest of their deadlines', async () => {
    sandbox.latency = 400;
    const short = expect(find(SAM, { deadline: 100 })).rejects.toMatchObject({ code: 'deadline_exceeded' });
    const long = expect(find(SAM, { deadline: 5_000 })).resolves.toEqual(recordsOf(SAM));
    await Promise.all([short, long]);
    expect(lookups()).toHaveLength(1);
  });

  it('leave it running when all of them left: its answer is cached', async () => {
    sandbox.latency = 100;
    const subscriptions = [1, 2, 3].map(() =>
      host.exhibitors.lookup(EVENT, SAM, { tenant: 'acme' }).subscribe(),
    );
    await eventually(() => lookups().length === 1);
    subscriptions.forEach((subscription) => subscription.unsubscribe());
    await pause(300);
    await expect(find()).resolves.toEqual(recordsOf(SAM));
    expect(lookups()).toHaveLength(1);
    expect(lookups()[0]?.aborted).toBe(false);
  });
});

const withCache = (lookupCache: ExhibitorModuleOptions['lookupCache']) =>
  startRestHost({ tenant: sandbox.tenantOptions('acme'), lookupCache });

describe('lookupCache', () => {
  it('false sends a request each time, and still shares running ones', async () => {
    const { exhibitors, close } = await withCache(false);
    const ask = () => firstValueFrom(exhibitors.lookup(EVENT, SAM));
    await ask();
    await ask();
    await Promise.all([ask(), ask(), ask()]);
    expect(lookups()).toHaveLength(3);
    await close();
  });

  it('keeps the answers that were used last, up to maxBytes of their replies', async () => {
    const bytes = JSON.stringify(recordsOf(SAM)).length;
    const { exhibitors, close } = await withCache({ maxBytes: Math.floor(bytes * 2.5) });
    for (const name of ['sam.several', 'olga.one', 'sam.several', 'nora.none', 'sam.several']) {
      await firstValueFrom(exhibitors.lookup(EVENT, `${name}@example.com`));
    }
    await firstValueFrom(exhibitors.lookup('national-2026', SAM));
    await firstValueFrom(exhibitors.lookup('regional-2026', SAM));
    const before = lookups().length;
    await firstValueFrom(exhibitors.lookup('regional-2026', SAM));
    await firstValueFrom(exhibitors.lookup(EVENT, SAM));
    expect([before, lookups().length]).toEqual([5, 6]);
    await close();
  });

  it('does not keep an answer of more than maxBytes, and serves it', async () => {
    const { exhibitors, close } = await withCache({ maxBytes: 100 });
    for (const _ of [1, 2]) {
      expect(await firstValueFrom(exhibitors.lookup(EVENT, SAM))).toEqual(recordsOf(SAM));
    }
    expect(lookups()).toHaveLength(2);
    await close();
  });

  it('keeps an answer for the ttl', async () => {
    const { context, exhibitors, close } = await withCache({ ttl: 100_000 });
    const ask = () => firstValueFrom(exhibitors.lookup(EVENT, SAM));
    await ask();
    clockOf(context).skip(99_000);
    await ask();
    expect(lookups()).toHaveLength(1);
    clockOf(context).skip(1_001);
    await ask();
    expect(lookups()).toHaveLength(2);
    await close();
  });

  it('keeps the max answers that were used last', async () => {
    const { exhibitors, close } = await withCache({ max: 2 });
    for (const name of ['a', 'b', 'a', 'c', 'a', 'b']) {
      await firstValueFrom(exhibitors.lookup(EVENT, `${name}@example.com`));
    }
    expect(lookups().map(({ contactEmail }) => contactEmail?.charAt(0))).toEqual(['a', 'b', 'c', 'b']);
    await close();
  });

  it.each([
    ['a service that fails', { kind: 'status', status: 503 } as const],
    ['a service that limits', { kind: 'status', status: 429, headers: { 'retry-after': '3600' } } as const],
    ['a service that resets connections', { kind: 'reset', at: 'before-headers' } as const],
    ['a service that stalls', stall('before-headers')],
  ])('staleIfError returns an old answer for %s', async (_name, fault) => {
    const { context, exhibitors, close } = await withCache({ ttl: 1_000, staleIfError: 60_000 });
    const ask = () => firstValueFrom(exhibitors.lookup(EVENT, SAM, { deadline: 2_000 }));
    const first = await ask();
    clockOf(context).skip(1_001);
    sandbox.failNext('lookup', fault, Infinity);
    const outcomes = await messagesOn('nestjs-exhibitor:lookup', async () => {
      expect(await ask()).toBe(first);
    });
    expect(outcomes).toEqual([{ tenant: 'default', outcome: 'stale' }]);
    await close();
  });

  it('staleIfError does not apply to refusals, to fresh, or after an invalidation', async () => {
    const { context, exhibitors, close } = await withCache({ ttl: 1_000, staleIfError: 60_000 });
    const ask = (options = {}) => firstValueFrom(exhibitors.lookup(EVENT, SAM, options));
    await ask();
    clockOf(context).skip(1_001);
    sandbox.failNext('lookup', { kind: 'status', status: 403 });
    await expect(ask()).rejects.toMatchObject({ code: 'access_denied' });
    sandbox.failNext('lookup', { kind: 'status', status: 503 }, Infinity);
    await expect(ask({ fresh: true })).rejects.toMatchObject({ code: 'service_unavailable' });
    await exhibitors.invalidateLookups();
    await expect(ask()).rejects.toMatchObject({ code: 'service_unavailable' });
    await close();
  });
});

describe('the diagnostics channel of lookups', () => {
  it('reports hit or miss for each lookup, and no address', async () => {
    const messages = await messagesOn('nestjs-exhibitor:lookup', async () => {
      await find();
      await find();
      await find(SAM, { fresh: true });
    });
    expect(messages).toEqual([
      { tenant: 'acme', outcome: 'miss' },
      { tenant: 'acme', outcome: 'hit' },
      { tenant: 'acme', outcome: 'miss' },
    ]);
  });
});
