import { describe, expect, it } from '@jest/globals';
import { setImmediate as nextTurn } from 'node:timers/promises';
import { createServer } from 'node:net';
import type { Dispatcher } from 'undici';
import { ResponseHandler } from '../../lib/transport/wire/response-handler.js';
import { UnfinishedReplies } from '../../lib/transport/wire/unfinished-replies.js';
import { collectGarbage } from '../support/garbage.js';
import { follow } from '../support/server.js';
import { eventually } from '../support/wait.js';
import { Sender, tenantAt } from './transport-bench.js';

const CHUNK = 32 * 1024;

function handlerOf(replyLimit: number): ResponseHandler {
  return new ResponseHandler({ payer: 'acme', replyLimit }, new UnfinishedReplies());
}

/** Passes chunks until it is paused, as undici does; returns the number of chunks in each turn. */
async function handOver(body: Buffer, handler: ResponseHandler, size = CHUNK): Promise<number[]> {
  const line = { isPaused: false };
  const controller = {
    pause: () => (line.isPaused = true),
    resume: () => (line.isPaused = false),
    abort: () => undefined,
  } as unknown as Dispatcher.DispatchController;
  handler.onRequestStart(controller);
  handler.onResponseStart(controller, 200, { 'content-type': 'application/json' });
  const turns: number[] = [];
  for (let at = 0; at < body.length; await nextTurn()) {
    const from = at;
    for (; !line.isPaused && at < body.length; at += size) {
      handler.onResponseData(controller, body.subarray(at, at + size));
    }
    turns.push((Math.min(at, body.length) - from) / size);
  }
  handler.onResponseEnd();
  return turns;
}

describe('a response handler', () => {
  it('reads a large reply in portions, so that small replies are handled between', async () => {
    const text = 'x'.repeat(7 * CHUNK - 2);
    const handler = handlerOf(8 * CHUNK);
    expect(await handOver(Buffer.from(JSON.stringify(text)), handler)).toEqual([2, 2, 2, 1]);
    await expect(handler.outcome).resolves.toMatchObject({ kind: 'answered', body: text });
  });

  it('reads few chunks of one byte in a turn: each takes as long as one of a hundred bytes', async () => {
    const handler = handlerOf(CHUNK);
    const turns = await handOver(Buffer.from(JSON.stringify('x'.repeat(2_000))), handler, 1);
    expect(Math.max(...turns)).toBe(512);
    await expect(handler.outcome).resolves.toMatchObject({ kind: 'answered' });
  });

  it('parses six replies in a turn, so that what is requested after them leaves before others are parsed', async () => {
    const replies = new UnfinishedReplies();
    const handlers = Array.from(
      { length: 10 },
      () => new ResponseHandler({ payer: 'acme', replyLimit: CHUNK }, replies),
    );
    const controller = {} as Dispatcher.DispatchController;
    for (const handler of handlers) {
      handler.onResponseStart(controller, 200, { 'content-type': 'application/json' });
      handler.onResponseData(controller, Buffer.from('[]'));
      handler.onResponseEnd();
    }
    const settled = (): number => handlers.filter(({ isSettled }) => isSettled).length;
    const counts = [settled()];
    while (settled() < handlers.length) {
      await nextTurn();
      counts.push(settled());
    }
    expect(counts).toEqual([6, 10]);
  });

  it('accepts 16 interim responses, and refuses a flood of them, which would never end', async () => {
    const page = 'HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: 2\r\n\r\n[]';
    const interim = 'HTTP/1.1 103 Early Hints\r\nlink: <https://cdn.example>\r\n\r\n';
    const service = await follow(
      createServer((socket) => {
        socket.once('data', (head) => {
          const isFlood = head.toString().startsWith('GET /flood');
          const send = (): unknown => socket.write(interim.repeat(1_000));
          const flood = isFlood ? setInterval(send, 1) : undefined;
          socket.on('close', () => clearInterval(flood)).write(interim.repeat(16) + (isFlood ? '' : page));
        });
      }),
    );
    const sender = Sender.withTenants({
      hostile: tenantAt(`${service.url}/flood`),
      other: tenantAt(service.url),
    });
    await expect(sender.send({}, { tenant: 'hostile' })).rejects.toMatchObject({
      code: 'malformed_response',
      message: expect.stringContaining('interim responses'),
      attempts: 1,
    });
    await expect(sender.send({}, { tenant: 'other' })).resolves.toMatchObject({ status: 200 });
    await eventually(() => service.connections.size === 1);
    await sender.close();
    await service.stop();
  });
});

/** Bytes of heap and buffers that are in use. */
function memoryInUse(): number {
  collectGarbage();
  const { heapUsed, external } = process.memoryUsage();
  return heapUsed + external;
}

const line = { pause: () => undefined, resume: () => undefined, abort: () => undefined };
const controller = line as unknown as Dispatcher.DispatchController;

describe('the memory of a body', () => {
  it.each([
    ['1 byte', 1],
    ['7 bytes', 7],
    ['32 KiB', CHUNK],
  ])('is at most twice its size where it arrives in chunks of %s', async (_name, size) => {
    const text = 'x'.repeat(1024 * 1024);
    const handler = handlerOf(2 * text.length);
    handler.onRequestStart(controller);
    handler.onResponseStart(controller, 200, { 'content-type': 'application/json' });
    const before = memoryInUse();
    for (let sent = 0; sent < text.length; sent += size) {
      // As undici does: each chunk is a part of what was read from the socket.
      handler.onResponseData(controller, Buffer.from('x'.repeat(Math.min(size, text.length - sent))));
    }
    const used = memoryInUse() - before;
    expect(used).toBeLessThan(2 * text.length);
    handler.onResponseData(controller, Buffer.from(' '));
    handler.onResponseEnd();
    await expect(handler.outcome).resolves.toMatchObject({ kind: 'failed', why: 'malformed' });
  });

  it('keeps every byte in its order', async () => {
    const text = JSON.stringify(Array.from({ length: 20_000 }, (_, index) => index));
    const handler = handlerOf(text.length);
    handler.onRequestStart(controller);
    handler.onResponseStart(controller, 200, { 'content-type': 'application/json' });
    for (let at = 0, size = 1; at < text.length; at += size, size = (size * 7) % 9_973) {
      handler.onResponseData(controller, Buffer.from(text.slice(at, at + size)));
    }
    handler.onResponseEnd();
    await expect(handler.outcome).resolves.toMatchObject({ kind: 'answered', body: JSON.parse(text) });
  });
});
