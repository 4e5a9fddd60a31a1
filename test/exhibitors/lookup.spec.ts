/** The lookup of a contact: its replies, also in several pages, of which never a part is taken for all; and its cache. */
import type { ServerResponse } from 'node:http';
import { beforeEach, describe, expect, it } from '@jest/globals';
import { firstValueFrom } from 'rxjs';
import { z } from 'zod';
import {
  TenantRegistry,
  TokenService,
  type ExhibitorModuleOptions,
  type HttpOptions,
} from '../../lib/index.js';
import { handMadeCases, honest, startRestHost, threeTenants, wrapper, type Answer } from './rest-host.js';
import { clockOf } from '../support/clock.js';
import { messagesOn } from '../support/messages.js';
import { aWhile, eventually, pause } from '../support/wait.js';
import { sendJson } from '../support/server.js';
import { stall, type AnyFault } from '../support/faults.js';
import { useClosing, useHost, useSandbox } from '../support/lifetimes.js';
import type { OtherOptions } from '../support/module-options.js';
import { traced } from '../support/traced-requests.js';

const SAM = 'sam.several@example.com';
const OLGA = 'olga.one@example.com';
const NORA = 'nora.none@example.com';
const EVENT = 'world-2026';

const { against } = handMadeCases();
const sandbox = await useSandbox();
const host = useHost(() => startRestHost(threeTenants(sandbox)));
beforeEach(async () => {
  await host.exhibitors.invalidateLookups();
  await Promise.all(['acme', 'globex'].map((tenant) => host.context.get(TokenService).getToken({ tenant })));
  sandbox.clearRequests();
});

const lookups = () => traced(sandbox).filter(({ operation }) => operation === 'lookup');
const find = (email = SAM, options: object = {}, eventId = EVENT) =>
  firstValueFrom(host.exhibitors.lookup(eventId, email, { tenant: 'acme', ...options }));
const recordsOf = (email: string) =>
  sandbox.exhibitors(EVENT, 'acme').filter(({ contactEmails }) => contactEmails.includes(email));
const down = { kind: 'status', status: 503, headers: { 'retry-after': '0' } } as const;

describe('lookup', () => {
  it('finds no, one and several exhibitors', async () => {
    const found = await Promise.all([find(NORA), find(OLGA), find(SAM)]);
    expect(found).toEqual([[], recordsOf(OLGA), recordsOf(SAM)]);
    expect(found.map(({ length }) => length)).toEqual([0, 1, 3]);
  });

  it('sends the address byte for byte', async () => {
    const odd = '"a:b=c&d@e"@例え.jp';
    const addresses = ['zoë+fair@example.com', 'Sam.Several@example.com', odd];
    await expect(find(addresses[0])).resolves.toEqual(recordsOf('zoë+fair@example.com'));
    await expect(find(addresses[1])).resolves.toEqual([]);
    await find(odd);
    expect(lookups().map(({ contactEmail }) => contactEmail)).toEqual(addresses);
  });

  it('fails like every call and does not cache the failure', async () => {
    sandbox.failNext('lookup', { kind: 'status', status: 403 });
    await expect(find()).rejects.toMatchObject({ code: 'access_denied', status: 403 });
    await expect(find()).resolves.toEqual(recordsOf(SAM));
  });
});

