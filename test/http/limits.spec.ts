import { once } from 'node:events';
import type { ServerResponse } from 'node:http';
import { Worker } from 'node:worker_threads';
import { afterEach, beforeEach, describe, expect, it } from '@jest/globals';
import * as fc from 'fast-check';
import { Agent } from 'undici';
import { backOff, parseRetryAfter, waitBeforeRetry } from '../../lib/http/limits/retry-policy.js';
import type { HttpOptions } from '../../lib/index.js';
import type { Outcome } from '../../lib/http/outcome.js';
import type { Operation } from '../../lib/http/transport-request.interface.js';
import { ending, Sender } from './transport-bench.js';
import { TestClock } from '../support/clock.js';
import { tenantAt } from '../support/tenant-at.js';
import { type TestServer, sendJson, startServer } from '../support/server.js';
import { eventually, pause } from '../support/wait.js';

const chance = fc.double({ min: 0, max: 1, maxExcluded: true, noNaN: true });

describe('the wait before a retry', () => {
  it('is random between 0 and 100 ms, doubled after each failure, at most 2 s', () => {
    fc.assert(
      fc.property(fc.integer({ min: 1, max: 40 }), chance, (attempt, luck) => {
        const most = Math.min(2_000, 100 * 2 ** (attempt - 1));
        expect(backOff(attempt, 1)).toBe(most);
        expect(backOff(attempt, luck)).toBeCloseTo(most * luck, 6);
      }),
    );
  });

  it('is at least Retry-After, and not started where that does not fit', () => {
    const outcome: Outcome = {
      kind: 'answered',
      code: 'service_unavailable',
      status: 503,
      headers: {},
      body: undefined,
      sentAt: 0,
    };
    const times = fc.tuple(fc.nat(20_000), fc.integer({ min: 1, max: 20_000 }));
    fc.assert(
      fc.property(times, chance, ([retryAfterMs, remaining], random) => {
        const wait = waitBeforeRetry({ outcome, attempt: 1, attempts: 3, retryAfterMs, remaining, random });
        expect(wait === undefined).toBe(retryAfterMs >= remaining);
        if (wait !== undefined) {
          expect(wait).toBeGreaterThanOrEqual(retryAfterMs);
          expect(wait).toBeLessThan(remaining);
        }
      }),
    );
  });
});

describe('Retry-After', () => {
  const NOW = Date.UTC(2026, 8, 1, 12, 0, 0);

  it.each<[string, number | undefined]>([
    [' 7 ', 7_000],
    ['9'.repeat(400), Number.MAX_SAFE_INTEGER],
    ['Tue, 01 Sep 2026 12:00:30 GMT', 30_000],
    ['Tuesday, 01-Sep-26 12:00:30 GMT', 30_000],
    ['Tue Sep  1 12:00:30 2026', 30_000],
    ['Tue, 01 Sep 2026 11:59:59 GMT', 0],
    ['', undefined],
    ['-1', undefined],
    ['30.5', 30_500],
    ['0.0001', 1],
    ['30, 5', 30_000],
    ['5,30.5', 30_500],
    ['-1, 5', 5_000],
    ['Tue, 01 Sep 2026 12:00:30 GMT, Tue, 01 Sep 2026 12:00:40 GMT', 40_000],
    ['5, Tue Sep  1 12:00:30 2026', 30_000],
    ['Tue, 01 Sep 2026 12:00:30 UTC', 30_000],
    ['Tue, 01 Sep 2026 14:00:30 +0200', 30_000],
    ['1.5.5', undefined],
    ['1,5 s', 1_000],
    ['1e3', undefined],
    ['0x10', undefined],
    ['soon', undefined],
    ['soon, 20', 20_000],
    ['20, Sunday, 06-Nov-94 08:49:37 GMT', 20_000],
    ['2026-09-01T12:00:30Z', undefined],
    ['Tue, 99 Xyz 2026 12:00:30 GMT', undefined],
  ])('is seconds or a date of HTTP, RFC 850 or asctime, else none: %j is %p', (value, ms) => {
    expect(parseRetryAfter(value, NOW)).toBe(ms);
  });
});

