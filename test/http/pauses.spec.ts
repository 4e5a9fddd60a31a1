/** Partners that ask for a pause or need one, with real servers: what is sent meanwhile. The table: test/call/rests.spec.ts. */
import type { IncomingMessage, ServerResponse } from 'node:http';
import { afterEach, describe, expect, it, jest } from '@jest/globals';
import { firstValueFrom } from 'rxjs';
import { TokenService, type ExhibitorModuleOptions, type HttpOptions } from '../../lib/index.js';
import { startRestHost } from '../exhibitors/rest-host.js';
import { clockOf, KEPT_TIMERS } from '../support/clock.js';
import { useClosing } from '../support/lifetimes.js';
import { sendJson, startServer } from '../support/server.js';
import { tenantAt } from '../support/tenant-at.js';
import { eventually, pause, turns } from '../support/wait.js';
import { ending } from './transport-bench.js';

const closing = useClosing();
// Before the host of a test is closed.
afterEach(() => void jest.useRealTimers());
const TOKEN = { access_token: 'a-token', token_type: 'Bearer', expires_in: 3_600 };
const times = (count: number) => Array.from({ length: count }, (_, index) => index);

type Listener = (request: IncomingMessage, response: ServerResponse) => void;

/** A host with two tenants of one service, whose replies a test writes: those of the REST API, or of the token endpoint. */
async function start(
  replies: { api?: Listener; token?: Listener },
  http: HttpOptions = {},
  options: Pick<ExhibitorModuleOptions, 'lookupCache' | 'exhibitorSchema'> = {},
) {
  const seen = { api: 0, token: 0 };
  const listeners: Required<typeof replies> = {
    api: (_request, response) => sendJson(response, []),
    token: (_request, response) => sendJson(response, TOKEN),
    ...replies,
  };
  const server = ending(
    await startServer((request, response) => {
      const kind = request.method === 'POST' ? 'token' : 'api';
      seen[kind] += 1;
      listeners[kind](request, response);
    }),
  );
  const tenant = { ...tenantAt(server.url), http };
  const tenants = { acme: tenant, globex: { ...tenant, tenantId: 'globex' } };
  const { exhibitors, context } = closing(await startRestHost({ tenants, ...options }));
  const find = (name = 'sam', deadline?: number, key = 'acme') =>
    firstValueFrom(exhibitors.lookup('event', `${name}@example.com`, { tenant: key, deadline })).catch(
      (error: unknown) => error,
    );
  const list = (deadline?: number) =>
    firstValueFrom(exhibitors.list('event', { tenant: 'acme', deadline })).catch((error: unknown) => error);
  const tokens = context.get(TokenService);
  const token = () => tokens.getToken({ tenant: 'acme' }).catch((error: unknown) => error);
  return { seen, listeners, find, list, token, tokens, skip: clockOf(context).skip };
}

const limits =
  (retryAfter: string, status = 429): Listener =>
  (_request, response) =>
    sendJson(response, {}, status, { 'retry-after': retryAfter });
const page = {
  paginationMetadata: { currentPage: 1, totalCount: 0, totalPages: 0, itemsPerPage: 50 },
  data: [],
};
const limited = { code: 'rate_limited', attempts: 0, retryAfterMs: expect.any(Number) };

