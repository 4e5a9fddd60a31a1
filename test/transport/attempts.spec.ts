import { subscribe, unsubscribe } from 'node:diagnostics_channel';
import { createServer, type Socket } from 'node:net';
import { inspect } from 'node:util';
import { afterEach, beforeEach, describe, expect, it } from '@jest/globals';
import type { RequestMessage } from '../../lib/diagnostics/channels.js';
import type { HttpOptions } from '../../lib/index.js';
import { Sender } from './transport-bench.js';
import { type TestServer, follow, sendJson, startServer } from '../support/server.js';
import { TestClock } from '../support/clock.js';
import { eventually, pause } from '../support/wait.js';

let server: TestServer;
let sender: Sender;

afterEach(async () => {
  await sender?.close();
  await server?.stop();
});

const REPLY = 'HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 2\r\n\r\n[]';

/** A TCP server; `handle` gets each request with its number, and its number on its connection. */
async function onSockets(
  handle: (socket: Socket, request: number, onConnection: number) => void,
  http: HttpOptions = {},
): Promise<{ requests: number }> {
  const seen = { requests: 0 };
  const net = createServer((socket) => {
    let onConnection = 0;
    socket
      .on('error', () => undefined)
      .on('data', () => {
        seen.requests += 1;
        onConnection += 1;
        handle(socket, seen.requests, onConnection);
      });
  });
  server = await follow(net, 'http');
  sender = Sender.with(server.url, http, new TestClock(0));
  return seen;
}

/** Creates one idle connection, which undici reuses from the next event-loop turn on. */
async function warmUp(): Promise<void> {
  await sender.send();
  await pause(5);
}

/** Resets every connection that has served before. */
const resetReused = (socket: Socket, _request: number, onConnection: number): void => {
  if (onConnection > 1) {
    socket.resetAndDestroy();
  } else {
    socket.write(REPLY);
  }
};

describe('a kept-alive connection that is reset before any byte', () => {
  it('is replaced at once, also without an attempt left', async () => {
    const seen = await onSockets(resetReused, { attempts: 1 });
    await warmUp();
    await expect(sender.send()).resolves.toMatchObject({ status: 200 });
    expect(seen.requests).toBe(3);
  });

  it('is replaced once: a service that resets every connection fails', async () => {
    let isUp = true;
    const seen = await onSockets((socket) => (isUp ? socket.write(REPLY) : socket.resetAndDestroy()), {
      attempts: 1,
    });
    await warmUp();
    isUp = false;
    await expect(sender.send()).rejects.toMatchObject({ code: 'service_unavailable', attempts: 2 });
    expect(seen.requests).toBe(3);
  });

  it('is replaced once in all attempts', async () => {
    const seen = await onSockets((socket) => socket.resetAndDestroy(), { attempts: 2 });
    await expect(sender.send()).rejects.toMatchObject({ code: 'service_unavailable', attempts: 3 });
    expect(seen.requests).toBe(3);
  });

  it('is not replaced where status and headers arrived', async () => {
    const seen = await onSockets(
      (socket, _request, onConnection) => {
        if (onConnection === 1) {
          socket.write(REPLY);
        } else {
          socket.write(REPLY.slice(0, -1), () => setTimeout(() => socket.resetAndDestroy(), 20));
        }
      },
      { attempts: 1 },
    );
    await warmUp();
    await expect(sender.send()).rejects.toMatchObject({ code: 'service_unavailable', attempts: 1 });
    expect(seen.requests).toBe(2);
  });

  it('is replaced once as well where the connection was new, which nothing tells', async () => {
    const seen = await onSockets((socket) => socket.resetAndDestroy(), { attempts: 1 });
    await expect(sender.send()).rejects.toMatchObject({ code: 'service_unavailable', attempts: 2 });
    expect(seen.requests).toBe(2);
  });
});

describe('a request that must never be repeated', () => {
  const redeem = () => sender.send({ operation: 'code', method: 'POST', body: 'code=once', repeat: 'never' });

  it('is sent once, whatever fails', async () => {
    const seen = await onSockets((socket) => socket.resetAndDestroy());
    await expect(redeem()).rejects.toMatchObject({ code: 'service_unavailable', attempts: 1 });
    // Random numbers are 0 here, so a retry would follow at once.
    await pause(50);
    expect(seen.requests).toBe(1);
  });

  it.each([408, 429, 503])('is sent once where the service answers %i', async (status) => {
    server = await startServer((_request, response) => sendJson(response, {}, status));
    sender = Sender.with(server.url);
    await expect(redeem()).rejects.toMatchObject({ status, attempts: 1 });
    expect(server.requests).toHaveLength(1);
  });

  it('has its own connection, which is closed afterwards', async () => {
    await onSockets(resetReused);
    await warmUp();
    await expect(redeem()).resolves.toMatchObject({ status: 200 });
    await expect(redeem()).resolves.toMatchObject({ status: 200 });
    expect(server.connected).toBe(3);
    await eventually(() => server.connections.size === 1);
  });

  it('has the whole deadline for its one attempt', async () => {
    server = await startServer((_request, response) => void setTimeout(() => sendJson(response), 200));
    sender = Sender.with(server.url, { attemptTimeout: 50, deadline: 5_000 });
    await expect(redeem()).resolves.toMatchObject({ status: 200 });
    expect(server.requests).toHaveLength(1);
  });
});

