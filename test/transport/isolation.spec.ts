import type { ServerResponse } from 'node:http';
import { afterEach, beforeEach, describe, expect, it } from '@jest/globals';
import { Sender, tenantAt } from './transport-bench.js';
import { TestClock } from '../support/clock.js';
import { type TestServer, sendJson, startServer } from '../support/server.js';
import { eventually, pause } from '../support/wait.js';

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

async function failing(times: number, request = {}): Promise<void> {
  for (let call = 0; call < times; call += 1) {
    await expect(sender.send(request, { tenant: 'ill' })).rejects.toMatchObject({
      code: 'service_unavailable',
    });
  }
}

describe('a tenant whose service cannot be reached', () => {
  it('gets no request after 40 that failed in a row, with their replays, and the error has retryAfterMs', async () => {
    sender = Sender.withTenants(tenants(), { attempts: 1 });
    await failing(80);
    expect(server.requests.length).toBeLessThanOrEqual(80);
    await expect(sender.send({}, { tenant: 'ill' })).rejects.toMatchObject({
      code: 'service_unavailable',
      attempts: 0,
      retryAfterMs: expect.any(Number),
    });
  });

  it('does not slow other tenants or open their circuit', async () => {
    sender = Sender.withTenants(tenants(), { attempts: 1 });
    await failing(60);
    await expect(sender.send({}, { tenant: 'well' })).resolves.toMatchObject({ status: 200 });
  });

  it.each([
    ['lookup', ['list', 'token', 'userinfo'], ['lookup']],
    ['list', ['lookup', 'token', 'userinfo'], ['list']],
    ['token', ['list', 'lookup', 'userinfo'], ['token']],
    ['userinfo', ['list', 'lookup', 'token'], ['userinfo', 'keys', 'code']],
  ] as const)(
    'where its %s fails: tokens, lists, lookups and logins each have a circuit of their own',
    async (ill, served, refused) => {
      sender = Sender.withTenants(tenants(), { attempts: 1 });
      await failing(60, { operation: ill });
      isIll = false;
      for (const operation of served) {
        await expect(sender.send({ operation }, { tenant: 'ill' })).resolves.toMatchObject({ status: 200 });
      }
      for (const operation of refused) {
        await expect(sender.send({ operation }, { tenant: 'ill' })).rejects.toMatchObject({ attempts: 0 });
      }
    },
  );

  it('is tried again after 5 s, and served when it works', async () => {
    const clock = new TestClock();
    sender = Sender.with(`${server.url}/ill`, { attempts: 1 }, clock);
    for (let call = 0; call < 60; call += 1) {
      await expect(sender.send()).rejects.toMatchObject({ attempts: call < 40 ? 2 : 0 });
    }
    const before = server.requests.length;
    isIll = false;
    clock.ahead = 5_000;
    await expect(sender.send()).resolves.toMatchObject({ status: 200 });
    await expect(sender.send()).resolves.toMatchObject({ status: 200 });
    expect(server.requests.length).toBe(before + 2);
  });
});

describe('concurrent requests', () => {
  const hold = (tenant: string, signal?: AbortSignal) =>
    sender.send({ url: `${server.url}/hold` }, { tenant, signal, deadline: 20_000 });
  const release = () => {
    for (const response of held.splice(0)) {
      sendJson(response);
    }
  };

  it('are limited for each tenant; the rest waits', async () => {
    sender = Sender.withTenants(tenants(), { maxConcurrent: 3, attemptTimeout: 20_000 });
    const calls = Array.from({ length: 10 }, () => hold('ill'));
    await eventually(() => held.length === 3);
    await expect(sender.send({}, { tenant: 'well' })).resolves.toMatchObject({ status: 200 });
    let most = 0;
    while (server.requests.length < 11 || held.length > 0) {
      most = Math.max(most, held.length);
      release();
      await pause(10);
    }
    expect(most).toBe(3);
    expect(await Promise.all(calls)).toHaveLength(10);
  });

  it('are limited for lists and lookups apart: slow lists hold up no guard', async () => {
    sender = Sender.withTenants(tenants(), { maxConcurrent: 3, attemptTimeout: 20_000 });
    const calls = Array.from({ length: 10 }, () => hold('ill'));
    await eventually(() => held.length === 3);
    isIll = false;
    await expect(sender.send({ operation: 'lookup' }, { tenant: 'ill' })).resolves.toMatchObject({
      status: 200,
    });
    const timer = setInterval(release, 5);
    await Promise.all(calls);
    clearInterval(timer);
  });

  it('wait in a burst of a thousand callers', async () => {
    sender = Sender.withTenants(tenants());
    const calls = Array.from({ length: 1_000 }, () => sender.send({}, { tenant: 'well' }));
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