describe('the limits of a tenant', () => {
  let server: TestServer;
  let sender: Sender;
  let isIll: boolean;
  const held: ServerResponse[] = [];

  beforeEach(async () => {
    isIll = true;
    held.length = 0;
    server = await startServer((request, response) => {
      if (request.url?.startsWith('/hold') === true) {
        held.push(response);
      } else if (isIll && request.url?.startsWith('/ill') === true) {
        response.destroy();
      } else {
        sendJson(response);
      }
    });
    ending(server);
  });

  const tenants = () => ({ ill: tenantAt(`${server.url}/ill`), well: tenantAt(`${server.url}/well`) });
  const send = (tenant: 'ill' | 'well', operation: Operation = 'list') =>
    sender.send({ operation }, { tenant });
  const served = { status: 200 };
  const refused = { code: 'service_unavailable', attempts: 0, retryAfterMs: expect.any(Number) };
  const CODE = { operation: 'code', method: 'POST', isOnce: true };

  it.each([
    ['lookup', ['list', 'token', 'userinfo', 'code', 'keys']],
    ['list', ['lookup', 'token', 'userinfo', 'code', 'keys']],
    ['token', ['list', 'lookup', 'userinfo', 'code', 'keys']],
    ['userinfo', ['list', 'lookup', 'token', 'code', 'keys']],
  ] as const)('open the circuit of its %s only: each purpose has one of its own', async (ill, well) => {
    sender = ending(Sender.withTenants(tenants(), { attempts: 1 }));
    for (let call = 0; call < 45; call += 1) {
      await expect(send('ill', ill)).rejects.toMatchObject({ code: 'service_unavailable' });
    }
    // 40, and the replay of each.
    expect(server.requests).toHaveLength(80);
    await expect(send('well', ill)).resolves.toMatchObject(served);
    isIll = false;
    for (const operation of well) {
      await expect(send('ill', operation)).resolves.toMatchObject(served);
    }
    await expect(send('ill', ill)).rejects.toMatchObject(refused);
  });

  it('let requests pass again after 5 s, and count from 0', async () => {
    const moved = new TestClock();
    sender = ending(Sender.with(`${server.url}/ill`, { attempts: 1 }, moved));
    // Of those under way at once, 24 end after it has opened, and count no more.
    const ends = await Promise.all(Array.from({ length: 64 }, () => sender.send().catch((error) => error)));
    expect(ends).toMatchObject(ends.map(() => ({ code: 'service_unavailable', attempts: 2 })));
    await expect(sender.send()).rejects.toMatchObject({ attempts: 0 });
    for (const opened of [1, 2]) {
      moved.ahead = opened * 5_000;
      for (let call = 0; call < 42; call += 1) {
        await expect(sender.send()).rejects.toMatchObject({ attempts: call < 40 ? 2 : 0 });
      }
      moved.ahead += 4_000;
      await expect(sender.send()).rejects.toMatchObject({ attempts: 0 });
    }
    moved.ahead = 15_000;
    isIll = false;
    await expect(sender.send()).resolves.toMatchObject(served);
    expect(server.requests).toHaveLength(2 * 64 + 2 * 80 + 1);
  });

  const CLOSED_PORT = 'http://127.0.0.1:9';
  type Call = { request?: object; deadline?: number };
  /** By 5xx, or where others are answered meanwhile, it stays closed: test/exhibitors/lookup-noise.spec.ts. */
  it.each<[opens: boolean, what: string, http: HttpOptions, call: Call]>([
    [true, 'have no reply when the time of an attempt is over', { attemptTimeout: 200 }, {}],
    [true, 'have no reply by a deadline of the same time', { attemptTimeout: 300, deadline: 300 }, {}],
    [false, 'had less time than an attempt', {}, { deadline: 200 }],
    [true, 'redeem a code, and find no service', {}, { request: { ...CODE, url: CLOSED_PORT } }],
    [false, 'redeem a code, and are reset', {}, { request: { ...CODE, url: '/ill' } }],
  ])('open the circuit (%p) by calls that %s', async (opens, _what, http, { request, deadline }) => {
    sender = ending(Sender.with(server.url, { attempts: 1, ...http }));
    const given = { url: '/hold', ...request };
    const url = new URL(given.url, server.url).href;
    const next = async (): Promise<unknown> => {
      const calls = Array.from({ length: 45 }, () => sender.send({ ...given, url }, { deadline }));
      await Promise.allSettled(calls);
      return sender.send({ ...given, url: new URL('/well', url).href }).catch((error: unknown) => error);
    };
    if (!opens) {
      expect(await next()).toMatchObject(served);
      return;
    }
    // Where this machine is busy, the first ones may end late, and count for nothing.
    await eventually(async () => Object(await next()).attempts === 0, 10_000);
    expect(await next()).toMatchObject(refused);
  });

  it('count no call that is aborted, however long it waited', async () => {
    const moved = new TestClock();
    sender = ending(Sender.with(server.url, { attempts: 1 }, moved));
    const controller = new AbortController();
    const call = { signal: controller.signal };
    const aborted = Array.from({ length: 45 }, () => sender.send({ url: `${server.url}/hold` }, call));
    await eventually(() => held.length === 45);
    moved.ahead = 3_900;
    controller.abort();
    await Promise.allSettled(aborted);
    await expect(sender.send()).resolves.toMatchObject(served);
  });

  it('are those of the module for a published document, one of each URL and dispatcher', async () => {
    const small = { maxConcurrent: 1, attempts: 1, attemptTimeout: 50, maxResponseBytes: 1_024 };
    const dispatcher = () => made;
    const made = new Agent();
    sender = ending(
      Sender.withTenants({
        ill: tenantAt(server.url, small),
        well: tenantAt(server.url),
        proxied: tenantAt(server.url, { dispatcher }),
      }),
    );
    const get = (tenant: string, path: string, operation: Operation = 'keys') =>
      sender.send({ operation, url: server.url + path }, { tenant });
    const calls = ['ill', 'ill', 'ill'].map((tenant) => get(tenant, '/hold'));
    await eventually(() => held.length === 3);
    await pause(100);
    held.splice(0).forEach((response) => sendJson(response, ['x'.repeat(2_000)]));
    await expect(Promise.all(calls)).resolves.toHaveLength(3);
    server.requests.length = 0;
    await Promise.allSettled(Array.from({ length: 45 }, () => get('well', '/ill/keys')));
    const sent = server.requests.length;
    await expect(get('ill', '/ill/keys', 'metadata')).rejects.toMatchObject(refused);
    expect(server.requests).toHaveLength(sent);
    await expect(get('well', '/well/keys')).resolves.toMatchObject(served);
    isIll = false;
    await expect(get('proxied', '/ill/keys')).resolves.toMatchObject(served);
    await made.close();
  });

  describe('while this process is blocked', () => {
    let worker: Worker;
    let url: string;

    /** In a thread of its own: says when a request has come, answers when it is told to, and nothing at `/silent`. */
    beforeEach(async () => {
      worker = new Worker(
        `const { parentPort } = require('node:worker_threads');
        const held = [];
        const server = require('node:http').createServer((request, response) => {
          if (request.url !== '/silent') held.push(response.setHeader('content-type', 'application/json'));
          parentPort.postMessage('request');
        });
        parentPort.on('message', () => {
          held.splice(0).forEach((response) => response.end('[]'));
        });
        server.listen(0, '127.0.0.1', () => parentPort.postMessage(server.address().port));`,
        { eval: true },
      );
      const [port] = await once(worker, 'message');
      url = `http://127.0.0.1:${port}`;
    });
    afterEach(() => worker.terminate());

    it.each([
      ['attemptTimeout', { attemptTimeout: 1_000, attempts: 1 }],
      ['deadline', { attemptTimeout: 1_000, deadline: 1_000 }],
    ])('read replies that arrived before %s, and count none that did not', async (_limit, http) => {
      sender = ending(Sender.with(url, { ...http, maxConcurrent: 200 }));
      const sends = (count: number, request: { operation: Operation; url: string }) =>
        Promise.allSettled(Array.from({ length: count }, () => sender.send(request)));
      // More replies than are read within 20 ms.
      const calls = [
        sends(120, { operation: 'list', url }),
        sends(60, { operation: 'lookup', url: `${url}/silent` }),
      ];
      let arrived = 0;
      worker.on('message', () => (arrived += 1));
      await eventually(() => arrived === 180);
      worker.postMessage('answer');
      const until = performance.now() + 1_100;
      while (performance.now() < until) {
        // As code of a host that computes.
      }
      const [answered = [], silent = []] = await Promise.all(calls);
      expect(answered.map(({ status }) => status)).not.toContain('rejected');
      expect(silent.map(({ status }) => status)).not.toContain('fulfilled');
      worker.once('message', () => worker.postMessage('answer'));
      await expect(sender.send({ operation: 'lookup' })).resolves.toMatchObject(served);
    });
  });

  describe('of concurrent requests', () => {
    const hold = (signal?: AbortSignal) =>
      sender.send({ url: `${server.url}/hold` }, { tenant: 'ill', signal, deadline: 20_000 });
    const release = () => held.splice(0).forEach((response) => sendJson(response));
    const start = (maxConcurrent: number) => {
      isIll = false;
      sender = ending(Sender.withTenants(tenants(), { maxConcurrent, attemptTimeout: 20_000 }));
    };

    it('let the rest wait, for each tenant and purpose apart', async () => {
      start(3);
      const calls = Array.from({ length: 10 }, () => hold());
      await eventually(() => held.length === 3);
      await expect(send('well')).resolves.toMatchObject(served);
      for (const operation of ['lookup', 'token', 'code', 'userinfo', 'keys'] as const) {
        await expect(send('ill', operation)).resolves.toMatchObject(served);
      }
      let most = 0;
      while (server.requests.length < 16 || held.length > 0) {
        most = Math.max(most, held.length);
        release();
        await pause(5);
      }
      expect(most).toBe(3);
      expect(await Promise.all(calls)).toHaveLength(10);
    });

    it('refuse at once beyond the queue, with retryAfterMs', async () => {
      start(1);
      const calls = Array.from({ length: 1 + 16 }, () => hold());
      await eventually(() => held.length === 1);
      const began = performance.now();
      await expect(hold()).rejects.toMatchObject(refused);
      expect(performance.now() - began).toBeLessThan(1_000);
      const timer = setInterval(release, 5);
      expect(await Promise.all(calls)).toHaveLength(17);
      clearInterval(timer);
    });

    it('give no place to a call that ends at the same time as the one that leaves it', async () => {
      start(4);
      const calls = Array.from({ length: 60 }, () =>
        sender.send({ url: `${server.url}/hold` }, { tenant: 'ill', deadline: 500 }),
      );
      const failures = await Promise.all(calls.map((call) => call.catch(({ code }) => code)));
      expect(failures).toEqual(Array(60).fill('deadline_exceeded'));
      expect(server.requests).toHaveLength(4);
    });

    it('free the place of a caller that aborts, or whose deadline is over', async () => {
      start(1);
      const first = hold();
      await eventually(() => held.length === 1);
      const controller = new AbortController();
      const leaving = hold(controller.signal);
      const late = sender.send({}, { tenant: 'ill', deadline: 50 });
      await expect(late).rejects.toMatchObject({ code: 'deadline_exceeded', attempts: 0 });
      controller.abort();
      await expect(leaving).rejects.toMatchObject({ code: 'aborted', attempts: 0 });
      const next = hold();
      release();
      await first;
      await eventually(() => held.length === 1);
      release();
      await expect(next).resolves.toMatchObject(served);
      expect(server.requests).toHaveLength(2);
    });
  });

  describe('of connections to one origin', () => {
    const hold = (tenant: string, deadline = 20_000) =>
      sender.send({ url: `${server.url}/hold/${tenant}` }, { tenant, deadline });
    const start = (keys: readonly string[], maxConnections?: number, http: HttpOptions = {}) => {
      const all = Object.fromEntries(keys.map((key) => [key, tenantAt(server.url)]));
      const given = { attemptTimeout: 20_000, attempts: 1, ...http };
      sender = ending(Sender.withTenants(all, { ...given, ...(maxConnections && { maxConnections }) }));
    };
    const release = (count = held.length) => held.splice(0, count).forEach((response) => sendJson(response));

    it('are 256 for all tenants, codes of logins included, which open no circuit while they wait', async () => {
      start(
        Array.from({ length: 25 }, (_, number) => `t${number}`),
        undefined,
        { attemptTimeout: 2_000 },
      );
      const calls = Array.from({ length: 25 * 20 }, (_, number) => {
        const isCode = number % 2 === 1;
        const code = { operation: 'code', method: 'POST', isOnce: true } as const;
        const request = { url: `${server.url}/hold`, ...(isCode ? code : {}) };
        return sender.send(request, { tenant: `t${number % 25}`, deadline: 20_000 });
      });
      const ended = Promise.allSettled(calls);
      await eventually(() => held.length === 256);
      await pause(100);
      expect(server.connections.size).toBe(256);
      const timer = setInterval(release, 5);
      expect((await ended).map(({ status }) => status)).not.toContain('rejected');
      clearInterval(timer);
    });

    it("are one tenant's while it is alone, and a quarter where another uses the origin too", async () => {
      start(['ill', 'well'], 8);
      const alone = Array.from({ length: 10 }, () => hold('ill'));
      await eventually(() => held.length === 8);
      const other = hold('well');
      release(1);
      await alone[0];
      await eventually(() => held.length === 8);
      release();
      await expect(other).resolves.toMatchObject(served);
      const more = Array.from({ length: 10 }, () => hold('ill'));
      await eventually(() => held.length === 2);
      await pause(50);
      expect(held).toHaveLength(2);
      const timer = setInterval(release, 5);
      await Promise.all([...alone, ...more]);
      clearInterval(timer);
    });

    it('that one purpose takes leave one for each other purpose of its tenant', async () => {
      start(['ill', 'well'], 16);
      const first = hold('well');
      const lists = Array.from({ length: 10 }, () => hold('ill'));
      await eventually(() => held.length === 5);
      for (const operation of ['lookup', 'token', 'code', 'userinfo'] as const) {
        const call = { tenant: 'ill', deadline: 10_000 };
        await expect(sender.send({ operation }, call)).resolves.toMatchObject(served);
      }
      expect(held).toHaveLength(5);
      const timer = setInterval(release, 5);
      await Promise.all([first, ...lists]);
      clearInterval(timer);
    });

    it('are given to the tenants in turn, and left at once by a call that ends while it waits', async () => {
      start(['a', 'b', 'c'], 1);
      const first = hold('a');
      await eventually(() => held.length === 1);
      await expect(hold('b', 50)).rejects.toMatchObject({ code: 'deadline_exceeded', attempts: 0 });
      const calls = [...'aaabbc'].map((tenant) => hold(tenant));
      const timer = setInterval(release, 5);
      await Promise.all([first, ...calls]);
      clearInterval(timer);
      expect(server.requests.map(({ url = '' }) => url.at(-1)).join('')).toBe('aabcaba');
    });
  });
});