describe('a service that answers 429 with Retry-After', () => {
  it('is left alone: calls that have the time wait, and others fail at once', async () => {
    const { seen, listeners, list, find } = await start({ api: limits('0.6') });
    const first = list();
    await eventually(() => seen.api === 1);
    await pause(50);
    listeners.api = (_request, response) => sendJson(response, page);
    const waiting = times(20).map(() => list());
    const late = times(20).map(() => list(300));
    expect(await Promise.all(late)).toMatchObject(times(20).map(() => limited));
    expect(seen.api).toBe(1);
    // Lookups are another purpose.
    listeners.api = (_request, response) => sendJson(response, []);
    expect(await find()).toEqual([]);
    listeners.api = (_request, response) => sendJson(response, page);
    expect(await Promise.all([first, ...waiting])).toEqual(times(21).map(() => page));
    expect(seen.api).toBe(1 + 1 + 21);
  });

  it('has 16 waiting calls for each slot; more fail at once', async () => {
    const { seen, listeners, list } = await start({ api: limits('0.6') }, { maxConcurrent: 1 });
    const first = list();
    await eventually(() => seen.api === 1);
    await pause(50);
    listeners.api = (_request, response) => sendJson(response, page);
    const ends = await Promise.all(times(20).map(() => list()));
    // The first one waits as well, for its second attempt.
    expect(ends.filter((end) => end instanceof Error)).toMatchObject(times(5).map(() => limited));
    expect([await first, seen.api]).toEqual([page, 1 + 16]);
  });

  it('for longer than a rest lasts is asked again by the call that heard it only then, where the call has the time', async () => {
    jest.useFakeTimers({ doNotFake: [...KEPT_TIMERS] });
    const { seen, listeners, list, skip } = await start({ api: limits('90') });
    const pass = async (ms: number): Promise<void> => {
      skip(ms);
      jest.advanceTimersByTime(ms);
      await turns();
    };
    const call = list(200_000);
    await turns();
    listeners.api = (_request, response) => sendJson(response, page);
    await pass(70_000);
    expect(seen.api).toBe(1);
    await pass(20_000);
    expect([await call, seen.api]).toEqual([page, 2]);
  });

  it('to one contact holds up no other, unless another contact is limited meanwhile; and never another tenant', async () => {
    const { listeners, find, seen } = await start({ api: limits('60') });
    expect(await find('mallory')).toMatchObject({ code: 'rate_limited', attempts: 1, retryAfterMs: 60_000 });
    expect(await find('mallory')).toMatchObject(limited);
    listeners.api = (_request, response) => sendJson(response, []);
    expect(await find('olga')).toEqual([]);
    listeners.api = limits('60');
    expect(await find('nora')).toMatchObject({ attempts: 1 });
    const before = seen.api;
    listeners.api = (_request, response) => sendJson(response, []);
    expect(await find('pat')).toMatchObject(limited);
    expect(seen.api).toBe(before);
    expect(await find('pat', undefined, 'globex')).toEqual([]);
  });
});

it('a request that waited for a slot is not sent in a pause that began meanwhile', async () => {
  const waiting: ServerResponse[] = [];
  const { seen, list } = await start(
    { api: (_request, response) => void waiting.push(response) },
    { maxConcurrent: 1, attempts: 1 },
  );
  const calls = [list()];
  await eventually(() => waiting.length === 1);
  calls.push(list(), list(), list(), list());
  await pause(50);
  const timer = setInterval(() => {
    for (const response of waiting.splice(0)) {
      sendJson(response, {}, 429, { 'retry-after': '30' });
    }
  }, 20);
  const errors = (await Promise.all(calls)) as { code: string; attempts: number }[];
  clearInterval(timer);
  const one = errors.map(({ code, attempts }) => `${code} ${attempts}`);
  expect(one).toEqual(['rate_limited 1', ...Array<string>(4).fill('rate_limited 0')]);
  expect(seen.api).toBe(1);
});

it('a service that answers 503 with Retry-After fails that call only: it may be about one event', async () => {
  const { seen, list, find } = await start({ api: limits('60', 503) });
  for (const requests of [1, 2]) {
    for (const failing of [await list(), await find()]) {
      expect(failing).toMatchObject({ code: 'service_unavailable', attempts: 1, retryAfterMs: 60_000 });
    }
    expect(seen.api).toBe(2 * requests);
  }
});

describe('a token endpoint that says Retry-After: 60', () => {
  it.each([
    [429, 'rate_limited'],
    [503, 'token_unavailable'],
  ])('with %i is asked once, not 30 times a second', async (status, code) => {
    const { seen, listeners, token, skip } = await start({ token: limits('60', status) });
    const first = await token();
    expect(first).toMatchObject({ code, status, attempts: 1, retryAfterMs: 60_000 });
    for (const _ of times(30)) {
      expect(await token()).toMatchObject({ code, attempts: 0, retryAfterMs: expect.any(Number) });
    }
    expect(seen.token).toBe(1);
    listeners.token = (_request, response) => sendJson(response, TOKEN);
    skip(60_000);
    expect(await token()).toMatchObject({ accessToken: 'a-token' });
  });

  it('while a token is held, is asked once; the held token serves', async () => {
    const { seen, listeners, token, skip } = await start({});
    await token();
    listeners.token = limits('60');
    skip(3_600_000 - 25_000);
    for (const _ of times(30)) {
      expect(await token()).toMatchObject({ accessToken: 'a-token' });
      await pause(2);
      // Longer than the pause after any other failure.
      skip(500);
    }
    expect(seen.token).toBe(2);
  });
});

