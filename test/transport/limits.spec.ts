import type { ServerResponse } from 'node:http';
import { afterEach, beforeEach, describe, expect, it } from '@jest/globals';
import * as fc from 'fast-check';
import { Clock } from '../../lib/time/clock.js';
import { Deadline } from '../../lib/time/deadline.js';
import { Circuit } from '../../lib/transport/limits/circuit.js';
import {
  backOff,
  parseRetryAfter,
  waitBeforeRetry,
  type AttemptEnd,
} from '../../lib/transport/limits/retry-policy.js';
import { Semaphore } from '../../lib/transport/limits/semaphore.js';
import { RetryBudget } from '../../lib/transport/limits/tenant-limits.js';
import { isUnanswered, type Failed, type Outcome } from '../../lib/transport/outcome.js';
import type { TransportRequest } from '../../lib/transport/transport-request.interface.js';
import { Sender, tenantAt } from './transport-bench.js';
import { TestClock } from '../support/clock.js';
import { type TestServer, sendJson, startServer } from '../support/server.js';
import { eventually, pause } from '../support/wait.js';

const answered = (status: number): Outcome => ({
  kind: 'answered',
  status,
  headers: {},
  body: undefined,
  sentAt: 0,
});
const standing = (given: Partial<AttemptEnd>): AttemptEnd => ({
  outcome: answered(503),
  attempt: 1,
  attempts: 3,
  retryAfterMs: undefined,
  remaining: 10_000,
  random: 0.5,
  ...given,
});
const chance = fc.double({ min: 0, max: 1, maxExcluded: true, noNaN: true });

describe('the wait before a retry', () => {
  it('is random between 0 and 100 ms, doubled after each failure, at most 2 s', () => {
    fc.assert(
      fc.property(fc.integer({ min: 1, max: 40 }), chance, (attempt, luck) => {
        const most = Math.min(2_000, 100 * 2 ** (attempt - 1));
        expect(backOff(attempt, luck)).toBeGreaterThanOrEqual(0);
        expect(backOff(attempt, luck)).toBeLessThanOrEqual(most);
        expect(backOff(attempt, 1)).toBe(most);
      }),
    );
  });

  it('is at least Retry-After, and not started where that does not fit', () => {
    fc.assert(
      fc.property(
        fc.nat(20_000),
        fc.integer({ min: 1, max: 20_000 }),
        chance,
        (retryAfterMs, remaining, luck) => {
          const wait = waitBeforeRetry(standing({ retryAfterMs, remaining, random: luck }));
          if (retryAfterMs >= remaining) {
            expect(wait).toBeUndefined();
          } else {
            expect(wait).toBeGreaterThanOrEqual(retryAfterMs);
            expect(wait).toBeLessThan(remaining);
          }
        },
      ),
    );
  });
});

describe('the retry budget', () => {
  const retries = (budget: RetryBudget): number =>
    Array.from({ length: 200 }, () => budget.take()).filter(Boolean).length;

  it('allows 100 retries, then one for each five successes', () => {
    const budget = new RetryBudget();
    budget.succeeded();
    expect(retries(budget)).toBe(100);
    for (const gained of [0, 0, 0, 0, 1]) {
      budget.succeeded();
      expect(retries(budget)).toBe(gained);
    }
  });
});

const NOW = Date.UTC(2026, 8, 1, 12, 0, 0);

describe('Retry-After', () => {
  it('is a number of seconds', () => {
    fc.assert(
      fc.property(fc.nat(1_000_000), (seconds) => {
        expect(parseRetryAfter(` ${seconds} `, NOW)).toBe(seconds * 1000);
      }),
    );
  });

  it('is a date in the form of HTTP, RFC 850 or asctime, all in GMT', () => {
    for (const date of [
      'Tue, 01 Sep 2026 12:00:30 GMT',
      'Tuesday, 01-Sep-26 12:00:30 GMT',
      'Tue Sep  1 12:00:30 2026',
    ]) {
      expect(parseRetryAfter(date, NOW)).toBe(30_000);
    }
  });

  it('is zero for a date in the past', () => {
    fc.assert(
      fc.property(fc.integer({ min: 0, max: 10_000_000 }), (seconds) => {
        expect(parseRetryAfter(new Date(NOW - seconds * 1000).toUTCString(), NOW)).toBe(0);
      }),
    );
  });

  it.each(['', '-1', '1.5', '1e3', '0x10', 'soon', '2026-09-01T12:00:30Z', 'Tue, 99 Xyz 2026 12:00:30 GMT'])(
    'is undefined where it is malformed: %p',
    (value) => {
      expect(parseRetryAfter(value, NOW)).toBeUndefined();
    },
  );

  it('is a finite number or undefined for any input', () => {
    fc.assert(
      fc.property(fc.string(), (value) => {
        const asked = parseRetryAfter(value, NOW) ?? 0;
        expect(asked >= 0 && Number.isFinite(asked)).toBe(true);
      }),
    );
    expect(parseRetryAfter('9'.repeat(400), NOW)).toBe(Number.MAX_SAFE_INTEGER);
  });
});

