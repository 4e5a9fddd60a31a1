import type { ServerResponse } from 'node:http';
import { afterEach, beforeEach, describe, expect, it } from '@jest/globals';
import * as fc from 'fast-check';
import { Clock } from '../../lib/time/clock.js';
import { Deadline } from '../../lib/time/deadline.js';
import { Circuit } from '../../lib/transport/limits/circuit.js';
import { backOff, parseRetryAfter, waitBeforeRetry } from '../../lib/transport/limits/retry-policy.js';
import { Semaphore } from '../../lib/transport/limits/semaphore.js';
import { isUnanswered, type Failed, type Outcome } from '../../lib/transport/outcome.js';
import type { Operation } from '../../lib/transport/transport-request.interface.js';
import { Sender, tenantAt } from './transport-bench.js';
import { TestClock } from '../support/clock.js';
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
    const outcome: Outcome = { kind: 'answered', status: 503, headers: {}, body: undefined, sentAt: 0 };
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
    ['1.5', undefined],
    ['1e3', undefined],
    ['0x10', undefined],
    ['soon', undefined],
    ['2026-09-01T12:00:30Z', undefined],
    ['Tue, 99 Xyz 2026 12:00:30 GMT', undefined],
  ])('is seconds or a date of HTTP, RFC 850 or asctime, else none: %j is %p', (value, ms) => {
    expect(parseRetryAfter(value, NOW)).toBe(ms);
  });

  it('is a finite number or undefined for any input', () => {
    fc.assert(
      fc.property(fc.string(), (value) => {
        const asked = parseRetryAfter(value, NOW) ?? 0;
        expect(asked >= 0 && Number.isFinite(asked)).toBe(true);
      }),
    );
  });
});

describe('a circuit', () => {
  /** Requests that get no reply. */
  function unanswered(circuit: Circuit, count: number, sentAt: number, now = sentAt): void {
    for (let request = 0; request < count; request += 1) {
      circuit.unanswered(sentAt, now);
    }
  }

  it('opens for 5 s after 40 requests in a row without a reply, then counts from 0 what was sent since', () => {
    const circuit = new Circuit();
    unanswered(circuit, 39, 0);
    expect(circuit.openFor(0)).toBe(0);
    unanswered(circuit, 1, 0);
    expect([circuit.openFor(1_000), circuit.openFor(5_000)]).toEqual([4_000, 0]);
    unanswered(circuit, 100, 0, 6_000);
    unanswered(circuit, 39, 6_000);
    expect(circuit.openFor(6_000)).toBe(0);
    unanswered(circuit, 1, 6_000);
    expect(circuit.openFor(6_000)).toBe(5_000);
  });

  it('is closed by any reply, and does not count what was sent before', () => {
    const circuit = new Circuit();
    unanswered(circuit, 40, 0);
    circuit.replied(100);
    unanswered(circuit, 100, 99, 110);
    expect(circuit.openFor(110)).toBe(0);
  });

  it.each<[counts: boolean, why: string, failed: Partial<Failed>, operation?: Operation, hadTime?: boolean]>([
    [true, 'the connection fails', {}],
    [true, 'the time of an attempt passes', { why: 'timeout' }],
    [true, 'the call ends by its deadline, and had time', { why: 'over' }, 'list', true],
    [false, 'the call was aborted, or had less time', { why: 'over' }],
    [false, 'there was a status line', { status: 200 }],
    [false, 'an interceptor of the host failed', { why: 'interceptor' }],
    [true, 'no connection is made for the code of a login', { why: 'unreached' }, 'code'],
    [false, 'the code of a login is reset', { why: 'reset' }, 'code'],
    [false, 'the code of a login is not answered', { why: 'over' }, 'code', true],
  ])('%p: counts a request where %s', (counts, _why, failed, operation = 'list', hadTime = false) => {
    const outcome: Failed = { kind: 'failed', why: 'reset', message: '', ...failed };
    expect(isUnanswered(outcome, operation, hadTime)).toBe(counts);
  });
});

describe('a semaphore', () => {
  const clock = new Clock();
  const turn = () => new Promise(setImmediate);

  /** Callers that want a slot, numbered in order. */
  async function crowd(callers: number) {
    const semaphore = new Semaphore({ slots: 2, waiting: 3 });
    const entries: string[] = [];
    const deadlines = Array.from({ length: callers }, (_, caller) => {
      const deadline = new Deadline(clock, 60_000);
      void semaphore.enter(deadline).then((entry) => entries.push(`${caller} ${entry}`));
      return deadline;
    });
    await turn();
    const leave = async (): Promise<string[]> => {
      const before = entries.length;
      semaphore.leave();
      await turn();
      return entries.slice(before);
    };
    return { semaphore, entries, leave, end: () => deadlines.forEach((deadline) => deadline.clear()) };
  }

  it('gives slots to those who waited longest, and refuses who finds a full queue', async () => {
    const { semaphore, entries, leave, end } = await crowd(6);
    expect(entries).toEqual(['0 entered', '1 entered', '5 full']);
    const left = new Deadline(clock, 5_000, AbortSignal.abort());
    await expect(semaphore.enter(left)).resolves.toBe('over');
    const next = [await leave(), await leave(), await leave(), await leave()];
    expect(next).toEqual([['2 entered'], ['3 entered'], ['4 entered'], []]);
    expect(semaphore.isIdle).toBe(false);
    await leave();
    expect(semaphore.isIdle).toBe(true);
    end();
  });
});

