import { brotliCompressSync, deflateRawSync, deflateSync, gzipSync } from 'node:zlib';
import { createServer } from 'node:net';
import { PassThrough, Readable } from 'node:stream';
import type { ServerResponse } from 'node:http';
import { describe, expect, it } from '@jest/globals';
import { isExhibitorError } from '../../lib/index.js';
import { tenantAt } from '../support/tenant-at.js';
import { ending, Sender } from './transport-bench.js';
import { type TestServer, follow, sendJson, startServer } from '../support/server.js';
import { eventually } from '../support/wait.js';

let server: TestServer;
let sender: Sender;

async function replying(write: (response: ServerResponse) => void, http = {}): Promise<void> {
  server = ending(await startServer((_request, response) => write(response)));
  sender = ending(Sender.with(server.url, http));
}

const JSON_TYPE = 'application/json';
/** Replies with these headers and this body, without a change. */
const sending = (
  body: string | Buffer,
  headers: Record<string, string | string[]> = {},
  status = 200,
  http = {},
) =>
  replying((response) => {
    const all = new Map(Object.entries({ 'content-type': JSON_TYPE, ...headers }));
    response.setHeaders(all).writeHead(status).end(body);
  }, http);
const malformed = { code: 'malformed_response', status: 200, attempts: 1 };

const PAGE = { data: [{ name: 'Zoë & Söhne' }] };
const text = JSON.stringify(PAGE);

