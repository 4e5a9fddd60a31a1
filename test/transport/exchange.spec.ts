import { describe, expect, it } from '@jest/globals';
import { setImmediate as nextTurn } from 'node:timers/promises';
import type { Dispatcher } from 'undici';
import { Exchange } from '../../lib/transport/exchange.js';

const CHUNK = 32 * 1024;

/** A connection that hands over chunks until it is paused, as undici does; answers how many it could in each turn. */
async function handOver(body: Buffer, exchange: Exchange): Promise<number[]> {
  const line = { isPaused: false };
  const controller = {
    pause: () => (line.isPaused = true),
    resume: () => (line.isPaused = false),
    abort: () => undefined,
  } as unknown as Dispatcher.DispatchController;
  exchange.onRequestStart(controller);
  exchange.onResponseStart(controller, 200, { 'content-type': 'application/json' });
  const turns: number[] = [];
  for (let at = 0; at < body.length; await nextTurn()) {
    const from = at;
    for (; !line.isPaused && at < body.length; at += CHUNK) {
      exchange.onResponseData(controller, body.subarray(at, at + CHUNK));
    }
    turns.push((Math.min(at, body.length) - from) / CHUNK);
  }
  exchange.onResponseEnd();
  return turns;
}

describe('an exchange', () => {
  it('takes a large reply in bites, so that the small ones of others come between', async () => {
    const text = 'x'.repeat(7 * CHUNK - 2);
    const exchange = new Exchange(8 * CHUNK, { headers: {}, dispatcher: undefined, fresh: false });
    expect(await handOver(Buffer.from(JSON.stringify(text)), exchange)).toEqual([2, 2, 2, 1]);
    await expect(exchange.outcome).resolves.toMatchObject({ kind: 'answered', body: text });
  });
});
