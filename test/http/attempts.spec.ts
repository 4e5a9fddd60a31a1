import type { ServerResponse } from 'node:http';
import { createServer, type Socket } from 'node:net';
import { describe, expect, it } from '@jest/globals';
import type { RequestMessage } from '../../lib/call/channels.js';
import type { HttpOptions } from '../../lib/index.js';
import { ending, Sender } from './transport-bench.js';
import { type TestServer, follow, sendJson, startServer } from '../support/server.js';
import { TestClock } from '../support/clock.js';
import { messagesOn } from '../support/messages.js';
import { eventually, pause } from '../support/wait.js';

let server: TestServer;
let sender: Sender;

/** A server whose replies a test writes. Random numbers are 0, so that retries follow at once. */
async function serving(listener: Parameters<typeof startServer>[0], http: HttpOptions = {}): Promise<void> {
  server = ending(await startServer(listener));
  sender = ending(Sender.with(server.url, http, new TestClock(0)));
}

const REPLY = 'HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 2\r\n\r\n[]';
const unavailable = (attempts: number) => ({ code: 'service_unavailable', attempts });

/** A TCP server; `handle` gets each request with its number on its connection. Answers how many there were. */
async function onSockets(handle: (socket: Socket, onConnection: number) => void, http: HttpOptions = {}) {
  const seen = { requests: 0 };
  const net = createServer((socket) => {
    let onConnection = 0;
    socket
      .on('error', () => undefined)
      .on('data', () => {
        seen.requests += 1;
        onConnection += 1;
        handle(socket, onConnection);
      });
  });
  server = ending(await follow(net));
  sender = ending(Sender.with(server.url, http, new TestClock(0)));
  return seen;
}

/** Answers the first request of a connection, and all others otherwise. */
const first =
  (others: (socket: Socket) => unknown) =>
  (socket: Socket, onConnection: number): void =>
    void (onConnection === 1 ? socket.write(REPLY) : others(socket));
const reset = (socket: Socket) => socket.resetAndDestroy();

/** Creates one idle connection, which undici reuses from the next event-loop turn on. */
async function warmUp(): Promise<void> {
  await sender.send();
  await pause(5);
}

/** Answers the first request of a connection but for its last byte, then resets it. */
const cut = (socket: Socket) =>
  socket.write(REPLY.slice(0, -1), () => setTimeout(() => socket.resetAndDestroy(), 20));
const replaced = { status: 200 };

describe('a kept-alive connection', () => {
  it.each<[string, (socket: Socket) => unknown, attempts: number, end: object, requests: number]>([
    ['that is reset before any byte is replaced at once, without an attempt left', reset, 1, replaced, 2],
    ['that is reset after the head of a reply is not replaced', cut, 1, unavailable(1), 1],
  ])('%s', async (_what, others, attempts, end, requests) => {
    const seen = await onSockets(first(others), { attempts });
    await warmUp();
    expect(await sender.send().catch((error) => error)).toMatchObject(end);
    expect(seen.requests).toBe(1 + requests);
  });

  it('is replaced once in all attempts, also where it was new, which nothing tells', async () => {
    const seen = await onSockets(reset, { attempts: 2 });
    await expect(sender.send()).rejects.toMatchObject(unavailable(3));
    expect(seen.requests).toBe(3);
  });
});

/** Whatever fails, and for the whole deadline: test/login/provider-trouble.spec.ts. */
it('a code is redeemed on a connection of its own, which is closed afterwards', async () => {
  const code = { operation: 'code', method: 'POST', body: 'code=once', isOnce: true } as const;
  await onSockets(first(reset));
  await warmUp();
  await expect(sender.send(code)).resolves.toMatchObject({ status: 200 });
  await expect(sender.send(code)).resolves.toMatchObject({ status: 200 });
  expect(server.connected).toBe(3);
  await eventually(() => server.connections.size === 1);
});