describe('the limits of a tenant', () => {
  let server: TestServer;
  let sender: Sender;
  let isIll: boolean;
  const held: ServerResponse[] = [];

  beforeEach(async () => {
    isIll = true;
    server = await startServer((request, response) => {
      if (request.url?.startsWith('/hold') === true) {
        held.push(response);
      } else if (isIll && request.url?.startsWith('/ill') === true) {
        response.destroy();
      } else {
        sendJson(response);
      }
    });
  });
  afterEach(async () => {
    held.length = 0;
    await sender?.close();
    await server?.stop();
  });

  const tenants = () => ({ ill: tenantAt(`${server.url}/ill`), well: tenantAt(`${server.url}/well`) });
  const send = (tenant: 'ill' | 'well', operation: Operation = 'list') =>
    sender.send({ operation }, { tenant });
  const served = { status: 200 };
  const refused = { code: 'service_unavailable', attempts: 0, retryAfterMs: expect.any(Number) };

  it.each([
    ['lookup', ['list', 'token', 'userinfo'], ['lookup']],
    ['list', ['lookup', 'token', 'userinfo'], ['list']],
    ['token', ['list', 'lookup', 'userinfo'], ['token']],
    ['userinfo', ['list', 'lookup', 'token'], ['userinfo', 'keys', 'code']],
  ] as const)(
    'open the circuit of its %s only: tokens, lists, lookups and logins have one each',
    async (ill, well, shut) => {
      sender = Sender.withTenants(tenants(), { attempts: 1 });
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
      for (const operation of shut) {
        await expect(send('ill', operation)).rejects.toMatchObject(refused);
      }
    },
  );

  it('let requests pass again after 5 s', async () => {
    const moved = new TestClock();
    sender = Sender.with(`${server.url}/ill`, { attempts: 1 }, moved);
    for (let call = 0; call < 42; call += 1) {
      await expect(sender.send()).rejects.toMatchObject({ attempts: call < 40 ? 2 : 0 });
    }
    isIll = false;
    moved.ahead = 5_000;
    await expect(sender.send()).resolves.toMatchObject(served);
    expect(server.requests).toHaveLength(81);
  });

  it('count no call that is aborted, however long it waited, nor one that had less time than an attempt', async () => {
    const moved = new TestClock();
    sender = Sender.with(server.url, { attempts: 1 }, moved);
    const hold = (call: { signal?: AbortSignal; deadline?: number }) =>
      Array.from({ length: 45 }, () => sender.send({ url: `${server.url}/hold` }, call));
    await Promise.allSettled(hold({ deadline: 200 }));
    const controller = new AbortController();
    const aborted = hold({ signal: controller.signal });
    await eventually(() => held.length === 90);
    moved.ahead = 3_900;
    controller.abort();
    await Promise.allSettled(aborted);
    await expect(sender.send()).resolves.toMatchObject(served);
  });

  it('count a call whose deadline is the time of an attempt', async () => {
    sender = Sender.with(server.url, { attempts: 1, attemptTimeout: 300, deadline: 300 });
    const calls = Array.from({ length: 45 }, () => sender.send({ url: `${server.url}/hold` }));
    await Promise.allSettled(calls);
    await expect(sender.send()).rejects.toMatchObject(refused);
  });

  describe('of concurrent requests', () => {
    const hold = (signal?: AbortSignal) =>
      sender.send({ url: `${server.url}/hold` }, { tenant: 'ill', signal, deadline: 20_000 });
    const release = () => held.splice(0).forEach((response) => sendJson(response));
    const start = (maxConcurrent: number) => {
      isIll = false;
      sender = Sender.withTenants(tenants(), { maxConcurrent, attemptTimeout: 20_000 });
    };

    it('let the rest wait, for each tenant, lists and lookups apart', async () => {
      start(3);
      const calls = Array.from({ length: 10 }, () => hold());
      await eventually(() => held.length === 3);
      await expect(send('well')).resolves.toMatchObject(served);
      await expect(send('ill', 'lookup')).resolves.toMatchObject(served);
      let most = 0;
      while (server.requests.length < 12 || held.length > 0) {
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
});