describe('a reply', () => {
  it.each<[string | string[], Buffer]>([
    ['gzip', gzipSync(text)],
    ['deflate', deflateSync(text)],
    ['GZIP', gzipSync(text)],
    ['x-gzip', gzipSync(text)],
    ['deflate', deflateRawSync(text)],
    ['deflate, gzip', gzipSync(deflateRawSync(text))],
    ['gzip, utf-8', gzipSync(text)],
    ['gzip;q=1', gzipSync(text)],
    ['deflate ; q=0.5, gzip; q=1.0', gzipSync(deflateSync(text))],
    [['gzip', 'gzip'], gzipSync(text)],
    [['x-gzip', 'gzip'], gzipSync(text)],
    ...['', ',', 'utf-8', 'UTF-8', 'none', 'application/json', 'br'].map((none): [string, Buffer] => [
      none,
      Buffer.from(text),
    ]),
    ['identity', Buffer.from(text)],
    ['identity', Buffer.from(`\uFEFF${text}`)],
  ])('is decompressed, and may begin with a byte order mark: %s', async (encoding, packed) => {
    await sending(packed, { 'content-encoding': encoding });
    await expect(sender.send()).resolves.toMatchObject({ status: 200, body: PAGE });
    expect(server.requests[0]?.headers['accept-encoding']).toBe('gzip, deflate');
  });

  it.each([
    ['an encoding nobody asked for', 'br', brotliCompressSync(text)],
    ['a body that is not what its encoding says', 'gzip', Buffer.from(text)],
    ['a body that is packed otherwise', 'deflate', brotliCompressSync(text)],
    ['a text that is not UTF-8', 'identity', Buffer.from([0x5b, 0x22, 0xff, 0xfe, 0x22, 0x5d])],
    ['a packed body that ends early', 'gzip', gzipSync(text.repeat(50)).subarray(0, 60)],
  ])('is malformed with %s', async (_what, encoding, body) => {
    await sending(body, { 'content-encoding': encoding });
    await expect(sender.send()).rejects.toMatchObject(malformed);
    expect(server.requests).toHaveLength(1);
  });

  it.each(['', 'x'.repeat(200_000)])('may be nested 100 levels deep, and no deeper', async (padding) => {
    const nested = (levels: number): object => ({
      padding,
      list: JSON.parse(`${'['.repeat(levels - 1)}${']'.repeat(levels - 1)}`),
    });
    let reply = nested(100);
    await replying((response) => sendJson(response, reply));
    await expect(sender.send()).resolves.toMatchObject({ status: 200 });
    reply = nested(101);
    const message = 'the reply of the service cannot be used: it is nested too deeply';
    await expect(sender.send()).rejects.toMatchObject({ ...malformed, message });
  });

  it.each([10_000, 10_001])(
    'may have maxResponseBytes after decompression, and not a byte more: %i',
    async (bytes) => {
      const body = JSON.stringify('x'.repeat(bytes - 2));
      for (const packed of [Buffer.from(body), gzipSync(body)]) {
        const encoding = packed.length < bytes ? 'gzip' : 'identity';
        await sending(packed, { 'content-encoding': encoding }, 200, { maxResponseBytes: 10_000 });
        const sent = sender.send();
        await (bytes === 10_000
          ? expect(sent).resolves.toMatchObject({ status: 200 })
          : expect(sent).rejects.toMatchObject(malformed));
      }
    },
  );

  it('of chunks of one byte takes no more memory than another', async () => {
    const MOST = 2 * 1024 * 1024;
    const body = Buffer.from(JSON.stringify('x'.repeat(MOST - 2)));
    const chunks = Buffer.alloc(MOST * 6, '1\r\n_\r\n');
    body.forEach((byte, at) => (chunks[at * 6 + 3] = byte));
    await replying(
      ({ socket }) => {
        socket?.write(
          'HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ntransfer-encoding: chunked\r\n\r\n',
        );
        Readable.from([chunks, Buffer.from('0\r\n\r\n')]).pipe(socket ?? new PassThrough(), { end: false });
      },
      { maxResponseBytes: MOST, attemptTimeout: 25_000, deadline: 25_000 },
    );
    const before = process.memoryUsage().heapUsed;
    let most = before;
    const watch = setInterval(() => (most = Math.max(most, process.memoryUsage().heapUsed)), 5);
    await expect(sender.send()).resolves.toMatchObject({ status: 200 });
    clearInterval(watch);
    // A chunk is an object of a hundred bytes until the garbage collector runs.
    expect(most - before).toBeLessThan(100 * 1024 * 1024);
  });

  const LIMIT = 2 * 1024 * 1024;
  it.each([
    ['50 MB', 'identity', Buffer.alloc(50e6, 'x')],
    ['a gzip bomb of 30 MB', 'gzip', gzipSync(Buffer.alloc(30e6, 'x'))],
  ])('is dropped at the limit, each time: %s', async (_what, encoding, body) => {
    await sending(body, { 'content-encoding': encoding });
    await expect(sender.send()).rejects.toMatchObject(malformed);
    // The memory of array buffers, which hold the bodies. Dropped chunks wait for the garbage collector.
    const before = process.memoryUsage().arrayBuffers;
    let most = before;
    const watch = setInterval(() => (most = Math.max(most, process.memoryUsage().arrayBuffers)), 2);
    for (let call = 0; call < 3; call += 1) {
      await expect(sender.send()).rejects.toMatchObject(malformed);
    }
    clearInterval(watch);
    expect(most - before).toBeLessThan(20 * LIMIT);
    await eventually(() => server.connections.size <= 1);
  });

  it.each(['token', 'code', 'userinfo', 'keys'] as const)(
    'to %s may have 256 KiB at most',
    async (operation) => {
      let bytes = 256 * 1024;
      await replying((response) => sendJson(response, 'x'.repeat(bytes - 2)));
      await expect(sender.send({ operation })).resolves.toMatchObject({ status: 200 });
      bytes += 1;
      await expect(sender.send({ operation })).rejects.toMatchObject(malformed);
    },
  );

  it.each<[string | string[] | undefined, end: object]>([
    ['application/json; charset=utf-8', { status: 200 }],
    ['Application/JSON', { status: 200 }],
    ['application/jwk-set+json', { status: 200 }],
    ['application/problem+json;charset=utf-8', { status: 200 }],
    ['text/json; charset=utf-8', { status: 200 }],
    ['application/json; profile="a, b"', { status: 200 }],
    ['application/json, application/json;charset=utf-8', { status: 200 }],
    [[JSON_TYPE, JSON_TYPE], { status: 200 }],
    [[JSON_TYPE, 'text/html'], malformed],
    ['application/json, text/html', malformed],
    ['text/html', malformed],
    ['text/plain+json', malformed],
    ['application/jsonp', malformed],
    ['application/x-json', malformed],
    ['application/jwt', malformed],
    [undefined, malformed],
  ])('is JSON by its content type: %s', async (type, end) => {
    await replying((response) => {
      response.setHeaders(new Map(type === undefined ? [] : [['content-type', type]])).end('[]');
    });
    expect(await sender.send().catch((error) => error)).toMatchObject(end);
  });

  it.each<[string, string | Buffer, unknown]>([
    ['JSON', '{"error":"invalid_client"}', { error: 'invalid_client' }],
    ['HTML', '<html></html>', undefined],
    ['nothing', '', undefined],
    ['too long', Buffer.alloc(2_000_000), undefined],
  ])('with a 4xx is returned to the caller, its body %s', async (_what, body, parsed) => {
    await sending(body, { 'content-type': 'text/html' }, 403);
    await expect(sender.send()).resolves.toMatchObject({ status: 403, body: parsed });
  });
});

