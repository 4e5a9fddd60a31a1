import { describe, expect, it } from '@jest/globals';
import { setImmediate as nextTurn } from 'node:timers/promises';
import type { Dispatcher } from 'undici';
import { ResponseHandler } from '../../lib/transport/wire/response-handler.js';

const CHUNK = 32 * 1024;

/** Passes chunks until it is paused, as undici does; returns the number of chunks in each turn. */
async function handOver(body: Buffer, handler: ResponseHandler): Promise<number[]> {
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
    for (; !line.isPaused && at < body.length; at += CHUNK) {
      handler.onResponseData(controller, body.subarray(at, at + CHUNK));
    }
    turns.push((Math.min(at, body.length) - from) / CHUNK);
  }
  handler.onResponseEnd();
  return turns;
}

describe('a response handler', () => {
  it('reads a large reply in portions, so that small replies are handled between', async () => {
    const text = 'x'.repeat(7 * CHUNK - 2);
    const handler = new ResponseHandler(8 * CHUNK);
    expect(await handOver(Buffer.from(JSON.stringify(text)), handler)).toEqual([2, 2, 2, 1]);
    await expect(handler.outcome).resolves.toMatchObject({ kind: 'answered', body: text });
  });
});
