import { constants } from 'node:buffer';
import { setImmediate as nextTurn } from 'node:timers/promises';
import { brotliCompressSync, deflateRawSync, deflateSync, gzipSync } from 'node:zlib';
import { createServer } from 'node:net';
import type { ServerResponse } from 'node:http';
import { afterEach, describe, expect, it } from '@jest/globals';
import { parseJson, ReplyTurns, UnreadableBody } from '../../lib/transport/wire/reply-body.js';
import { Sender } from './transport-bench.js';
import { type TestServer, follow, sendJson, startServer } from '../support/server.js';

let server: TestServer;
let sender: Sender;

afterEach(async () => {
  await sender?.close();
  await server?.stop();
});

async function replying(write: (response: ServerResponse) => void, http = {}): Promise<void> {
  server = await startServer((_request, response) => write(response));
  sender = Sender.with(server.url, http);
}

const PAGE = { data: [{ name: 'Zoë & Söhne' }] };
const text = JSON.stringify(PAGE);

describe('a reply', () => {
  it.each([
    ['gzip', gzipSync(text)],
    ['deflate', deflateSync(text)],
    ['GZIP', gzipSync(text)],
    ['identity', Buffer.from(text)],
  ])('is decompressed: %s', async (encoding, packed) => {
    await replying((response) =>
      response
        .writeHead(200, { 'content-type': 'application/json', 'content-encoding': encoding })
        .end(packed),
    );
    const reply = await sender.send();
    expect(reply).toMatchObject({ status: 200, body: PAGE, attempts: 1 });
    expect(server.requests[0]?.headers['accept-encoding']).toBe('gzip, deflate');
  });

  it.each([
    ['an encoding nobody asked for', 'br', brotliCompressSync(text)],
    ['a body that is not what its encoding says', 'gzip', Buffer.from(text)],
    ['deflate without the header of zlib (RFC 9110 §8.4.1.2)', 'deflate', deflateRawSync(text)],
    ['a packed body that ends early', 'gzip', gzipSync(text.repeat(50)).subarray(0, 60)],
  ])('is malformed with %s', async (_what, encoding, body) => {
    await replying((response) =>
      response.writeHead(200, { 'content-type': 'application/json', 'content-encoding': encoding }).end(body),
    );
    await expect(sender.send()).rejects.toMatchObject({
      code: 'malformed_response',
      status: 200,
      attempts: 1,
    });
    expect(server.requests).toHaveLength(1);
  });

  it('may be nested 100 levels deep, and no deeper', async () => {
    const nested = (levels: number, padding: string): object => {
      const list: unknown = JSON.parse(`${'['.repeat(levels - 1)}${']'.repeat(levels - 1)}`);
      return { padding, list };
    };
    let reply = {};
    await replying((response) => sendJson(response, reply));
    for (const padding of ['', 'x'.repeat(200_000)]) {
      reply = nested(100, padding);
      await expect(sender.send()).resolves.toMatchObject({ status: 200 });
      reply = nested(101, padding);
      await expect(sender.send()).rejects.toMatchObject({
        code: 'malformed_response',
        message: 'the reply of the service cannot be used: it is nested too deeply',
      });
    }
  });

  it('may have maxResponseBytes after decompression, and not a byte more', async () => {
    const body = (bytes: number): string => JSON.stringify('x'.repeat(bytes - 2));
    for (const pack of [(plain: string) => Buffer.from(plain), (plain: string) => gzipSync(plain)]) {
      for (const [bytes, fits] of [
        [10_000, true],
        [10_001, false],
      ] as const) {
        const packed = pack(body(bytes));
        const encoding = packed.length < bytes ? 'gzip' : 'identity';
        await replying(
          (response) =>
            response
              .writeHead(200, { 'content-type': 'application/json', 'content-encoding': encoding })
              .end(packed),
          { maxResponseBytes: 10_000 },
        );
        const sent = sender.send();
        if (fits) {
          await expect(sent).resolves.toMatchObject({ status: 200 });
        } else {
          await expect(sent).rejects.toMatchObject({ code: 'malformed_response' });
        }
        await sender.close();
        await server.stop();
      }
    }
  });

  it.each(['token', 'code', 'userinfo', 'keys'] as const)(
    'to %s may have 256 KiB at most',
    async (operation) => {
      let bytes = 256 * 1024;
      await replying((response) => sendJson(response, 'x'.repeat(bytes - 2)));
      await expect(sender.send({ operation })).resolves.toMatchObject({ status: 200 });
      bytes += 1;
      await expect(sender.send({ operation })).rejects.toMatchObject({ code: 'malformed_response' });
    },
  );

  it.each([
    'application/json',
    'application/json; charset=utf-8',
    'Application/JSON',
    'application/jwk-set+json',
    'application/problem+json;charset=utf-8',
  ])('is JSON by its content type: %s', async (type) => {
    await replying((response) => response.writeHead(200, { 'content-type': type }).end('[]'));
    await expect(sender.send()).resolves.toMatchObject({ body: [] });
  });

  it.each(['text/html', 'text/plain', 'application/jsonp', 'application/x-json', 'application/jwt'])(
    'is malformed by its content type: %s',
    async (type) => {
      await replying((response) => response.writeHead(200, { 'content-type': type }).end('[]'));
      await expect(sender.send()).rejects.toMatchObject({ code: 'malformed_response' });
    },
  );

  it('without a content type is malformed', async () => {
    await replying((response) => response.writeHead(200).end('[]'));
    await expect(sender.send()).rejects.toMatchObject({ code: 'malformed_response' });
  });

  it('may begin with a byte order mark', async () => {
    await replying((response) =>
      response.writeHead(200, { 'content-type': 'application/json' }).end('\uFEFF{"a":1}'),
    );
    await expect(sender.send()).resolves.toMatchObject({ body: { a: 1 } });
  });

  it('with 204 has no body', async () => {
    await replying((response) => response.writeHead(204).end());
    await expect(sender.send()).resolves.toMatchObject({ status: 204, body: undefined });
  });

  it.each([
    ['JSON', '{"error":"invalid_client"}', { error: 'invalid_client' }],
    ['HTML', '<html></html>', undefined],
    ['nothing', '', undefined],
  ])('with a 4xx is returned to the caller, its body %s', async (_what, body, parsed) => {
    await replying((response) => response.writeHead(403, { 'content-type': 'text/html' }).end(body));
    await expect(sender.send()).resolves.toMatchObject({ status: 403, body: parsed });
  });

  it('with a 4xx is returned by its status, whatever the length of its body', async () => {
    await replying((response) => response.writeHead(404).end(Buffer.alloc(2_000_000)));
    await expect(sender.send()).resolves.toMatchObject({ status: 404, body: undefined });
  });

  it.each([301, 302, 304, 307, 308])(
    'with %i is malformed, and no request follows the redirect',
    async (status) => {
      await replying((response) => response.writeHead(status, { location: `${server.url}/elsewhere` }).end());
      await expect(sender.send()).rejects.toMatchObject({ code: 'malformed_response', status, attempts: 1 });
      expect(server.requests).toHaveLength(1);
    },
  );

  it.each([501, 505, 520])('with %i is a failure without a retry', async (status) => {
    await replying((response) => sendJson(response, {}, status));
    await expect(sender.send()).rejects.toMatchObject({ code: 'service_unavailable', status, attempts: 1 });
  });

  it('may be preceded by informational responses', async () => {
    await replying((response) => {
      response.writeProcessing();
      response.writeEarlyHints({ link: '</style.css>; rel=preload' });
      sendJson(response, PAGE);
    });
    await expect(sender.send()).resolves.toMatchObject({ status: 200, body: PAGE });
  });

  it('that is not HTTP is a network failure', async () => {
    server = await follow(
      createServer((socket) => socket.on('error', () => undefined).end('SSH-2.0-OpenSSH_9.6\r\n')),
      'http',
    );
    sender = Sender.with(server.url, { attempts: 1 });
    await expect(sender.send()).rejects.toMatchObject({ code: 'service_unavailable', attempts: 1 });
  });
});