describe('the cache of lookups', () => {
  it('answers equal lookups without a request, also those without exhibitors; its records are frozen', async () => {
    for (const email of [SAM, NORA]) {
      const first = await find(email);
      expect(await find(email)).toBe(first);
      expect(Object.isFrozen(first)).toBe(true);
    }
    expect(Object.isFrozen((await find())[0]?.contactEmails)).toBe(true);
    expect(lookups()).toHaveLength(2);
  });

  it('distinguishes tenants, events and addresses byte for byte', async () => {
    const all = [
      ['acme', EVENT, SAM],
      ['globex', EVENT, SAM],
      ['acme', 'national-2026', SAM],
      ['acme', EVENT, 'SAM.several@example.com'],
      // The same text where event and address are concatenated. Their events are unknown: 404 is cached as no exhibitor.
      ['acme', 'a', 'bx@example.com'],
      ['acme', 'ab', 'x@example.com'],
    ] as const;
    for (const [tenant, eventId, email] of [...all, ...all]) {
      await find(email, { tenant }, eventId);
    }
    expect(lookups()).toHaveLength(all.length);
  });

  it('shares one request between equal lookups that are running', async () => {
    const all = await Promise.all(Array.from({ length: 50 }, () => find()));
    expect([new Set(all).size, lookups().length]).toEqual([1, 1]);
  });

  it('shares the attempts of one call, where the service does not answer', async () => {
    const limits = { attempts: 2, attemptTimeout: 100, deadline: 2_000 };
    const { exhibitors, service } = against(() => undefined, limits);
    const calls = Array.from({ length: 5 }, () => firstValueFrom(exhibitors.lookup(EVENT, SAM)));
    const failures = await Promise.all(calls.map((call) => call.catch(({ code }) => code)));
    expect(failures).toEqual(Array(5).fill('service_unavailable'));
    expect(service.urls).toHaveLength(2);
  });

  it.each<[string, renew: () => Promise<unknown>]>([
    ['a fresh one', () => find(SAM, { fresh: true })],
    ['an invalidation', () => host.exhibitors.invalidateLookups({ tenant: 'acme' })],
  ])('is not filled by a lookup that is older than %s', async (_what, renew) => {
    sandbox.failNext('lookup', { kind: 'delay', ms: 100 });
    const older = find();
    await eventually(() => lookups().length === 1);
    await renew();
    const newer = await find();
    expect(await older).toEqual(recordsOf(SAM));
    expect(await find()).toBe(newer);
    expect(await find()).not.toBe(await older);
    expect(lookups()).toHaveLength(2);
  });

  it('forgets the lookups that a filter names', async () => {
    const asked = async (
      filter?: Parameters<typeof host.exhibitors.invalidateLookups>[0],
      view = host.exhibitors,
    ) => {
      await view.invalidateLookups(filter);
      const before = lookups().length;
      await Promise.all([find(), find(OLGA), find(SAM, { tenant: 'globex' })]);
      return lookups().length - before;
    };
    expect(await asked()).toBe(3);
    expect(await asked({ tenant: 'initech' })).toBe(0);
    expect(await asked({ tenant: 'acme' })).toBe(2);
    expect(await asked({ contactEmail: SAM })).toBe(2);
    expect(await asked({ tenant: 'globex', eventId: EVENT, contactEmail: SAM })).toBe(1);
    expect(await asked({ eventId: 'another' })).toBe(0);
    // Of its tenant only, through a bound view.
    expect(await asked({}, host.exhibitors.forTenant('globex'))).toBe(1);
    expect(await asked()).toBe(3);
    host.context.get(TenantRegistry).forget('acme');
    await find();
    expect(lookups()).toHaveLength(3 + 2 + 2 + 1 + 1 + 3 + 1);
    await expect(asked({ contactEmail: 'nobody' })).rejects.toMatchObject({ code: 'invalid_argument' });
  });
});

/** Whenever they leave: leaving.spec.ts. */
it('callers of one shared lookup do not cancel it by an abort or a shorter deadline; its answer is cached', async () => {
  const held: ServerResponse[] = [];
  const { exhibitors, service } = against(({ response }) => void held.push(response));
  const ask = (options: object = {}) => firstValueFrom(exhibitors.lookup(EVENT, SAM, options));
  const caller = new AbortController();
  const left = expect(ask({ signal: caller.signal })).rejects.toMatchObject({ code: 'aborted', attempts: 1 });
  const late = expect(ask({ deadline: 50 })).rejects.toMatchObject({ code: 'deadline_exceeded' });
  const waits = ask();
  await eventually(() => held.length === 1);
  caller.abort();
  await Promise.all([left, late]);
  held.forEach((response) => sendJson(response, [{ id: 1 }]));
  expect([await waits, await ask()]).toEqual([[{ id: 1 }], [{ id: 1 }]]);
  expect([service.urls.length, service.aborted]).toEqual([1, 0]);
});

