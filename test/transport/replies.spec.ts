import { setImmediate as nextTurn } from 'node:timers/promises';
import { brotliCompressSync, deflateRawSync, deflateSync, gzipSync } from 'node:zlib';
import { createServer } from 'node:net';
import type { ServerResponse } from 'node:http';
import { afterEach, describe, expect, it } from '@jest/globals';
import { ReplyTurns } from '../../lib/transport/wire/reply-body.js';
import { Sender, tenantAt } from './transport-bench.js';
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
    await expect(sender.send()).resolves.toMatchObject({ status: 200, body: PAGE });
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

  it.each<[string | undefined, isUsable: boolean]>([
    ['application/json; charset=utf-8', true],
    ['Application/JSON', true],
    ['application/jwk-set+json', true],
    ['application/problem+json;charset=utf-8', true],
    ['application/jsonp', false],
    ['application/x-json', false],
    ['application/jwt', false],
    [undefined, false],
  ])('is JSON by its content type: %s %s', async (type, isUsable) => {
    await replying((response) => {
      response.writeHead(200, type === undefined ? {} : { 'content-type': type }).end('[]');
    });
    const code = await sender.send().then(
      () => undefined,
      (error) => error.code,
    );
    expect(code).toBe(isUsable ? undefined : 'malformed_response');
  });

  it('may begin with a byte order mark', async () => {
    await replying((response) =>
      response.writeHead(200, { 'content-type': 'application/json' }).end('\uFEFF{"a":1}'),
    );
    await expect(sender.send()).resolves.toMatchObject({ body: { a: 1 } });
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

  it.each([301, 308])('with %i is malformed, and no request follows the redirect', async (status) => {
    await replying((response) => response.writeHead(status, { location: `${server.url}/elsewhere` }).end());
    await expect(sender.send()).rejects.toMatchObject({ code: 'malformed_response', status, attempts: 1 });
    expect(server.requests).toHaveLength(1);
  });

  it.each([501, 505, 520])('with %i is a failure without a retry', async (status) => {
    await replying((response) => sendJson(response, {}, status));
    await expect(sender.send()).rejects.toMatchObject({ code: 'service_unavailable', status, attempts: 1 });
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

const JSON_TYPE = 'content-type: application/json\r\n';
const OK = `HTTP/1.1 200 OK\r\n${JSON_TYPE}`;
const CHUNKED = `${OK}transfer-encoding: chunked\r\n\r\n1\r\n[\r\n`;
const USUAL = `${OK}content-length: 2\r\n\r\n[]`;
/** Replies that end in unusual ways. The server closes the connection after `RESET` and `END`. */
const [RESET, END] = ['reset', 'end'];
const ENDS = {
  'a usual one': USUAL,
  'interim responses': `HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Hints\r\n\r\n${USUAL}`,
  'an upgrade': `HTTP/1.1 101 Switching\r\nconnection: upgrade\r\nupgrade: x\r\n\r\n${USUAL}`,
  'names of prototypes': USUAL.replace(
    JSON_TYPE,
    `${JSON_TYPE}__proto__: a\r\nconstructor: b\r\nconstructor: c\r\n`,
  ),
  'a status of 000': USUAL.replace('200', '000'),
  'a status of 999': USUAL.replace('200', '999'),
  '204 with a body': USUAL.replace('200', '204'),
  '304 with a length': `HTTP/1.1 304 Not Modified\r\ncontent-length: 5\r\n\r\n`,
  'a length without a body': `${OK}content-length: 9\r\n\r\n`,
  'a reset': `${OK}content-length: 9\r\n\r\n[1,${RESET}`,
  'an early end': `${OK}content-length: 9\r\n\r\n[1,${END}`,
  'two lengths': `${OK}content-length: 2\r\ncontent-length: 3\r\n\r\n[]`,
  'a length beside chunks': `${OK}content-length: 2\r\ntransfer-encoding: chunked\r\n\r\n0\r\n\r\n`,
  'a chunk of no size': `${CHUNKED}zz\r\n`,
  trailers: `${CHUNKED}1\r\n]\r\n0\r\n__proto__: a\r\nconstructor: b\r\n\r\n`,
  'large trailers': `${CHUNKED}1\r\n]\r\n0\r\nx: ${'y'.repeat(90_000)}\r\n\r\n`,
  'large headers': `${OK}x: ${'y'.repeat(90_000)}\r\n\r\n`,
  'more than one reply': USUAL + USUAL + USUAL,
  'no gzip': USUAL.replace(JSON_TYPE, `${JSON_TYPE}content-encoding: gzip\r\n`),
  'two encodings': USUAL.replace(JSON_TYPE, `${JSON_TYPE}content-encoding: gzip, br\r\n`),
  'another type': USUAL.replace('application/json', 'text/html'),
  'too large': `${OK}content-length: 999999999\r\n\r\n[`,
  'a negative length': `${OK}content-length: -1\r\n\r\n`,
  'no status line': `[]${END}`,
};

describe('replies that end in unusual ways', () => {
  it('end in an answer or an error, and harm no other tenant', async () => {
    const replies = Object.values(ENDS);
    server = await follow(
      createServer((socket) => {
        socket.on('data', (head) => {
          const reply = replies[Number(/^GET \/(\d+)/.exec(head.toString())?.[1])] ?? USUAL;
          const close = [RESET, END].find((word) => reply.endsWith(word));
          socket.write(reply.slice(0, reply.length - (close?.length ?? 0)));
          if (close !== undefined) {
            setTimeout(() => (close === RESET ? socket.resetAndDestroy() : socket.end()), 5);
          }
        });
      }),
    );
    const { url } = server;
    sender = Sender.withTenants({
      hostile: tenantAt(url, { attempts: 1, attemptTimeout: 200 }),
      other: tenantAt(url),
    });
    for (const [index, name] of Object.keys(ENDS).entries()) {
      const reply = await sender
        .send({ url: `${url}/${index}` }, { tenant: 'hostile' })
        .catch((error) => error);
      const isUsable = [0, 3, 6, 14, 17].includes(index);
      expect([name, reply instanceof Error]).toEqual([name, !isUsable]);
    }
    await expect(sender.send({ url: `${url}/other` }, { tenant: 'other' })).resolves.toMatchObject({
      body: [],
    });
  });
});