describe('the attempts of a call', () => {
  it('end at once when the caller aborts before a retry', async () => {
    await serving((_request, response) => sendJson(response, {}, 503, { 'retry-after': '5' }));
    const controller = new AbortController();
    const sent = sender.send({}, { signal: controller.signal });
    await eventually(() => server.requests.length === 1);
    await pause(50);
    const began = performance.now();
    controller.abort();
    await expect(sent).rejects.toMatchObject({ code: 'aborted', attempts: 1 });
    expect(performance.now() - began).toBeLessThan(1_000);
    expect(server.requests).toHaveLength(1);
  });

  it('have a budget of 100 retries, then of one for each five successes: retries do not multiply the load', async () => {
    let status = 503;
    await serving((_request, response) => sendJson(response, {}, status), {
      attempts: 2,
      maxConcurrent: 1_000,
    });
    const send = async (calls: number) => {
      const before = server.requests.length;
      await Promise.allSettled(Array.from({ length: calls }, () => sender.send()));
      return server.requests.length - before;
    };
    expect(await send(150)).toBe(150 + 100);
    for (const [successes, retries] of [
      [4, 0],
      [1, 1],
      [5, 1],
    ] as const) {
      status = 200;
      await send(successes);
      status = 503;
      expect(await send(3)).toBe(3 + retries);
    }
  });
});

describe('nestjs-exhibitor:request', () => {
  const messagesOf = (work: () => Promise<unknown>) =>
    messagesOn<RequestMessage>('nestjs-exhibitor:request', work);

  it('reports each attempt, without token, secret, address and query', async () => {
    await serving((_request, response, count) => sendJson(response, {}, [503, 429, 200][count - 1]));
    const about = { operation: 'lookup', template: '/{eventId}', method: 'POST' } as const;
    const secret = {
      url: `${server.url}/contactEmail/zo%C3%AB%40example.com?Page=7`,
      headers: { authorization: 'Bearer a-bearer-token' },
      body: 'client_secret=a-client-secret',
    };
    const call = { tenant: 'default', origin: server.url, durationMs: expect.any(Number), ...about };
    expect(await messagesOf(() => sender.send({ ...about, ...secret }))).toEqual([
      { ...call, attempt: 1, status: 503, code: 'service_unavailable' },
      { ...call, attempt: 2, status: 429, code: 'rate_limited' },
      { ...call, attempt: 3, status: 200, code: undefined },
    ]);
  });

  it('reports no attempt of a call that is aborted before it starts, or while its body is made', async () => {
    await serving((_request, response) => sendJson(response));
    const controller = new AbortController();
    const body = async (): Promise<string> => {
      controller.abort();
      return 'a=b';
    };
    const aborted = { code: 'aborted', attempts: 0 };
    const messages = await messagesOf(async () => {
      await expect(sender.send({}, { signal: AbortSignal.abort() })).rejects.toMatchObject(aborted);
      const post = { operation: 'token', method: 'POST', body } as const;
      await expect(sender.send(post, { signal: controller.signal })).rejects.toMatchObject(aborted);
    });
    expect([server.requests, messages]).toEqual([[], []]);
  });

  it.each<
    [code: string, cause: string | undefined, end: (response: ServerResponse, abort: () => void) => void]
  >([
    ['malformed_response', undefined, (response) => void response.end('no JSON')],
    ['deadline_exceeded', undefined, () => undefined],
    ['aborted', undefined, (_response, abort) => abort()],
    ['service_unavailable', 'timeout', () => undefined],
    ['service_unavailable', 'network', (response) => void response.socket?.resetAndDestroy()],
  ])('reports an attempt that ended with %s, and cause %s', async (code, cause, end) => {
    const controller = new AbortController();
    const http = { attempts: 1, ...(cause === 'timeout' ? { attemptTimeout: 100 } : {}) };
    await serving((_request, response) => end(response, () => controller.abort()), http);
    const messages = await messagesOf(async () => {
      const call = sender.send({}, { deadline: 150, signal: controller.signal });
      await expect(call).rejects.toMatchObject({ code });
    });
    expect(messages[0]).toMatchObject({ code, cause, attempt: 1 });
    // A request that was reset is replayed.
    expect(messages).toHaveLength(cause === 'network' ? 2 : 1);
  });
});
