import { createServer } from 'node:net';
import { afterEach, describe, expect, it } from '@jest/globals';
import { collectGarbage } from '../support/garbage.js';
import { Sender, tenantAt } from './transport-bench.js';
import { follow, type TestServer, sendJson, startServer } from '../support/server.js';
import { eventually, pause } from '../support/wait.js';

let server: TestServer;

afterEach(() => server?.stop());

describe('connections', () => {
  it('are kept alive and shared by the tenants of an origin', async () => {
    server = await startServer((_request, response) => sendJson(response));
    const sender = Sender.withTenants({ acme: tenantAt(server.url), globex: tenantAt(server.url) });
    for (const tenant of ['acme', 'globex', 'acme', 'globex']) {
      await sender.send({}, { tenant });
      await pause(20);
    }
    expect(server.requests).toHaveLength(4);
    expect(server.connected).toBe(1);
    await sender.close();
  });

  it('keep no reply in memory while they are idle', async () => {
    server = await startServer((_request, response) => sendJson(response, { rows: [] }));
    const sender = Sender.with(server.url);
    const body = new WeakRef(Object((await sender.send()).body));
    expect(body.deref()).toEqual({ rows: [] });
    await pause(0);
    collectGarbage();
    expect(body.deref()).toBeUndefined();
    await sender.close();
  });

  it('are as many as concurrent requests at most', async () => {
    server = await startServer((_request, response) => void setTimeout(() => sendJson(response), 50));
    const sender = Sender.with(server.url, { maxConcurrent: 4 });
    await Promise.all(Array.from({ length: 40 }, () => sender.send()));
    expect(server.requests).toHaveLength(40);
    expect(server.connected).toBeLessThanOrEqual(8);
    await sender.close();
  });

  it('that hang in a TLS handshake are closed with the module', async () => {
    server = await follow(
      createServer((socket) => void socket.resume()),
      'https',
    );
    const sender = Sender.with(server.url, { deadline: 60_000, attemptTimeout: 60_000 });
    const calls = [sender.send(), sender.send({ operation: 'code', repeat: 'never' })];
    const results = Promise.allSettled(calls);
    await eventually(() => server.connections.size === 2);
    const began = performance.now();
    await sender.close();
    // undici would wait for its connect timeout of 10 s.
    expect(performance.now() - began).toBeLessThan(5_000);
    await results;
    await eventually(() => server.connections.size === 0);
  });

  it('are closed with the module, and running and waiting calls end', async () => {
    server = await startServer((_request, response, count) => {
      if (count === 1) {
        sendJson(response, {}, 503, { 'retry-after': '60' });
      }
    });
    const sender = Sender.with(server.url, { deadline: 120_000, attemptTimeout: 120_000, maxConcurrent: 1 });
    const calls = Array.from({ length: 3 }, () => sender.send());
    const redemption = sender.send({ operation: 'code', repeat: 'never' });
    const results = Promise.allSettled([...calls, redemption]);
    await eventually(() => server.requests.length === 3);
    const began = performance.now();
    await sender.close();
    for (const result of await results) {
      expect(result).toMatchObject({ status: 'rejected', reason: { code: 'service_unavailable' } });
    }
    expect(performance.now() - began).toBeLessThan(2_000);
    await eventually(() => server.connections.size === 0);
    await expect(sender.send()).rejects.toMatchObject({ code: 'service_unavailable', attempts: 0 });
  });
});