describe('lookupCache', () => {
  const closing = useClosing();
  /** A host with these options of the cache. */
  async function withCache(lookupCache: ExhibitorModuleOptions['lookupCache'], http?: HttpOptions) {
    const tenant = { ...sandbox.tenantOptions('acme'), http };
    const { exhibitors, context } = closing(await startRestHost({ tenant, lookupCache }));
    const ask = (name = 'sam.several', eventId = EVENT, options = {}) =>
      firstValueFrom(exhibitors.lookup(eventId, `${name}@example.com`, options));
    const tokens = context.get(TokenService);
    return { ask, exhibitors, tokens, skip: (ms: number) => clockOf(context).skip(ms) };
  }

  it('false sends a request each time, and still shares running ones', async () => {
    const { ask } = await withCache(false);
    await ask();
    await ask();
    await Promise.all([ask(), ask(), ask()]);
    expect(lookups()).toHaveLength(3);
  });

  it('keeps the answers that were used last, up to maxBytes of their replies', async () => {
    const bytes = JSON.stringify(recordsOf(SAM)).length;
    const { ask } = await withCache({ maxBytes: Math.floor(bytes * 2.5) });
    for (const name of ['sam.several', 'olga.one', 'sam.several', 'nora.none', 'sam.several']) {
      await ask(name);
    }
    await ask('sam.several', 'national-2026');
    await ask('sam.several', 'regional-2026');
    await ask('sam.several', 'regional-2026');
    expect(lookups()).toHaveLength(5);
    await ask();
    expect(lookups()).toHaveLength(6);
  });

  it('does not keep an answer of more than maxBytes, and serves it', async () => {
    const { ask } = await withCache({ maxBytes: 100 });
    expect([await ask(), await ask()]).toEqual([recordsOf(SAM), recordsOf(SAM)]);
    expect(lookups()).toHaveLength(2);
  });

  it.each([
    [100_000, { ttl: 100_000 }],
    [60_000, {}],
  ])('keeps an answer for the ttl, %i ms: %j', async (ttl, options) => {
    const { ask, skip } = await withCache(options);
    await ask();
    skip(ttl - 10_000);
    await ask();
    expect(lookups()).toHaveLength(1);
    skip(10_000);
    await ask();
    expect(lookups()).toHaveLength(2);
  });

  it('keeps the max answers that were used last', async () => {
    const { ask } = await withCache({ max: 2 });
    for (const name of ['a', 'b', 'a', 'c', 'a', 'b']) {
      await ask(name);
    }
    expect(lookups().map(({ contactEmail }) => contactEmail?.charAt(0))).toEqual(['a', 'b', 'c', 'b']);
  });

  const staleIfError = async (http?: HttpOptions) => {
    const cache = await withCache({ ttl: 1_000, staleIfError: 60_000 }, http);
    await cache.ask();
    cache.skip(1_001);
    return cache;
  };

  const stalls = stall('before-headers');
  const failsLate: AnyFault = {
    kind: 'custom',
    send: async (_request, response) => {
      await pause(390);
      response.writeHead(503).end();
    },
  };
  it.each<[string, AnyFault, HttpOptions]>([
    ['fails', down, {}],
    ['fails for good', { kind: 'status', status: 501 }, {}],
    ['limits', { kind: 'status', status: 429, headers: { 'retry-after': '3600' } }, {}],
    ['resets connections', { kind: 'reset' }, {}],
    ['stalls', stalls, { deadline: 400, attemptTimeout: 400 }],
    ['stalls in each attempt', stalls, { deadline: 1_000, attemptTimeout: 100 }],
    [
      'stalls in each attempt, of which the last has not had its time',
      stalls,
      { deadline: 1_000, attemptTimeout: 400 },
    ],
    ['fails late in each attempt', failsLate, { deadline: 1_000, attemptTimeout: 400 }],
    ['stalls in the middle of a reply', stall('mid-body'), { deadline: 400, attemptTimeout: 400 }],
  ])('staleIfError returns an old answer of a service that %s', async (_name, fault, http) => {
    const { ask } = await staleIfError(http);
    sandbox.failNext('lookup', fault, Infinity);
    const outcomes = await messagesOn('nestjs-exhibitor:lookup', async () => {
      expect(await ask()).toEqual(recordsOf(SAM));
    });
    expect(outcomes).toEqual([{ tenant: 'default', outcome: 'stale' }]);
  });

  it('staleIfError returns an old answer of a service that stalls, also to a caller with a short deadline', async () => {
    const { ask } = await staleIfError();
    sandbox.failNext('lookup', stalls);
    expect(await ask('sam.several', EVENT, { deadline: 200 })).toEqual(recordsOf(SAM));
  });

  it('the rest that a caller with a short deadline began ends where the lookup then succeeds', async () => {
    const { ask, skip } = await staleIfError();
    sandbox.failNext('lookup', { kind: 'delay', ms: 300 });
    const short = ask('sam.several', EVENT, { deadline: 100 });
    await Promise.all([short, ask()]);
    skip(1_001);
    const before = lookups().length;
    await ask();
    expect(lookups()).toHaveLength(before + 1);
  });

  it.each<[string, AnyFault, HttpOptions]>([
    ['fails', down, {}],
    ['stalls', stalls, { deadline: 400, attemptTimeout: 400 }],
    ['stalls in each attempt', stalls, { deadline: 1_000, attemptTimeout: 400 }],
  ])('staleIfError returns an old answer where the token endpoint %s', async (_name, fault, http) => {
    const { ask, tokens } = await staleIfError(http);
    await tokens.invalidate();
    sandbox.failNext('token', fault, Infinity);
    expect(await ask()).toEqual(recordsOf(SAM));
  });

  // What of our own a user can reach on purpose, so that an answer from before a change of rights would serve.
  describe('staleIfError does not apply where the service did not fail:', () => {
    const late: AnyFault = { kind: 'delay', ms: 300 };
    /** So many lookups of one contact, each of another event, which the service answers late. */
    const flood = async ({ ask }: Awaited<ReturnType<typeof staleIfError>>, count: number) => {
      const before = lookups().length;
      sandbox.failNext('lookup', late, Infinity);
      const calls = Array.from({ length: count }, (_, index) => ask('sam.several', `flood-${index}`));
      await eventually(() => lookups().length === before + Math.min(8, count));
      return Promise.allSettled(calls);
    };
    const unavailable = { code: 'service_unavailable', attempts: 0 };

    it.each<[string, count: number, object, HttpOptions, object]>([
      ['100 lookups of the contact wait', 108, unavailable, {}, {}],
      [
        'the deadline passes while the lookup waits',
        100,
        { code: 'deadline_exceeded' },
        {},
        { deadline: 100 },
      ],
      ['its own does', 100, { code: 'deadline_exceeded' }, { deadline: 600, attemptTimeout: 600 }, {}],
      ['the queue of the tenant is full', 17, unavailable, { maxConcurrent: 1 }, {}],
    ])('%s', async (_what, count, failure, http, call) => {
      const cache = await staleIfError(http);
      const all = http.maxConcurrent === undefined ? flood(cache, count) : crowd(cache, count);
      await aWhile();
      await expect(cache.ask('sam.several', EVENT, call)).rejects.toMatchObject(failure);
      sandbox.clearFaults();
      await all;
    });

    /** Lookups of other contacts, of which one is under way. */
    const crowd = async ({ ask }: Awaited<ReturnType<typeof staleIfError>>, count: number) => {
      const before = lookups().length;
      sandbox.failNext('lookup', { kind: 'delay', ms: 600 }, 1);
      const calls = Array.from({ length: count }, (_, index) => ask(`crowd-${index}`));
      await eventually(() => lookups().length === before + 1);
      return Promise.allSettled(calls);
    };

    it('this process has no file left', async () => {
      let hasFiles = true;
      const http: HttpOptions = {
        deadline: 2_000,
        dispatcher: ({ Agent, buildConnector }) => {
          const connect = buildConnector({});
          const limited: typeof connect = (options, callback) =>
            hasFiles
              ? connect(options, callback)
              : callback(Object.assign(new Error('connect'), { code: 'EMFILE' }), null);
          return new Agent({ connect: limited, pipelining: 0 });
        },
      };
      const lookupCache = { ttl: 1, staleIfError: 60_000 };
      const tenant = { ...sandbox.tenantOptions('acme'), http };
      const limited = await startRestHost({ tenant, lookupCache });
      const lookup = () => firstValueFrom(limited.exhibitors.lookup(EVENT, SAM));
      await lookup();
      hasFiles = false;
      await aWhile();
      await expect(lookup()).rejects.toMatchObject({ code: 'service_unavailable', attempts: 3 });
      await limited.close();
    });

    it('an interceptor of the host never ends', async () => {
      let isHanging = false;
      const axios: ExhibitorModuleOptions['axios'] = ({ interceptors }) =>
        interceptors.request.use((config) => (isHanging ? new Promise(() => undefined) : config));
      const lookupCache = { ttl: 1, staleIfError: 60_000 };
      const hanging = await startRestHost({ tenant: sandbox.tenantOptions('acme'), axios, lookupCache });
      const lookup = (deadline = 5_000) =>
        firstValueFrom(hanging.exhibitors.lookup(EVENT, SAM, { deadline }));
      await lookup();
      isHanging = true;
      await aWhile();
      await expect(lookup(200)).rejects.toMatchObject({ code: 'deadline_exceeded' });
      await hanging.close();
    });

    it('an interceptor of the host throws', async () => {
      let isBroken = false;
      const tenant = sandbox.tenantOptions('acme');
      const { exhibitors, context } = closing(
        await startRestHost({
          tenant,
          lookupCache: { ttl: 1_000, staleIfError: 60_000 },
          axios: ({ interceptors }) =>
            void interceptors.request.use((config) => {
              if (isBroken) {
                throw new TypeError('of the host');
              }
              return config;
            }),
        }),
      );
      const ask = () => firstValueFrom(exhibitors.lookup(EVENT, SAM));
      await ask();
      clockOf(context).skip(1_001);
      isBroken = true;
      await expect(ask()).rejects.toMatchObject({
        code: 'service_unavailable',
        cause: expect.any(TypeError),
      });
    });
  });

  it('staleIfError does not apply to refusals, to fresh, or after an invalidation', async () => {
    const { ask, exhibitors } = await staleIfError();
    sandbox.failNext('lookup', { kind: 'status', status: 403 });
    await expect(ask()).rejects.toMatchObject({ code: 'access_denied' });
    sandbox.failNext('lookup', down, Infinity);
    const unavailable = { code: 'service_unavailable' };
    await expect(ask('sam.several', EVENT, { fresh: true })).rejects.toMatchObject(unavailable);
    await exhibitors.invalidateLookups();
    await expect(ask()).rejects.toMatchObject(unavailable);
  });
});

