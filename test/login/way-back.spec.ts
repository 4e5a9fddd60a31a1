import { afterAll, afterEach, beforeAll, describe, expect, it } from '@jest/globals';
import { setTimeout as sleep } from 'node:timers/promises';
import { COOKIE_SECRET, startHost, type Host } from '../support/host.js';
import { ScriptedProvider } from '../support/provider.js';
import { Visitor, type Reply } from '../support/visitor.js';
import { FLOWS, HYBRID } from './flows.js';
import {
  copyOf,
  expectRefusal,
  identityOf,
  logIn,
  pendingLogins,
  toHost,
  toProvider,
  type Arrival,
} from './journey.js';

let provider: ScriptedProvider;
const hosts: Host[] = [];
beforeAll(async () => {
  provider = await ScriptedProvider.start();
});
afterEach(async () => {
  await Promise.all(hosts.splice(0).map((host) => host.close()));
});
afterAll(() => provider?.stop());

async function start(kind: 'express' | 'fastify', responseType: (typeof FLOWS)[number]): Promise<Host> {
  const host = await startHost({
    kind,
    options: (callback) => ({
      tenant: provider.tenantOptions(callback, { responseType }),
      secrets: [COOKIE_SECRET],
    }),
  });
  hosts.push(host);
  return host;
}

/** The provider's answer as an error, by this method. */
function failed(arrival: Arrival, error: string, method: Arrival['method'] = 'GET'): Arrival {
  const state = arrival.parameters.get('state') ?? '';
  return { ...arrival, method, parameters: new URLSearchParams({ state, error }) };
}

describe.each(['express', 'fastify'] as const)('an error of a hybrid login on %s', (kind) => {
  describe.each(HYBRID)('by %s', (flow) => {
    it.each([
      ['access_denied', 'denied'],
      ['server_error', 'provider'],
    ])('is told by GET and by POST: %s', async (error, reason) => {
      const host = await start(kind, flow);
      for (const method of ['GET', 'POST'] as const) {
        const visitor = new Visitor();
        const arrival = await toProvider(visitor, host);
        const early = copyOf(visitor, host);
        expectRefusal(await toHost(visitor, failed(arrival, error, method)), reason);
        expect(pendingLogins(visitor, host)).toEqual([]);
        expectRefusal(await toHost(early, arrival), 'state');
      }
    });

    it('ends nothing with another state, by another path or by HEAD', async () => {
      const host = await start(kind, flow);
      const visitor = new Visitor();
      const arrival = await toProvider(visitor, host);
      const forged = failed(arrival, 'access_denied');
      forged.parameters.set('state', 'x'.repeat(43));
      expectRefusal(await toHost(visitor, forged), 'state');
      const error = failed(arrival, 'access_denied');
      await visitor.visit(`${host.callback}?${error.parameters}`, { method: 'HEAD' });
      await visitor.visit(`${host.url}/auth/logout?${error.parameters}`, { method: 'POST' });
      expect((await toHost(visitor, arrival)).status).toBe(303);
    });

    it('does not open the way for a response by GET', async () => {
      const host = await start(kind, flow);
      const visitor = new Visitor();
      const arrival = await toProvider(visitor, host);
      expectRefusal(await toHost(visitor, { ...arrival, method: 'GET' }), 'state');
      expect((await toHost(visitor, arrival)).status).toBe(303);
    });
  });

  it('is not told by POST for the code flow, whose response is a GET', async () => {
    const host = await start(kind, 'code');
    const visitor = new Visitor();
    const arrival = await toProvider(visitor, host);
    expectRefusal(await toHost(visitor, failed(arrival, 'access_denied', 'POST')), 'state');
    expectRefusal(await toHost(visitor, failed(arrival, 'access_denied', 'GET')), 'denied');
  });
});

/** The refusal says what to do. */
function expectAdvice(reply: Reply): void {
  expectRefusal(reply, 'state');
  expect(reply.text).toMatch(/finished before.*expired.*start the login again/);
}

describe.each(FLOWS)('the message of a callback that is over, by %s', (flow) => {
  it('says what to do after a reload, and the session goes on', async () => {
    const host = await start('express', flow);
    const visitor = new Visitor();
    const arrival = await toProvider(visitor, host);
    const early = copyOf(visitor, host);
    expect((await toHost(visitor, arrival)).status).toBe(303);
    expectAdvice(await toHost(visitor, arrival));
    // The cookie of the login may still be there: Back out of a cache, or two clicks.
    expectAdvice(await toHost(early, arrival));
    expect(await identityOf(visitor, host)).toMatchObject({ subject: 'pat' });
  });

  it('says it in the oldest of many tabs', async () => {
    const host = await start('express', flow);
    const visitor = new Visitor();
    const oldest = await toProvider(visitor, host);
    for (let tab = 0; tab < 6; tab++) {
      await sleep(2);
      await toProvider(visitor, host);
    }
    expectAdvice(await toHost(visitor, oldest));
  });

  it('says it to a bare visit, and is true: a new login works', async () => {
    const host = await start('express', flow);
    const visitor = new Visitor();
    expectAdvice(await visitor.visit(host.callback));
    expect((await logIn(visitor, host)).status).toBe(303);
  });
});