describe('a lookup that several calls share', () => {
  it('has the time of the call that has most: one that joined with 10 s failed after 102 ms', async () => {
    const { seen, find, token } = await start(
      { api: (_request, response) => void setTimeout(() => sendJson(response, []), 400) },
      { deadline: 100 },
    );
    await token();
    const first = find();
    await pause(50);
    const joined = find('sam', 10_000);
    expect(await first).toMatchObject({ code: 'deadline_exceeded' });
    expect([await joined, seen.api]).toEqual([[], 1]);
  });

  it('and that runs out of time is followed by another one for a call that joined it late', async () => {
    const { seen, listeners, find, token } = await start(
      { api: () => undefined },
      { deadline: 300, attemptTimeout: 300, attempts: 1 },
    );
    await token();
    const first = find();
    await eventually(() => seen.api === 1);
    const joined = find('sam', 10_000);
    listeners.api = (_request, response) => sendJson(response, []);
    expect(await first).toMatchObject({
      code: expect.stringMatching(/deadline_exceeded|service_unavailable/),
    });
    expect([await joined, seen.api]).toEqual([[], 2]);
  });

  it('and that code of the host never ends is followed by another one after a deadline, however many join it', async () => {
    let checked = 0;
    const validate = () =>
      new Promise<{ value: object }>((resolve) => ++checked > 1 && resolve({ value: { id: 1 } }));
    const exhibitorSchema = { '~standard': { version: 1, vendor: 'test', validate } } as never;
    const { seen, find } = await start(
      { api: (_request, response) => sendJson(response, [{ id: 1 }]) },
      { deadline: 400 },
      { exhibitorSchema },
    );
    const ends: Promise<unknown>[] = [];
    for (const _ of times(12)) {
      ends.push(find());
      await pause(50);
    }
    const found = await Promise.all(ends);
    expect(found[0]).toMatchObject({ code: 'deadline_exceeded' });
    expect([found.at(-1), seen.api]).toEqual([[{ id: 1 }], 2]);
  });
});

it('staleIfError: the old answer of a lookup that failed serves at once for 5 s, not after a whole deadline', async () => {
  const lookupCache = { ttl: 1_000, staleIfError: 600_000 };
  const { seen, listeners, find, skip } = await start(
    {},
    { deadline: 1_000, attemptTimeout: 1_000 },
    { lookupCache },
  );
  expect(await find()).toEqual([]);
  listeners.api = () => undefined;
  skip(1_001);
  for (const requests of [2, 3]) {
    for (const _ of times(20)) {
      expect(await find()).toEqual([]);
      expect(seen.api).toBe(requests);
      // An answer that serves does not make the rest longer.
      skip(200);
    }
    skip(1_000);
  }
});

describe('staleIfError: the old answer of a lookup that is not sent serves', () => {
  const lookupCache = { ttl: 1_000, staleIfError: 600_000 };

  it('where no token came for another lookup a moment ago', async () => {
    const token: Listener = (_request, response) => sendJson(response, { ...TOKEN, expires_in: 60 });
    const { seen, listeners, find, skip } = await start({ token }, { attempts: 1 }, { lookupCache });
    expect([await find('sam'), await find('pat')]).toEqual([[], []]);
    listeners.token = (_request, response) => sendJson(response, {}, 500);
    skip(61_000);
    expect([await find('sam'), await find('pat')]).toEqual([[], []]);
    expect(seen.api).toBe(2);
  });

  it('but not in the pause of its own contact, which a user can cause', async () => {
    const { seen, listeners, find, skip } = await start({}, { attempts: 1 }, { lookupCache });
    expect(await find('sam')).toEqual([]);
    skip(1_001);
    listeners.api = limits('60');
    expect([await find('sam'), seen.api]).toEqual([[], 2]);
    // The rest of that lookup is over, the pause of its contact is not.
    skip(5_001);
    expect(await find('sam')).toMatchObject(limited);
    expect(seen.api).toBe(2);
  });

  it('while the circuit is open', async () => {
    const { seen, listeners, find, skip } = await start({}, { attempts: 1 }, { lookupCache });
    expect(await find('sam')).toEqual([]);
    listeners.api = (request) => void request.socket.destroy();
    skip(1_001);
    await Promise.all(times(45).map((index) => find(`guest-${index}`)));
    const { api } = seen;
    expect(await find('sam')).toEqual([]);
    expect(seen.api).toBe(api);
  });
});