it('fresh asks the service again; the diagnostics channel reports hit or miss for each lookup, and no address', async () => {
  const found: unknown[] = [];
  const messages = await messagesOn('nestjs-exhibitor:lookup', async () => {
    for (const options of [{}, {}, { fresh: true }, {}]) {
      found.push(await find(SAM, options));
    }
  });
  const outcomes = ['miss', 'hit', 'miss', 'hit'];
  expect(messages).toEqual(outcomes.map((outcome) => ({ tenant: 'acme', outcome })));
  expect([lookups().length, new Set(found).size, found[2] === found[3]]).toEqual([2, 2, true]);
});

const PATH = '/api/v1/exhibitor/event/e/contactEmail/sam.several%40example.com';

function caseOf(answer: Answer) {
  const { exhibitors, ...rest } = against(answer);
  return { ask: (call: object = {}) => firstValueFrom(exhibitors.lookup('e', SAM, call)), ...rest };
}

/** The lookup of an application with these options. */
async function answerTo(answer: Answer, options: OtherOptions): Promise<unknown> {
  const own = await startRestHost({ tenant: against(answer).service.tenant, ...options });
  return firstValueFrom(own.exhibitors.lookup('e', SAM)).finally(() => own.close());
}

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
    await expect(caseOf(answer).ask()).resolves.toEqual(records);
  });

  const nothing = 'not the exhibitors of a contact: ';
  const without = (members: string): string =>
    `${nothing}one object, without an id (option exhibitorId); its members: ${members}`;
  it.each<[string, unknown, unknown]>([
    ['a text', 'none', `${nothing}the reply is neither an object nor an array`],
    ['a number', 0, `${nothing}the reply is neither an object nor an array`],
    ['a wrapper without data', { paginationMetadata: none }, `${nothing}data is not an array`],
    ['a wrapper of one object', { paginationMetadata: none, data: {} }, `${nothing}data is not an array`],
    ['a list of texts', ['text'], '0 is not an object'],
    ['a list with an empty object', [{ id: 1 }, {}], '1 is an empty object'],
    [
      'a wrapper of an empty object',
      { paginationMetadata: { ...page, totalCount: 1 }, data: [{}] },
      '0 is an empty object',
    ],
    ['a message', { message: 'temporarily unavailable' }, without('message')],
    ['a message in PascalCase', { Message: 'No exhibitor', TraceId: 'a1' }, without('Message, TraceId')],
    [
      'an OAuth error',
      { error: 'server_error', error_description: 'x' },
      without('error, error_description'),
    ],
    ['errors', { data: null, errors: [{ code: 7 }] }, without('data, errors')],
    ['problem details', { type: 'about:blank', title: 'No', status: 500 }, without('type, title, status')],
    ['them in PascalCase', { Title: 'Not Found', Status: 404 }, without('Title, Status')],
    ['a flag', { success: false }, without('success')],
    ['a status', { status: 'ok' }, without('status')],
    ['a wrapper in PascalCase', { PaginationMetadata: none, Data: [] }, without('PaginationMetadata, Data')],
    ['one with a list', { Data: rows, Count: 2 }, without('Data, Count')],
    ['other wrappers', { items: [] }, without('items')],
    ['a result', { result: null }, without('result')],
    ['no data', { data: null }, without('data')],
    ['data of one object', { data: { id: 1 } }, without('data')],
    ['data beside a flag', { data: [], success: true }, without('data, success')],
    ['a record without an id', { name: 'Acme' }, without('name')],
    ['an id of null', { id: null }, without('id')],
    ['an id without text', { id: '', exhibitorId: ' ' }, without('id, exhibitorId')],
    ['an id that is no value', { id: { value: 1 }, exhibitorId: [7] }, without('id, exhibitorId')],
    ['an id that is true', { id: true }, without('id')],
    ['an id in other letters', { ID: 7, Id: 7 }, without('ID, Id')],
    ['an id of 257 bytes', { id: 'x'.repeat(257) }, without('id')],
    [
      'names that may be values, or are long',
      { 'sam@example.com': 1, 'a b\nc': 1, ['x'.repeat(65)]: 1, eyJhbGciOiJub25lIn0: 1, toString: 1 },
      without('*, *, *, [removed] toString'),
    ],
    [
      'many names',
      Object.fromEntries(Array.from({ length: 99 }, (_, i) => [`m${i}`, i])),
      expect.stringMatching(/its members: m0, m1, .{190,192}…$/),
    ],
  ])('is malformed as %s', async (_name, body, message) => {
    const { ask } = caseOf(({ response }) => sendJson(response, body));
    await expect(ask()).rejects.toMatchObject({ code: 'malformed_response', message });
  });

  const optional = z.object({ name: z.string().optional(), message: z.string().optional() });
  const named = z.object({ name: z.string() });
  const voided = z.object({}).transform((): Record<string, unknown> => JSON.parse('null'));
  const filled = z.object({ name: z.string().default('Acme') });
  const throws = (record: object): string => {
    throw new TypeError(`of the host: ${typeof record}`);
  };
  it.each<[string, unknown, OtherOptions, message: string]>([
    ['that exhibitorSchema refuses', { Message: 'no' }, { exhibitorSchema: named }, '0.name does not fit'],
    ['though it has an id', { id: 1, Message: 'no' }, { exhibitorSchema: named }, 'its members: id, Message'],
    ['of which it keeps nothing', { error: 'server_error' }, { exhibitorSchema: optional }, 'made nothing'],
    ['of a list, of which it keeps nothing', [{ error: 'x' }], { exhibitorSchema: optional }, 'made nothing'],
    ['of which it makes nothing', { Message: 'no' }, { exhibitorSchema: voided }, 'made nothing'],
    ['of a list, of which it makes nothing', [{ id: 1 }], { exhibitorSchema: voided }, 'made nothing'],
    ['that it fills', [{}], { exhibitorSchema: filled }, '0 is an empty object'],
    [
      'whose id the host cannot read',
      { id: 1, message: 'no' },
      { exhibitorId: throws },
      'one object, without an id',
    ],
    [
      'with another id than that of the host',
      { id: 1 },
      { exhibitorId: (one) => String(one['number']) },
      'one object, without an id',
    ],
    [
      'with a null there',
      { number: null },
      { exhibitorId: (one) => one['number'] as string },
      'one object, without an id',
    ],
    [
      'with an object there',
      { number: {} },
      { exhibitorId: (one) => one['number'] as string },
      'one object, without an id',
    ],
    [
      'with nothing in two parts',
      { id: 1 },
      { exhibitorId: ({ hall, no }) => `${hall}-${no}` },
      'one object, without an id',
    ],
    ['with an empty text', { number: 1 }, { exhibitorId: () => '' }, 'one object, without an id'],
    ['with NaN', { number: 1 }, { exhibitorId: ({ hall }) => Number(hall) }, 'one object, without an id'],
  ])('of one object %s is malformed', async (_why, body, options, message) => {
    const failure = { code: 'malformed_response', message: expect.stringContaining(message) };
    await expect(answerTo(() => body, options)).rejects.toMatchObject(failure);
  });

  it.each<[string, object, OtherOptions]>([
    ['an id', { id: 7, message: 'Welcome' }, {}],
    ['the id 0', { id: 0, success: false }, {}],
    ['an exhibitorId', { exhibitorId: 'b', title: 'Booth', status: 'open' }, {}],
    ['an exhibitorId beside an id of null', { id: null, exhibitorId: 'b' }, {}],
    [
      'the id of the host',
      { number: '7', message: 'Welcome' },
      { exhibitorId: (one) => String(one['number']) },
    ],
    ['the number of the host', { number: 7 }, { exhibitorId: (one) => Number(one['number']) }],
    ['members that exhibitorSchema accepts', { name: 'Acme', error: null }, { exhibitorSchema: optional }],
    ['paging information', { ...wrapper(1, 1, 1), message: 'OK', errors: [] }, {}],
  ])('is one exhibitor where it has %s', async (_what, body, options) => {
    await expect(answerTo(() => body, options)).resolves.toHaveLength(1);
  });
});