describe('a request', () => {
  it('posts its form unchanged, with one Accept header', async () => {
    let received = '';
    server = await startServer((request, response) => {
      request
        .on('data', (chunk: Buffer) => (received += chunk.toString()))
        .on('end', () => sendJson(response));
    });
    sender = Sender.with(server.url);
    await sender.send({
      method: 'POST',
      operation: 'token',
      body: 'a=1&b=%2F+x',
      headers: { accept: 'application/json', 'x-tenant-id': 't' },
    });
    expect(received).toBe('a=1&b=%2F+x');
    expect(server.requests[0]?.headers).toMatchObject({
      accept: 'application/json',
      'content-type': 'application/x-www-form-urlencoded',
      'content-length': '11',
      'x-tenant-id': 't',
    });
  });

  it('uses no proxy and no credentials of the environment', async () => {
    const before = { ...process.env };
    try {
      process.env['HTTP_PROXY'] = process.env['http_proxy'] = 'http://127.0.0.1:9';
      await replying((response) => sendJson(response));
      await expect(sender.send()).resolves.toMatchObject({ status: 200 });
      expect(server.requests[0]?.headers.authorization).toBeUndefined();
    } finally {
      process.env = before;
    }
  });
});

describe('a reply that is longer than any text of Node', () => {
  it('cannot be read, and throws nothing: no call waits for the turn in which it is parsed', () => {
    // Memory that was never written takes none.
    const reply = Buffer.allocUnsafeSlow(constants.MAX_STRING_LENGTH + 1);
    expect(parseJson(reply)).toBeInstanceOf(UnreadableBody);
  });
});

describe('the turns of replies', () => {
  it('are of six, so that what is requested after them leaves before others are parsed', async () => {
    const turns = new ReplyTurns();
    let parsed = 0;
    for (let reply = 0; reply < 10; reply += 1) {
      turns.take(() => (parsed += 1));
    }
    expect(parsed).toBe(6);
    await nextTurn();
    expect(parsed).toBe(10);
  });
});