describe('the attempts of a call', () => {
  it('are as many as the option', async () => {
    server = await startServer((_request, response) => sendJson(response, {}, 503));
    for (const attempts of [1, 4]) {
      sender = Sender.with(server.url, { attempts }, new TestClock(0));
      server.requests.length = 0;
      await expect(sender.send()).rejects.toMatchObject({ attempts, status: 503 });
      expect(server.requests).toHaveLength(attempts);
      await sender.close();
    }
  });

  it('stop at once when the caller aborts: during a request and before a retry', async () => {
    server = await startServer((_request, response, count) => {
      if (count === 2) {
        sendJson(response, {}, 503, { 'retry-after': '5' });
      }
    });
    sender = Sender.with(server.url);
    for (const requests of [1, 2]) {
      const controller = new AbortController();
      const sent = sender.send({}, { signal: controller.signal });
      await eventually(() => server.requests.length === requests);
      await pause(20);
      const began = performance.now();
      controller.abort();
      await expect(sent).rejects.toMatchObject({ code: 'aborted', attempts: 1 });
      expect(performance.now() - began).toBeLessThan(1_000);
    }
    await pause(100);
    expect(server.requests).toHaveLength(2);
  });

  it('are limited by a budget where everything fails, so that retries do not multiply the load', async () => {
    server = await startServer((_request, response) => sendJson(response, {}, 503));
    sender = Sender.with(server.url, { attempts: 2, maxConcurrent: 1_000 }, new TestClock(0));
    await Promise.allSettled(Array.from({ length: 150 }, () => sender.send()));
    expect(server.requests).toHaveLength(150 + 100);
  });
});

const CHANNEL = 'nestjs-exhibitor:request';
const messages: RequestMessage[] = [];
const collect = (message: unknown): void => void messages.push(message as RequestMessage);

describe('nestjs-exhibitor:request', () => {
  beforeEach(() => subscribe(CHANNEL, collect));
  afterEach(() => {
    unsubscribe(CHANNEL, collect);
    messages.length = 0;
  });

  it('reports each attempt', async () => {
    server = await startServer((_request, response, count) =>
      sendJson(response, {}, [503, 429, 200][count - 1]),
    );
    sender = Sender.with(server.url, {}, new TestClock(0));
    await sender.send({ operation: 'lookup', template: '/{eventId}' });
    const common = {
      tenant: 'default',
      operation: 'lookup',
      template: '/{eventId}',
      method: 'GET',
      origin: server.url,
      durationMs: expect.any(Number),
    };
    expect(messages).toEqual([
      { ...common, attempt: 1, status: 503, code: 'service_unavailable' },
      { ...common, attempt: 2, status: 429, code: 'rate_limited' },
      { ...common, attempt: 3, status: 200, code: undefined },
    ]);
  });

  it('reports no attempt of a call that is aborted before it starts, or while its body is made', async () => {
    server = await startServer((_request, response) => sendJson(response));
    sender = Sender.with(server.url);
    const controller = new AbortController();
    const body = async (): Promise<string> => {
      controller.abort();
      return 'a=b';
    };
    for (const call of [
      sender.send({}, { signal: AbortSignal.abort() }),
      sender.send({ operation: 'token', method: 'POST', body }, { signal: controller.signal }),
    ]) {
      await expect(call).rejects.toMatchObject({ code: 'aborted', attempts: 0 });
    }
    expect([server.requests, messages]).toEqual([[], []]);
  });

  it.each(['malformed_response', 'deadline_exceeded', 'aborted', 'service_unavailable'])(
    'reports an attempt that ended with %s',
    async (code) => {
      const controller = new AbortController();
      server = await startServer((request, response) => {
        if (code === 'malformed_response') {
          response.end('no JSON');
        }
        if (code === 'aborted') {
          controller.abort();
        }
        if (code === 'service_unavailable') {
          request.socket.resetAndDestroy();
        }
      });
      sender = Sender.with(server.url, { attempts: 1 });
      await expect(sender.send({}, { deadline: 150, signal: controller.signal })).rejects.toMatchObject({
        code,
      });
      expect(messages[0]).toMatchObject({ code, attempt: 1 });
      // A request that was reset is replayed.
      expect(messages).toHaveLength(code === 'service_unavailable' ? 2 : 1);
    },
  );

  it('names the cause where there is no status', async () => {
    server = await startServer((request, _response, count) =>
      count === 1 ? undefined : request.socket.resetAndDestroy(),
    );
    sender = Sender.with(server.url, { attempts: 2, attemptTimeout: 100 }, new TestClock(0));
    await expect(sender.send({})).rejects.toMatchObject({ code: 'service_unavailable' });
    const timeout = { code: 'service_unavailable', cause: 'timeout', status: undefined };
    const network = { code: 'service_unavailable', cause: 'network', status: undefined };
    expect(messages[0]).toMatchObject(timeout);
    expect(messages.at(-1)).toMatchObject(network);
  });

  it('contains no token, secret, address or query', async () => {
    server = await startServer((_request, response) => sendJson(response, { error_description: 'body' }));
    sender = Sender.with(server.url);
    const secrets = [
      'a-bearer-token',
      'a-client-secret',
      'zoë@example.com',
      'zo%C3%AB%40example.com',
      'Page=7',
    ];
    const [token, secret, , encoded, query] = secrets;
    await sender.send({
      method: 'POST',
      url: `${server.url}/contactEmail/${encoded}?${query}`,
      headers: { authorization: `Bearer ${token}` },
      body: `client_secret=${secret}`,
    });
    const shown = inspect(messages, { depth: Infinity });
    expect(messages).toHaveLength(1);
    expect(secrets.filter((value) => shown.includes(value))).toEqual([]);
  });
});