/** Pages of `size` records, of `total`; a request without a query is for page 1. */
const paged =
  (total: number, size: number, lies: Record<number, Answer> = {}): Answer =>
  (request) => {
    const page = request.page === 0 ? 1 : request.page;
    return lies[page]?.(request) ?? (page in lies ? undefined : honest(page, size, total));
  };
const upTo = (count: number) => Array.from({ length: count }, (_, id) => ({ id }));

describe('a lookup in several pages', () => {
  it('is read to its end with the page size of the first reply, and cached as a whole', async () => {
    const { service, ask } = caseOf(paged(7, 3));
    const first = await ask();
    expect(first).toEqual(upTo(7));
    expect(await ask()).toBe(first);
    expect(service.urls).toEqual([PATH, `${PATH}?Page=2&ItemsPerPage=3`, `${PATH}?Page=3&ItemsPerPage=3`]);
  });

  it('may have 20 pages; with more it is malformed, and nothing further is requested', async () => {
    await expect(caseOf(paged(40, 2)).ask()).resolves.toEqual(upTo(40));
    const { service, ask } = caseOf(paged(41, 2));
    const message = 'not the exhibitors of a contact: more than 20 pages';
    await expect(ask()).rejects.toMatchObject({ code: 'malformed_response', message });
    expect(service.urls).toHaveLength(1);
  });

  it.each<[string, Answer]>([
    ['repeats its first page', () => honest(1, 2, 6)],
    ['answers a page with too few records', paged(6, 2, { 2: () => wrapper(2, 1, 6, 2) })],
    ['answers an announced page with 404', paged(6, 2, { 2: ({ response }) => sendJson(response, {}, 404) })],
    ['says that its last page is not', paged(6, 2, { 3: () => wrapper(3, 2, 6, 2, { hasNextPage: true }) })],
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
    ['only a flag that says so', () => ({ paginationMetadata: { hasNextPage: true }, data: [{ id: 1 }] })],
    ['no data but a count', () => ({ ...wrapper(1, 0, 6, 2), data: null })],
  ])('is malformed with %s', async (_name, answer) => {
    await expect(caseOf(answer).ask()).rejects.toMatchObject({ code: 'malformed_response' });
  });

  it.each<[string, object]>([
    ['no metadata', { paginationMetadata: null }],
    ['empty metadata', { paginationMetadata: {} }],
    ['counts as text', { paginationMetadata: { currentPage: '1', totalCount: '2', totalPages: '1' } }],
    ['zeros', { paginationMetadata: { currentPage: 0, totalCount: 0, totalPages: 0, itemsPerPage: 0 } }],
    ['a complete page', wrapper(1, 2, 2)],
  ])('needs no further request where the wrapper is complete: %s', async (_name, body) => {
    const { service, ask } = caseOf(() => ({ ...body, data: upTo(2) }));
    await expect(ask()).resolves.toEqual(upTo(2));
    expect(service.urls).toEqual([PATH]);
  });

  it('checks the records of every page with the schema', async () => {
    const checked = answerTo(paged(6, 2), { exhibitorSchema: z.object({ id: z.number().max(4) }) });
    const message = '5.id does not fit exhibitorSchema';
    await expect(checked).rejects.toMatchObject({ code: 'malformed_response', message });
  });

  it('has one deadline for all its pages', async () => {
    const { service, ask } = caseOf((request) => {
      setTimeout(() => sendJson(request.response, paged(12, 2)(request)), 40);
    });
    await expect(ask({ deadline: 100 })).rejects.toMatchObject({ code: 'deadline_exceeded' });
    expect(service.urls.length).toBeLessThan(6);
  });
});
