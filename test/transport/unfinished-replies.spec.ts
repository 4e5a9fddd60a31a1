import { brotliCompressSync, constants, gzipSync } from 'node:zlib';
import { createServer } from 'node:net';
import { afterEach, describe, expect, it, jest } from '@jest/globals';
import type { Dispatcher } from 'undici';
import type { Outcome } from '../../lib/transport/outcome.js';
import { ResponseHandler } from '../../lib/transport/wire/response-handler.js';
import { UnfinishedReplies } from '../../lib/transport/wire/unfinished-replies.js';
import { Sender, tenantAt } from './transport-bench.js';
import { follow, type TestServer, sendJson, startServer } from '../support/server.js';
import { eventually } from '../support/wait.js';

const MIB = 1024 * 1024;

let server: TestServer;
let sender: Sender | undefined;

afterEach(async () => {
  await sender?.close();
  await server?.stop();
});

describe('replies that a service begins and does not end', () => {
  it('hold 64 MiB of its tenant; more fail, without retries and without a failure in the circuit', async () => {
    const part = Buffer.alloc(3 * MIB, ' ');
    let stalls = true;
    server = await startServer((request, response) => {
      if (stalls && request.url?.startsWith('/hostile') === true) {
        response.writeHead(200, { 'content-type': 'application/json', 'content-length': 4 * MIB });
        response.write(part);
      } else {
        sendJson(response);
      }
    });
    const limits = { deadline: 60_000, attemptTimeout: 60_000 };
    sender = Sender.withTenants({
      hostile: tenantAt(`${server.url}/hostile`, limits),
      other: tenantAt(`${server.url}/other`),
    });
    const errors: unknown[] = [];
    const leaving = new AbortController();
    const calls = Array.from({ length: 64 }, () =>
      sender?.send({}, { tenant: 'hostile', signal: leaving.signal }).catch((error) => errors.push(error)),
    );
    const kept = Math.floor(64 / 3);
    await eventually(() => errors.length === 64 - kept, 20_000);
    expect(server.requests).toHaveLength(64);
    for (const error of errors) {
      expect(error).toMatchObject({ code: 'service_unavailable', tenant: 'hostile', attempts: 1 });
      expect(error).toHaveProperty('message', expect.stringContaining('more than 64 MiB'));
    }
    await expect(sender.send({}, { tenant: 'other' })).resolves.toMatchObject({ status: 200 });
    stalls = false;
    // 43 failures in a row would have opened the circuit.
    await expect(sender.send({}, { tenant: 'hostile' })).resolves.toMatchObject({ status: 200 });
    leaving.abort();
    await Promise.all(calls);
  });
});

const JSON_TYPE = 'content-type: application/json\r\n';
const OK = `HTTP/1.1 200 OK\r\n${JSON_TYPE}`;
const CHUNKED = `${OK}transfer-encoding: chunked\r\n\r\n1\r\n[\r\n`;
const PAGE = `${OK}content-length: 2\r\n\r\n[]`;
/** Replies that end in unusual ways. The server closes the connection after `RESET` and `END`. */
const [RESET, END] = ['reset', 'end'];
const ENDS = {
  'a usual one': PAGE,
  'interim responses': `HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Hints\r\n\r\n${PAGE}`,
  'an upgrade': `HTTP/1.1 101 Switching\r\nconnection: upgrade\r\nupgrade: x\r\n\r\n${PAGE}`,
  'names of prototypes': PAGE.replace(
    JSON_TYPE,
    `${JSON_TYPE}__proto__: a\r\nconstructor: b\r\nconstructor: c\r\n`,
  ),
  'a status of 000': PAGE.replace('200', '000'),
  'a status of 999': PAGE.replace('200', '999'),
  '204 with a body': PAGE.replace('200', '204'),
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
  'more than one reply': PAGE + PAGE + PAGE,
  'no gzip': PAGE.replace(JSON_TYPE, `${JSON_TYPE}content-encoding: gzip\r\n`),
  'two encodings': PAGE.replace(JSON_TYPE, `${JSON_TYPE}content-encoding: gzip, br\r\n`),
  'another type': PAGE.replace('application/json', 'text/html'),
  'too large': `${OK}content-length: 999999999\r\n\r\n[`,
  'a negative length': `${OK}content-length: -1\r\n\r\n`,
  'no status line': `[]${END}`,
};

