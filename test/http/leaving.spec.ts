import { afterAll, beforeEach, describe, expect, it } from '@jest/globals';
import { Agent, RetryAgent } from 'undici';
import type { HttpOptions } from '../../lib/index.js';
import type { TransportRequest } from '../../lib/http/transport-request.interface.js';
import { endOf, microtasks, MOMENTS } from '../support/moments.js';
import { startRecorder } from '../support/recorder.js';
import { aWhile, eventually } from '../support/wait.js';
import { Sender } from './transport-bench.js';

const silent = await startRecorder();
afterAll(() => silent.stop());
beforeEach(() => silent.forget());

const agent = new Agent();
const retrying = new RetryAgent(agent, { minTimeout: 10 });
afterAll(() => agent.destroy());

const REQUESTS: Partial<TransportRequest>[] = [
  { operation: 'list' },
  { operation: 'lookup' },
  { operation: 'keys' },
  { operation: 'userinfo' },
  { operation: 'token', method: 'POST', body: 'a=b' },
  { operation: 'code', method: 'POST', body: 'a=b', isOnce: true },
];

const POOLS: [string, HttpOptions, Partial<TransportRequest>[]][] = [
  ['our own pool', {}, REQUESTS],
  ["a host's dispatcher that retries", { dispatcher: () => retrying }, REQUESTS.slice(-2)],
];

async function leavesNothing(): Promise<void> {
  // A request that its caller has left may still arrive, and is open until the server sees that its connection ends.
  await aWhile();
  await eventually(() => silent.ended('open').length === 0, 1_000);
  expect(silent.ended('completed')).toEqual([]);
}

describe.each(POOLS)('a request over %s that its caller leaves', (_pool, http, requests) => {
  it('ends at every moment, and leaves nothing on the wire', async () => {
    const sender = Sender.with(silent.url, http);
    for (const request of requests) {
      for (const moment of MOMENTS) {
        const caller = new AbortController();
        const call = endOf(sender.send(request, { signal: caller.signal }));
        await microtasks(moment);
        caller.abort();
        expect([request, moment, await call]).toEqual([request, moment, 'aborted']);
      }
    }
    await leavesNothing();
    await sender.close();
  });

  it('ends at every moment when the module closes', async () => {
    for (const request of requests) {
      for (const moment of MOMENTS) {
        const sender = Sender.with(silent.url, http);
        const call = endOf(sender.send(request));
        await microtasks(moment);
        const closed = sender.close();
        expect([request, moment, await call]).toEqual([request, moment, 'service_unavailable']);
        await closed;
      }
    }
    await leavesNothing();
  });
});