/** Requests that are sent now and get no reply. */
function unanswered(circuit: Circuit, count: number, now = 0): void {
  for (let request = 0; request < count; request += 1) {
    circuit.unanswered(now, now);
  }
}

describe('a circuit', () => {
  it('opens for 5 s after 40 requests in a row without a reply', () => {
    const circuit = new Circuit();
    unanswered(circuit, 39);
    expect(circuit.openFor(0)).toBe(0);
    unanswered(circuit, 1);
    expect(circuit.openFor(1_000)).toBe(4_000);
    expect(circuit.openFor(5_000)).toBe(0);
  });

  it('counts from 0 after the pause, and only what was sent since', () => {
    const circuit = new Circuit();
    unanswered(circuit, 40);
    for (let late = 0; late < 100; late += 1) {
      circuit.unanswered(0, 6_000);
    }
    unanswered(circuit, 39, 6_000);
    expect(circuit.openFor(6_000)).toBe(0);
    unanswered(circuit, 1, 6_000);
    expect(circuit.openFor(6_000)).toBe(5_000);
  });

  it('does not count requests that were sent before the last reply', () => {
    const circuit = new Circuit();
    circuit.replied(10);
    for (let late = 0; late < 100; late += 1) {
      circuit.unanswered(9, 20);
    }
    expect(circuit.openFor(20)).toBe(0);
  });

  it('is closed by any reply', () => {
    const circuit = new Circuit();
    unanswered(circuit, 40);
    circuit.replied(100);
    expect(circuit.openFor(100)).toBe(0);
  });
});

describe('a request without a reply', () => {
  const failed = (given: Partial<Failed>): Failed => ({
    kind: 'failed',
    why: 'reset',
    message: '',
    ...given,
  });

  it('counts where the connection fails or the time of an attempt passes', () => {
    expect(isUnanswered(failed({}), 'list', false)).toBe(true);
    expect(isUnanswered(failed({ why: 'timeout' }), 'list', false)).toBe(true);
    expect(isUnanswered(failed({ why: 'over' }), 'list', true)).toBe(true);
  });

  it.each<[string, Partial<Failed>, boolean]>([
    ['there was a status line', { status: 200 }, false],
    ['the call was aborted, or had less time', { why: 'over' }, false],
    ['an interceptor of the host failed', { why: 'interceptor' }, false],
  ])('does not count where %s', (_why, given, hadTime) => {
    expect(isUnanswered(failed(given), 'list', hadTime)).toBe(false);
  });

  it('with the code of a login counts only where no connection was made', () => {
    expect(isUnanswered(failed({ why: 'unreached' }), 'code', false)).toBe(true);
    expect(isUnanswered(failed({ why: 'reset' }), 'code', false)).toBe(false);
    expect(isUnanswered(failed({ why: 'over' }), 'code', true)).toBe(false);
  });
});

const clock = new Clock();
const turn = () => new Promise(setImmediate);

/** Callers that want a slot, numbered in order. */
async function crowd(semaphore: Semaphore, callers: number) {
  const entries: string[] = [];
  const deadlines = Array.from({ length: callers }, (_, caller) => {
    const deadline = new Deadline(clock, 60_000);
    void semaphore.enter(deadline).then((entry) => entries.push(`${caller} ${entry}`));
    return deadline;
  });
  await turn();
  return { entries, deadlines, end: () => deadlines.forEach((deadline) => deadline.clear()) };
}

