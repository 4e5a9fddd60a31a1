import { subscribe, unsubscribe } from 'node:diagnostics_channel';
import { inspect } from 'node:util';
import { afterEach, beforeEach, describe, expect, it } from '@jest/globals';
import type { RequestMessage } from '../../lib/diagnostics/channels.js';
import { Sender } from './transport-bench.js';
import { type TestServer, sendJson, startServer } from '../support/server.js';

const CHANNEL = 'nestjs-exhibitor:request';
const messages: RequestMessage[] = [];
const collect = (message: unknown): void => void messages.push(message as RequestMessage);

let server: TestServer;
let sender: Sender;
beforeEach(() => subscribe(CHANNEL, collect));
afterEach(async () => {
  unsubscribe(CHANNEL, collect);
  messages.length = 0;
  await sender?.close();
  await server?.stop();
});

describe('nestjs-exhibitor:request', () => {
  it('reports each attempt', async () => {
    server = await startServer((_request, response, count) =>
      sendJson(response, {}, [503, 429, 200][count - 1]),
    );
    sender = Sender.with(server.url);
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

  it.each([
    ['malformed_response', (): void => undefined],
    ['deadline_exceeded', (): void => undefined],
    ['aborted', (): void => undefined],
    ['service_unavailable', (): void => undefined],
  ])('reports an attempt that ended with %s', async (code) => {
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
    await expect(sender.send({}, { deadline: 400, signal: controller.signal })).rejects.toMatchObject({
      code,
    });
    expect(messages[0]).toMatchObject({ code, attempt: 1 });
    // A request that was reset is replayed.
    expect(messages).toHaveLength(code === 'service_unavailable' ? 2 : 1);
  });

  it('names the cause where there is no status', async () => {
    server = await startServer((request, _response, count) =>
      count === 1 ? undefined : request.socket.resetAndDestroy(),
    );
    sender = Sender.with(server.url, { attempts: 2, attemptTimeout: 200 });
    await expect(sender.send({})).rejects.toMatchObject({ code: 'service_unavailable' });
    const timeout = { code: 'service_unavailable', cause: 'timeout', status: undefined };
    const network = { code: 'service_unavailable', cause: 'network', status: undefined };
    expect(messages[0]).toMatchObject(timeout);
    expect(messages.at(-1)).toMatchObject(network);
    await sender.close();
    await server.stop();
    messages.length = 0;
    server = await startServer((_request, response) => sendJson(response, {}, 503));
    sender = Sender.with(server.url, { attempts: 1 });
    await expect(sender.send({})).rejects.toMatchObject({ code: 'service_unavailable' });
    expect(messages.map(({ status, cause }) => [status, cause])).toEqual([[503, undefined]]);
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