describe('replies that end in unusual ways', () => {
  it('take no room when they have ended, and harm no other tenant', async () => {
    const unfinished = new Set<unknown>();
    const { hold, release } = UnfinishedReplies.prototype;
    jest.spyOn(UnfinishedReplies.prototype, 'hold').mockImplementation(function (
      this: UnfinishedReplies,
      reply,
      bytes,
    ) {
      unfinished.add(reply);
      hold.call(this, reply, bytes);
    });
    jest.spyOn(UnfinishedReplies.prototype, 'release').mockImplementation(function (
      this: UnfinishedReplies,
      reply,
    ) {
      unfinished.delete(reply);
      release.call(this, reply);
    });
    const replies = Object.values(ENDS);
    server = await follow(
      createServer((socket) => {
        socket.on('data', (head) => {
          const reply = replies[Number(/^GET \/(\d+)/.exec(head.toString())?.[1])] ?? PAGE;
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
      const isUsable = [0, 3, 14, 17].includes(index);
      expect([name, reply instanceof Error]).toEqual([name, !isUsable]);
    }
    await eventually(() => unfinished.size === 0);
    await expect(sender.send({ url: `${url}/other` }, { tenant: 'other' })).resolves.toMatchObject({
      body: [],
    });
    jest.restoreAllMocks();
  });
});

const line = { pause: () => undefined, resume: () => undefined, abort: () => undefined };
const controller = line as unknown as Dispatcher.DispatchController;
/** Blocks keep a chunk that fills its memory as it is, so that many replies of this one take no memory. */
const CHUNK = Buffer.alloc(MIB, ' ');

function begin(replies: UnfinishedReplies, tenant: string, mib: number): ResponseHandler {
  const handler = new ResponseHandler({ payer: tenant, replyLimit: 100 * MIB }, replies);
  handler.onRequestStart(controller);
  handler.onResponseStart(controller, 200, { 'content-type': 'application/json' });
  for (let sent = 0; sent < mib; sent += 1) {
    handler.onResponseData(controller, CHUNK);
  }
  return handler;
}

/** The end of a whole reply of `acme`. */
function endOf(
  replies: UnfinishedReplies,
  encoding: string,
  body: Buffer,
  replyLimit = 100 * MIB,
): Promise<Outcome> {
  const handler = new ResponseHandler({ payer: 'acme', replyLimit }, replies);
  handler.onRequestStart(controller);
  handler.onResponseStart(controller, 200, {
    'content-type': 'application/json',
    'content-encoding': encoding,
  });
  handler.onResponseData(controller, body);
  handler.onResponseEnd();
  return handler.outcome;
}

async function whyOf({ isSettled, outcome }: ResponseHandler): Promise<string> {
  const end: Outcome | undefined = isSettled ? await outcome : undefined;
  return end?.kind === 'failed' ? end.why : (end?.kind ?? 'unfinished');
}

describe('unfinished replies', () => {
  it('hold 512 MiB of all tenants: the one that holds most loses its largest', async () => {
    const replies = new UnfinishedReplies();
    const small = [begin(replies, 'small', 1)];
    const large = [begin(replies, 'large', 30), begin(replies, 'large', 34)];
    for (let tenant = 0; tenant < 7; tenant += 1) {
      small.push(begin(replies, `tenant ${tenant}`, 30), begin(replies, `tenant ${tenant}`, 33));
    }
    for (const handler of [...small, ...large]) {
      expect(await whyOf(handler)).toBe('unfinished');
    }
    small.push(begin(replies, 'last', 7));
    expect(await Promise.all(large.map(whyOf))).toEqual(['unfinished', 'memory']);
    for (const handler of small) {
      expect(await whyOf(handler)).toBe('unfinished');
    }
    await expect(large[1]?.outcome).resolves.toMatchObject({
      message: expect.stringContaining('512 MiB'),
    });
  });

  it('may be one that is larger than 64 MiB, where its limit is', async () => {
    const replies = new UnfinishedReplies();
    const sole = begin(replies, 'acme', 90);
    const second = begin(replies, 'acme', 10);
    expect(await whyOf(sole)).toBe('unfinished');
    second.onResponseData(controller, CHUNK);
    expect(await Promise.all([whyOf(sole), whyOf(second)])).toEqual(['memory', 'unfinished']);
  });

  it('are counted no more once they have ended, however they did', async () => {
    const replies = new UnfinishedReplies();
    for (let reply = 0; reply < 8; reply += 1) {
      const handler = begin(replies, 'acme', 30);
      switch (reply % 4) {
        case 0:
          handler.onResponseData(controller, Buffer.from('{}'));
          handler.onResponseEnd();
          break;
        case 1:
          handler.onResponseError(controller, new Error('reset'));
          break;
        case 2:
          handler.stop('over');
          break;
        default:
          handler.giveUp('not needed');
      }
      await handler.outcome;
      // What a dispatcher delivers later is not counted.
      handler.onResponseData(controller, CHUNK);
    }
    const whole = begin(replies, 'acme', 64);
    expect(await whyOf(whole)).toBe('unfinished');
  });

  it('are weighed while they are decompressed', async () => {
    const replies = new UnfinishedReplies();
    const others = [begin(replies, 'acme', 60), begin(replies, 'acme', 38)];
    expect(await Promise.all(others.map(whyOf))).toEqual(['unfinished', 'unfinished']);
    const packed = endOf(replies, 'gzip', gzipSync(JSON.stringify('x'.repeat(5 * MIB))));
    await expect(packed).resolves.toMatchObject({ kind: 'answered' });
    expect(await Promise.all(others.map(whyOf))).toEqual(['memory', 'unfinished']);
    others[1]?.stop('over');
    expect(await whyOf(begin(replies, 'acme', 64))).toBe('unfinished');
  });

  it('are decompressed one after the other: many large ones of a tenant fit', async () => {
    const replies = new UnfinishedReplies();
    const zip = gzipSync(JSON.stringify('x'.repeat(5 * MIB)));
    const ends = await Promise.all(Array.from({ length: 16 }, () => endOf(replies, 'gzip', zip, 8 * MIB)));
    expect(new Set(ends.map(({ kind }) => kind))).toEqual(new Set(['answered']));
  });

  it('take one window of Brotli a tenant, which is 16 MiB', async () => {
    const bomb = brotliCompressSync(Buffer.alloc(64 * MIB), {
      params: { [constants.BROTLI_PARAM_QUALITY]: 1, [constants.BROTLI_PARAM_LGWIN]: 24 },
    });
    const replies = new UnfinishedReplies();
    const before = process.memoryUsage().rss;
    let most = before;
    const watch = setInterval(() => {
      most = Math.max(most, process.memoryUsage().rss);
    }, 1);
    const ends = await Promise.all(Array.from({ length: 24 }, () => endOf(replies, 'br', bomb, MIB)));
    clearInterval(watch);
    expect(new Set(ends.map((one) => one.kind === 'failed' && one.why))).toEqual(new Set(['malformed']));
    expect(most - before).toBeLessThan(200 * MIB);
  });
});