describe('a request', () => {
  it('posts its form unchanged, with one Accept header, through no proxy of the environment', async () => {
    const before = { ...process.env };
    process.env['HTTP_PROXY'] = process.env['http_proxy'] = 'http://127.0.0.1:9';
    let received = '';
    server = await startServer((request, response) => {
      request
        .on('data', (chunk: Buffer) => (received += chunk.toString()))
        .on('end', () => sendJson(response));
    });
    sender = ending(Sender.with(ending(server).url));
    const headers = { accept: JSON_TYPE, 'x-tenant-id': 't' };
    await sender.send({ method: 'POST', operation: 'token', body: 'a=1&b=%2F+x', headers }).finally(() => {
      process.env = before;
    });
    expect(received).toBe('a=1&b=%2F+x');
    expect(server.requests[0]?.headers).toMatchObject({
      ...headers,
      'content-type': 'application/x-www-form-urlencoded',
      'content-length': '11',
    });
    expect(server.requests[0]?.headers.authorization).toBeUndefined();
  });
});

const TYPE = 'content-type: application/json\r\n';
const OK = `HTTP/1.1 200 OK\r\n${TYPE}`;
const CHUNKED = `${OK}transfer-encoding: chunked\r\n\r\n1\r\n[\r\n`;
const USUAL = `${OK}content-length: 2\r\n\r\n[]`;
/** Replies that end in unusual ways. The server closes the connection after `END`. */
const END = 'end';
const ENDS = {
  'a usual one': USUAL,
  'interim responses': `HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Hints\r\n\r\n${USUAL}`,
  'an upgrade': `HTTP/1.1 101 Switching\r\nconnection: upgrade\r\nupgrade: x\r\n\r\n${USUAL}`,
  'names of prototypes': USUAL.replace(TYPE, `${TYPE}__proto__: a\r\nconstructor: b\r\nconstructor: c\r\n`),
  'a status of 000': USUAL.replace('200', '000'),
  'a status of 999': USUAL.replace('200', '999'),
  '204 with a body': USUAL.replace('200', '204'),
  '304 with a length': `HTTP/1.1 304 Not Modified\r\ncontent-length: 5\r\n\r\n`,
  'two lengths': `${OK}content-length: 2\r\ncontent-length: 3\r\n\r\n[]`,
  'a length beside chunks': `${OK}content-length: 2\r\ntransfer-encoding: chunked\r\n\r\n0\r\n\r\n`,
  'a chunk of no size': `${CHUNKED}zz\r\n`,
  trailers: `${CHUNKED}1\r\n]\r\n0\r\n__proto__: a\r\nconstructor: b\r\n\r\n`,
  'large trailers': `${CHUNKED}1\r\n]\r\n0\r\nx: ${'y'.repeat(90_000)}\r\n\r\n`,
  'large headers': `${OK}x: ${'y'.repeat(90_000)}\r\n\r\n`,
  'more than one reply': USUAL + USUAL + USUAL,
  'two encodings': USUAL.replace(TYPE, `${TYPE}content-encoding: gzip, br\r\n`),
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
          socket.write(reply.replace(END, ''));
          if (reply.endsWith(END)) {
            setTimeout(() => socket.end(), 5);
          }
        });
      }),
    );
    const { url } = ending(server);
    const hostile = tenantAt(url, { attempts: 1, attemptTimeout: 1_000 });
    sender = ending(Sender.withTenants({ hostile, other: tenantAt(url) }));
    const usable: string[] = [];
    for (const [index, name] of Object.keys(ENDS).entries()) {
      const sent = sender.send({ url: `${url}/${index}` }, { tenant: 'hostile' });
      await sent.then(
        () => usable.push(name),
        (error) => expect(isExhibitorError(error)).toBe(true),
      );
    }
    const answers = [
      'a usual one',
      'names of prototypes',
      '204 with a body',
      'trailers',
      'more than one reply',
    ];
    expect(usable).toEqual(answers);
    await expect(sender.send({ url: `${url}/other` }, { tenant: 'other' })).resolves.toMatchObject({
      body: [],
    });
  });
});
