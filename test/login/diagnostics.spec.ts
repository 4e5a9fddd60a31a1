import { subscribe, unsubscribe } from 'node:diagnostics_channel';
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it } from '@jest/globals';
import { leaksOf } from '../setup/leaks.js';
import { ScriptedProvider } from '../support/provider.js';
import { answers } from '../support/provider-script.js';
import { COOKIE_SECRET, startHost, type Host } from '../support/host.js';
import { Visitor } from '../support/visitor.js';
import { logIn, toHost, toProvider } from './journey.js';

describe('the diagnostics of logins', () => {
  let provider: ScriptedProvider;
  let host: Host;
  const messages: unknown[] = [];
  const collect = (message: unknown): void => void messages.push(message);
  beforeAll(async () => {
    provider = await ScriptedProvider.start();
    host = await startHost({
      options: (callback) => ({ tenant: provider.tenantOptions(callback), secrets: [COOKIE_SECRET] }),
    });
  });
  beforeEach(() => {
    messages.length = 0;
    subscribe('nestjs-exhibitor:login', collect);
  });
  afterEach(() => {
    unsubscribe('nestjs-exhibitor:login', collect);
    provider.script = {};
    expect(messages.flatMap((message) => leaksOf(message))).toEqual([]);
  });
  afterAll(async () => {
    await host?.close();
    await provider?.stop();
  });

  it('report a login that starts and succeeds', async () => {
    await logIn(new Visitor(), host);
    expect(messages).toEqual([
      { tenant: 'default', outcome: 'started' },
      { tenant: 'default', outcome: 'succeeded' },
    ]);
  });

  it('report the reason of a failed login', async () => {
    provider.script = { backToken: { claims: (claims) => void (claims['nonce'] = 'another') } };
    await logIn(new Visitor(), host);
    expect(messages[1]).toEqual({ tenant: 'default', outcome: 'failed', reason: 'nonce' });
  });

  it('report no tenant for a response without a login', async () => {
    await new Visitor().visit(`${host.callback}?state=x&code=y`);
    expect(messages).toEqual([{ outcome: 'failed', reason: 'state' }]);
  });

  it('report a failing provider without a reason, since nothing was refused', async () => {
    const visitor = new Visitor();
    const arrival = await toProvider(visitor, host);
    provider.script = { token: answers({}, 500) };
    await toHost(visitor, arrival);
    expect(messages[1]).toEqual(expect.objectContaining({ tenant: 'default', outcome: 'failed' }));
    expect(messages[1]).not.toHaveProperty('reason');
  });
});
