import { subscribe, unsubscribe } from 'node:diagnostics_channel';
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it } from '@jest/globals';
import { leaksOf } from '../setup/leaks.js';
import { ScriptedProvider } from '../support/provider.js';
import { answers, sends, type Script } from '../support/provider-script.js';
import { clockOf } from '../support/clock.js';
import { COOKIE_SECRET, startHost, type Host } from '../support/host.js';
import { Visitor } from '../support/visitor.js';
import { logIn, toHost, toProvider } from './journey.js';

const HOUR = 3_600_000;

describe('the diagnostics of logins', () => {
  let provider: ScriptedProvider;
  let host: Host;
  const messages: unknown[] = [];
  const collect = (message: unknown): void => void messages.push(message);
  beforeAll(async () => {
    provider = await ScriptedProvider.start();
    const paths = { authorize: 'authorize', token: 'token', me: 'userinfo', jwks: 'jwks' };
    provider.otherPaths = Object.fromEntries(
      Object.entries(paths).map(([name, usual]) => [`/oauth2/${name}`, `/connect/${usual}`]),
    );
    host = await startHost({
      options: (callback) => ({
        tenant: provider.tenantOptions(callback, { keys: undefined, discovery: true }),
        secrets: [COOKIE_SECRET],
      }),
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

  it.each<[reply: string, script: Script]>([
    ['metadata', { metadata: answers({}, 404) }],
    ['tokens', { token: sends({ body: '{' }) }],
    ['keys', { keys: answers({}, 404) }],
    ['userinfo', { email: 'userinfo', userinfo: answers({}, 404) }],
  ])('report the tenant where %s of the provider cannot be used', async (_, script) => {
    const visitor = new Visitor();
    provider.script = { ...script, metadata: undefined };
    const arrival = await toProvider(visitor, host);
    clockOf(host.app).skip(25 * HOUR, ['now']);
    provider.script = script;
    await toHost(visitor, arrival);
    clockOf(host.app).skip(HOUR, ['now']);
    expect(messages[1]).toEqual({ tenant: 'default', outcome: 'failed', reason: 'provider' });
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
