/** The lookup of a contact: its replies, also in several pages, of which never a part is taken for all; and its cache. */
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it } from '@jest/globals';
import { firstValueFrom } from 'rxjs';
import { z } from 'zod';
import { TenantRegistry, TokenService, type ExhibitorModuleOptions } from '../../lib/index.js';
import type { ExhibitorSandbox } from '../../lib/testing/index.js';
import {
  handMadeCases,
  honest,
  messagesOn,
  startRestHost,
  threeTenants,
  wrapper,
  type Answer,
  type PageRequest,
  type RestHost,
} from './rest-host.js';
import { clockOf } from '../support/clock.js';
import { eventually } from '../support/wait.js';
import { sendJson } from '../support/server.js';
import { openRequests, startSandbox } from '../support/sandbox.js';
import { stall } from '../support/faults.js';
import type { OtherOptions } from '../support/module-options.js';
import { traced } from '../support/traced-requests.js';

const SAM = 'sam.several@example.com';
const EVENT = 'world-2026';

const { against } = handMadeCases();
let sandbox: ExhibitorSandbox;
let host: RestHost;

beforeAll(async () => {
  sandbox = await startSandbox();
  host = await startRestHost(threeTenants(sandbox));
});
afterAll(async () => {
  await host?.close();
  await sandbox?.stop();
});
beforeEach(async () => {
  await host.exhibitors.invalidateLookups();
  await Promise.all(['acme', 'globex'].map((tenant) => host.context.get(TokenService).getToken({ tenant })));
  sandbox.clearRequests();
});
afterEach(() => {
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
  const page = { currentPage: 1, totalCount: 2, totalPages: 1, itemsPerPage: 2 };
  const none = { ...page, totalCount: 0 };
  const rows = [{ id: 1 }, { id: 2 }];

  it.each<[string, Answer, unknown[]]>([
    ['an array', () => rows, rows],
    ['the wrapper', () => ({ paginationMetadata: page, data: rows }), rows],
    ['a wrapper without paging information', () => ({ data: rows }), rows],
    ['a wrapper of nothing', () => ({ paginationMetadata: none, data: null }), []],
    ['one object', () => ({ id: 1 }), [{ id: 1 }]],
    ['one object with a member data', () => ({ id: 1, data: ['x'] }), [{ id: 1, data: ['x'] }]],
    ['null', ({ response }) => sendJson(response, null), []],
    ['an empty object', () => ({}), []],
    ['an empty array', () => [], []],
    ['204', ({ response }) => void response.writeHead(204).end(), []],
    ['404', ({ response }) => sendJson(response, { error: 'not_found' }, 404), []],
    ['404 without JSON', ({ response }) => void response.writeHead(404).end('no'), []],
  ])('may be %s', async (_name, answer, records) => {
    const { exhibitors } = against(answer);
    await expect(firstValueFrom(exhibitors.lookup('e', SAM))).resolves.toEqual(records);
  });

  const nothing = 'not the exhibitors of a contact: ';
  it.each<[string, unknown, string]>([
    ['a text', 'none', `${nothing}the reply is neither an object nor an array`],
    ['a number', 0, `${nothing}the reply is neither an object nor an array`],
    ['a wrapper without data', { paginationMetadata: none }, `${nothing}data is not an array`],
    ['a wrapper of one object', { paginationMetadata: none, data: {} }, `${nothing}data is not an array`],
    ['a list of texts', ['text'], '0 is not an object'],
  ])('is malformed as %s', async (_name, body, message) => {
    const { exhibitors } = against(({ response }) => sendJson(response, body));
    const failure = { code: 'malformed_response', message };
    await expect(firstValueFrom(exhibitors.lookup('e', SAM))).rejects.toMatchObject(failure);
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
    sandbox.failNext('lookup', { kind: 'delay', ms: 100 });
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
    sandbox.failNext('lookup', { kind: 'delay', ms: 100 });
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
    sandbox.latency = 200;
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
    sandbox.latency = 200;
    const short = expect(find(SAM, { deadline: 50 })).rejects.toMatchObject({ code: 'deadline_exceeded' });
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
    await eventually(() => openRequests(sandbox) === 0);
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

  describe('staleIfError', () => {
    let stale: RestHost;
    beforeAll(async () => {
      stale = await withCache({ ttl: 1_000, staleIfError: 60_000 });
    });
    afterAll(() => stale?.close());
    const ask = (options = {}) => firstValueFrom(stale.exhibitors.lookup(EVENT, SAM, options));
    beforeEach(async () => {
      await stale.exhibitors.invalidateLookups();
      await ask();
      clockOf(stale.context).skip(1_001);
    });

    it.each([
      ['fails', { kind: 'status', status: 503, headers: { 'retry-after': '0' } } as const, 10_000],
      ['limits', { kind: 'status', status: 429, headers: { 'retry-after': '3600' } } as const, 10_000],
      ['resets connections', { kind: 'reset' } as const, 10_000],
      ['stalls', stall('before-headers'), 100],
    ])('returns an old answer of a service that %s', async (_name, fault, deadline) => {
      sandbox.failNext('lookup', fault, Infinity);
      const outcomes = await messagesOn('nestjs-exhibitor:lookup', async () => {
        expect(await ask({ deadline })).toEqual(recordsOf(SAM));
      });
      expect(outcomes).toEqual([{ tenant: 'default', outcome: 'stale' }]);
    });

    it('does not apply to refusals, to fresh, or after an invalidation', async () => {
      sandbox.failNext('lookup', { kind: 'status', status: 403 });
      await expect(ask()).rejects.toMatchObject({ code: 'access_denied' });
      const down = { kind: 'status', status: 503, headers: { 'retry-after': '0' } } as const;
      sandbox.failNext('lookup', down, Infinity);
      await expect(ask({ fresh: true })).rejects.toMatchObject({ code: 'service_unavailable' });
      await stale.exhibitors.invalidateLookups();
      await expect(ask()).rejects.toMatchObject({ code: 'service_unavailable' });
    });
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

const PATH = '/api/v1/exhibitor/event/e/contactEmail/sam.several%40example.com';

function caseOf(answer: Answer) {
  const { exhibitors, ...rest } = against(answer);
  return { ask: (call: object = {}) => firstValueFrom(exhibitors.lookup('e', SAM, call)), ...rest };
}

/** The same in an application with these options. */
async function caseWith(answer: Answer, options: OtherOptions) {
  const own = await startRestHost({ tenant: against(answer).service.tenant, ...options });
  return () => firstValueFrom(own.exhibitors.lookup('e', SAM)).finally(() => own.close());
}

/** Pages of `size` records, of `total`; a request without a query is for page 1. */
const paged =
  (total: number, size: number, lies: Record<number, (request: PageRequest) => unknown> = {}): Answer =>
  (request) => {
    const page = request.page === 0 ? 1 : request.page;
    const lie = lies[page];
    return lie === undefined ? honest(page, size, total) : lie(request);
  };

const ids = (records: readonly unknown[]) =>
  z
    .array(z.object({ id: z.number() }))
    .parse(records)
    .map(({ id }) => id);
const upTo = (count: number) => Array.from({ length: count }, (_, index) => index);

describe('a lookup in several pages', () => {
  it('is read to its end with the page size of the first reply', async () => {
    const { service, ask } = caseOf(paged(7, 3));
    expect(ids(await ask())).toEqual(upTo(7));
    expect(service.urls).toEqual([PATH, `${PATH}?Page=2&ItemsPerPage=3`, `${PATH}?Page=3&ItemsPerPage=3`]);
  });

  it('is cached as a whole', async () => {
    const { service, ask } = caseOf(paged(7, 3));
    const first = await ask();
    expect(await ask()).toBe(first);
    expect(service.urls).toHaveLength(3);
  });

  it('may have 20 pages', async () => {
    const { ask } = caseOf(paged(40, 2));
    expect(ids(await ask())).toEqual(upTo(40));
  });

  it('is malformed with more than 20 pages, and nothing further is requested', async () => {
    const { service, ask } = caseOf(paged(41, 2));
    await expect(ask()).rejects.toMatchObject({
      code: 'malformed_response',
      message: 'not the exhibitors of a contact: more than 20 pages',
    });
    expect(service.urls).toHaveLength(1);
  });

  it.each<[string, Answer]>([
    ['repeats its first page', () => honest(1, 2, 6)],
    [
      'repeats the rows of its first page',
      paged(6, 2, { 2: () => ({ ...honest(2, 2, 6), data: honest(1, 2, 6).data }) }),
    ],
    ['changes its count', paged(6, 2, { 3: () => wrapper(3, 2, 7, 2) })],
    ['changes its number of pages', paged(6, 2, { 2: () => wrapper(2, 2, 6, 2, { totalPages: 4 }) })],
    ['answers a page with too few records', paged(6, 2, { 2: () => wrapper(2, 1, 6, 2) })],
    ['answers an announced page with 404', paged(6, 2, { 2: ({ response }) => sendJson(response, {}, 404) })],
    [
      'says that its last page is not the last',
      paged(6, 2, { 3: () => wrapper(3, 2, 6, 2, { hasNextPage: true }) }),
    ],
    ['starts with a later page', () => honest(2, 2, 4)],
    ['counts more records than its pages hold', () => wrapper(1, 2, 9, 50, { totalPages: 1 })],
    ['says that its only page is not the last', () => wrapper(1, 2, 2, 50, { hasNextPage: true })],
  ])('is pagination_drift where the service %s, and is not cached', async (_name, answer) => {
    const { service, ask, tenant } = caseOf(answer);
    await expect(ask()).rejects.toMatchObject({ code: 'pagination_drift', tenant });
    const before = service.urls.length;
    await expect(ask()).rejects.toMatchObject({ code: 'pagination_drift' });
    expect(service.urls.length).toBe(2 * before);
  });

  it.each<[string, Answer]>([
    ['a further page that is no page', paged(6, 2, { 2: () => [{ id: 2 }, { id: 3 }] })],
    ['unusable counts that say there is more', () => wrapper(1, 2, 6, 2, { totalCount: '6' })],
    [
      'only a flag that says there is more',
      () => ({ paginationMetadata: { hasNextPage: true }, data: [{ id: 1 }] }),
    ],
    ['no data but a count', () => ({ ...wrapper(1, 0, 6, 2), data: null })],
  ])('is malformed with %s', async (_name, answer) => {
    const { ask } = caseOf(answer);
    await expect(ask()).rejects.toMatchObject({ code: 'malformed_response' });
  });

  it.each<[string, object]>([
    ['no metadata', { paginationMetadata: null }],
    ['empty metadata', { paginationMetadata: {} }],
    ['counts as text', { paginationMetadata: { currentPage: '1', totalCount: '2', totalPages: '1' } }],
    ['zeros', { paginationMetadata: { currentPage: 0, totalCount: 0, totalPages: 0, itemsPerPage: 0 } }],
    ['a complete page', wrapper(1, 2, 2)],
  ])('needs no further request where the wrapper is complete: %s', async (_name, body) => {
    const data = [{ id: 0 }, { id: 1 }];
    const { service, ask } = caseOf(() => ({ ...body, data }));
    await expect(ask()).resolves.toEqual(data);
    expect(service.urls).toEqual([PATH]);
  });

  it('checks the records of every page with the schema', async () => {
    const exhibitorSchema = z.object({ id: z.number().max(4) });
    const ask = await caseWith(paged(6, 2), { exhibitorSchema });
    await expect(ask()).rejects.toMatchObject({
      code: 'malformed_response',
      message: '5.id does not fit exhibitorSchema',
    });
  });

  it('has one deadline for all its pages', async () => {
    const slow: Answer = (request) => {
      setTimeout(() => sendJson(request.response, paged(12, 2)(request)), 40);
    };
    const { service, ask } = caseOf(slow);
    await expect(ask({ deadline: 100 })).rejects.toMatchObject({ code: 'deadline_exceeded' });
    expect(service.urls.length).toBeLessThan(6);
  });
});

describe('an object that looks like an error', () => {
  const optional = z.object({ name: z.string().optional(), message: z.string().optional() });

  it.each<[string, object]>([
    ['a message', { message: 'temporarily unavailable' }],
    ['an OAuth error', { error: 'server_error', error_description: 'try later' }],
    ['errors', { data: null, errors: [{ code: 7 }] }],
    ['problem details', { type: 'about:blank', title: 'Internal Server Error', status: 500 }],
  ])('is no exhibitor: %s', async (_name, body) => {
    const { ask } = caseOf(() => body);
    await expect(ask()).rejects.toMatchObject({
      code: 'malformed_response',
      message: 'not the exhibitors of a contact: the reply looks like an error',
    });
  });

  it.each([{ error: 'server_error' }, { name: 'Acme', error: null, message: 'Welcome' }])(
    'is no exhibitor without an id, whatever fields the schema has: %j',
    async (body) => {
      const ask = await caseWith(() => body, { exhibitorSchema: optional });
      await expect(ask()).rejects.toMatchObject({ code: 'malformed_response' });
    },
  );

  it.each<[string, object, OtherOptions]>([
    ['has an id', { id: 7, message: 'Welcome' }, {}],
    ['has an exhibitorId', { exhibitorId: 'b', title: 'Booth', status: 'open' }, {}],
    [
      'has the id of the host',
      { number: '7', message: 'Welcome' },
      { exhibitorId: (one) => String(one['number']) },
    ],
    ['has a title only', { title: 'Booth' }, {}],
  ])('is an exhibitor where it %s', async (_name, body, options) => {
    const ask = await caseWith(() => body, options);
    await expect(ask()).resolves.toHaveLength(1);
  });

  it('is a wrapper where it has paging information beside a message', async () => {
    const { ask } = caseOf(() => ({ ...wrapper(1, 2, 2), message: 'OK', errors: [] }));
    await expect(ask()).resolves.toHaveLength(2);
  });

  it('is no exhibitor where the host cannot read its id', async () => {
    const exhibitorId = (record: object): string => {
      throw new TypeError(`of the host: ${typeof record}`);
    };
    const ask = await caseWith(() => ({ message: 'no' }), { exhibitorId });
    await expect(ask()).rejects.toMatchObject({ code: 'malformed_response' });
  });
});
