import { afterAll, beforeAll, beforeEach, describe, expect, it } from '@jest/globals';
import { Agent, RetryAgent } from 'undici';
import type { HttpOptions } from '../../lib/index.js';
import type { TransportRequest } from '../../lib/transport/transport-request.interface.js';
import { endOf, microtasks, MOMENTS } from '../support/moments.js';
import { startRecorder, type Recorder } from '../support/recorder.js';
import { aWhile, eventually } from '../support/wait.js';
import { Sender } from './transport-bench.js';

let silent: Recorder;
beforeAll(async () => {
  silent = await startRecorder();
});
afterAll(() => silent?.stop());
beforeEach(() => silent.forget());

const agent = new Agent();
const retrying = new RetryAgent(agent, { minTimeout: 10 });
afterAll(() => agent.destroy());

const POOLS: Record<string, HttpOptions> = {
  'our own pool': {},
  "a host's dispatcher": { dispatcher: () => agent },
  "a host's dispatcher that retries": { dispatcher: () => retrying },
};

const REQUESTS: Partial<TransportRequest>[] = [
  { operation: 'list' },
  { operation: 'lookup' },
  { operation: 'keys' },
  { operation: 'userinfo' },
  { operation: 'token', method: 'POST', body: 'a=b' },
  { operation: 'code', method: 'POST', body: 'a=b', repeat: 'never' },
];

describe.each(Object.entries(POOLS))('a request over %s that its caller leaves', (_pool, http) => {
  it.each(REQUESTS)('ends at every moment, and leaves nothing on the wire: %j', async (request) => {
    const sender = Sender.with(silent.url, http);
    for (const moment of MOMENTS) {
      const caller = new AbortController();
      const call = endOf(sender.send(request, { signal: caller.signal }));
      await microtasks(moment);
      caller.abort();
      expect([moment, await call]).toEqual([moment, 'aborted']);
    }
    await eventually(() => silent.ended('open').length === 0);
    await aWhile();
    expect([silent.ended('open'), silent.ended('completed')]).toEqual([[], []]);
    await sender.close();
  });

  it.each(REQUESTS)('ends at every moment when the module closes: %j', async (request) => {
    for (const moment of MOMENTS) {
      const sender = Sender.with(silent.url, http);
      const call = endOf(sender.send(request));
      await microtasks(moment);
      const closed = sender.close();
      expect([moment, await call]).toEqual([moment, 'service_unavailable']);
      await closed;
    }
    await eventually(() => silent.ended('open').length === 0);
    await aWhile();
    expect([silent.ended('open'), silent.ended('completed')]).toEqual([[], []]);
  });

  it.each(REQUESTS)('ends at its deadline: %j', async (request) => {
    const sender = Sender.with(silent.url, http);
    for (const deadline of [1, 2, 5, 20]) {
      expect(await endOf(sender.send(request, { deadline }))).toBe('deadline_exceeded');
    }
    await eventually(() => silent.ended('open').length === 0);
    await sender.close();
  });

  it('is answered where the caller stays', async () => {
    const answering = await startRecorder(() => ['an answer']);
    const sender = Sender.with(answering.url, http);
    for (const request of REQUESTS) {
      await expect(sender.send(request)).resolves.toMatchObject({ status: 200, body: ['an answer'] });
    }
    expect(answering.ended('aborted')).toEqual([]);
    await sender.close();
    await answering.stop();
  });
});