describe('a semaphore', () => {
  const limits = { slots: 2, waiting: 3 };

  it('gives slots to those who waited longest, and refuses who finds a full queue', async () => {
    const semaphore = new Semaphore(limits);
    const { entries, end } = await crowd(semaphore, 6);
    expect(entries).toEqual(['0 entered', '1 entered', '5 full']);
    semaphore.leave();
    await turn();
    expect(entries.slice(3)).toEqual(['2 entered']);
    semaphore.leave();
    semaphore.leave();
    await turn();
    expect(entries.slice(4)).toEqual(['3 entered', '4 entered']);
    expect(semaphore.isIdle).toBe(false);
    semaphore.leave();
    semaphore.leave();
    expect(semaphore.isIdle).toBe(true);
    end();
  });

  it('keeps those who wait when a call comes that is over already', async () => {
    const semaphore = new Semaphore(limits);
    const { entries, end } = await crowd(semaphore, 3);
    const left = new Deadline(clock, 5_000, AbortSignal.abort());
    await expect(semaphore.enter(left)).resolves.toBe('over');
    semaphore.leave();
    await turn();
    expect(entries.at(-1)).toBe('2 entered');
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

  async function failing(times: number, request: Partial<TransportRequest>): Promise<void> {
    for (let call = 0; call < times; call += 1) {
      await expect(sender.send(request, { tenant: 'ill' })).rejects.toMatchObject({
        code: 'service_unavailable',
      });
    }
  }

  describe('a tenant whose service cannot be reached', () => {
    it.each([
      ['lookup', ['list', 'token', 'userinfo'], ['lookup']],
      ['list', ['lookup', 'token', 'userinfo'], ['list']],
      ['token', ['list', 'lookup', 'userinfo'], ['token']],
      ['userinfo', ['list', 'lookup', 'token'], ['userinfo', 'keys', 'code']],
    ] as const)(
      'where its %s fails: tokens, lists, lookups and logins each have a circuit of their own',
      async (ill, served, refused) => {
        sender = Sender.withTenants(tenants(), { attempts: 1 });
        await failing(45, { operation: ill });
        // 40, and the replay of each.
        expect(server.requests).toHaveLength(80);
        await expect(sender.send({ operation: ill }, { tenant: 'well' })).resolves.toMatchObject({
          status: 200,
        });
        isIll = false;
        for (const operation of served) {
          await expect(sender.send({ operation }, { tenant: 'ill' })).resolves.toMatchObject({ status: 200 });
        }
        for (const operation of refused) {
          await expect(sender.send({ operation }, { tenant: 'ill' })).rejects.toMatchObject({
            code: 'service_unavailable',
            attempts: 0,
            retryAfterMs: expect.any(Number),
          });
        }
      },
    );

    it('is tried again after 5 s, and served when it works', async () => {
      const moved = new TestClock();
      sender = Sender.with(`${server.url}/ill`, { attempts: 1 }, moved);
      for (let call = 0; call < 42; call += 1) {
        await expect(sender.send()).rejects.toMatchObject({ attempts: call < 40 ? 2 : 0 });
      }
      const before = server.requests.length;
      isIll = false;
      moved.ahead = 5_000;
      await expect(sender.send()).resolves.toMatchObject({ status: 200 });
      expect(server.requests.length).toBe(before + 1);
    });
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
    await expect(sender.send()).resolves.toMatchObject({ status: 200 });
  });

  it('count a call whose deadline is the time of an attempt', async () => {
    sender = Sender.with(server.url, { attempts: 1, attemptTimeout: 300, deadline: 300 });
    const calls = Array.from({ length: 45 }, () => sender.send({ url: `${server.url}/hold` }));
    await Promise.allSettled(calls);
    await expect(sender.send()).rejects.toMatchObject({ code: 'service_unavailable', attempts: 0 });
  });

  describe('concurrent requests', () => {
    const hold = (tenant: string, signal?: AbortSignal) =>
      sender.send({ url: `${server.url}/hold` }, { tenant, signal, deadline: 20_000 });
    const release = () => {
      for (const response of held.splice(0)) {
        sendJson(response);
      }
    };

    it('are limited for each tenant, lists and lookups apart; the rest waits', async () => {
      sender = Sender.withTenants(tenants(), { maxConcurrent: 3, attemptTimeout: 20_000 });
      const calls = Array.from({ length: 10 }, () => hold('ill'));
      await eventually(() => held.length === 3);
      isIll = false;
      for (const [tenant, operation] of [
        ['well', 'list'],
        ['ill', 'lookup'],
      ] as const) {
        await expect(sender.send({ operation }, { tenant })).resolves.toMatchObject({ status: 200 });
      }
      let most = 0;
      while (server.requests.length < 12 || held.length > 0) {
        most = Math.max(most, held.length);
        release();
        await pause(5);
      }
      expect(most).toBe(3);
      expect(await Promise.all(calls)).toHaveLength(10);
    });

    it('wait in a burst of callers', async () => {
      sender = Sender.withTenants(tenants());
      const calls = Array.from({ length: 300 }, () => sender.send({}, { tenant: 'well' }));
      const replies = await Promise.all(calls);
      expect(replies.every(({ status }) => status === 200)).toBe(true);
      expect(server.connected).toBeLessThanOrEqual(2 * 64);
    });

    it('fail at once beyond the queue, with retryAfterMs', async () => {
      sender = Sender.withTenants(tenants(), { maxConcurrent: 1, attemptTimeout: 20_000 });
      const calls = Array.from({ length: 1 + 16 }, () => hold('ill'));
      await eventually(() => held.length === 1);
      const began = performance.now();
      await expect(hold('ill')).rejects.toMatchObject({
        code: 'service_unavailable',
        attempts: 0,
        retryAfterMs: expect.any(Number),
      });
      expect(performance.now() - began).toBeLessThan(1_000);
      const served = Promise.all(calls);
      const timer = setInterval(release, 5);
      expect(await served).toHaveLength(17);
      clearInterval(timer);
    });

    it('free the place of a caller that aborts, or whose deadline is over', async () => {
      sender = Sender.withTenants(tenants(), { maxConcurrent: 1, attemptTimeout: 20_000 });
      const first = hold('ill');
      await eventually(() => held.length === 1);
      const controller = new AbortController();
      const leaving = hold('ill', controller.signal);
      const late = sender.send({}, { tenant: 'ill', deadline: 50 });
      await expect(late).rejects.toMatchObject({ code: 'deadline_exceeded', attempts: 0 });
      controller.abort();
      await expect(leaving).rejects.toMatchObject({ code: 'aborted', attempts: 0 });
      const next = hold('ill');
      release();
      await first;
      await eventually(() => held.length === 1);
      release();
      await expect(next).resolves.toMatchObject({ status: 200 });
      expect(server.requests).toHaveLength(2);
    });
  });
});
