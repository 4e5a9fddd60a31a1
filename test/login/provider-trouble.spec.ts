import { subscribe, unsubscribe } from 'node:diagnostics_channel';
import { setTimeout as sleep } from 'node:timers/promises';
import { afterEach, beforeAll, beforeEach, describe, expect, it } from '@jest/globals';
import { leaksOf } from '../setup/leaks.js';
import { clockOf } from '../support/clock.js';
import type { Host } from '../support/host.js';
import { NameServers } from '../support/name-servers.js';
import { answers, sends, type ReplyChange, type Script, type WireReply } from '../support/provider-script.js';
import type { ScriptedProvider } from '../support/provider.js';
import { Visitor, type Reply } from '../support/visitor.js';
import { withProvider } from './hosts.js';
import {
  copyOf,
  expectAccepted,
  expectRefusal,
  identityOf,
  logIn,
  toHost,
  toProvider,
  type Arrival,
} from './journey.js';

const DEADLINE = 700;
/** Maximum duration on a busy machine. */
const GENEROUS = 5_000;
const HOUR = 3_600_000;

let provider: ScriptedProvider;
const start = withProvider((started) => (provider = started));

const troubles: readonly [what: string, status: number, code: string, change: ReplyChange][] = [
  ['500', 503, 'service_unavailable', answers({}, 500)],
  ['502 as a page', 503, 'service_unavailable', sends({ status: 502, headers: {}, body: '<p>Bad gateway' })],
  ['503', 503, 'service_unavailable', answers({}, 503)],
  ['408', 503, 'service_unavailable', answers({}, 408)],
  ['429', 503, 'rate_limited', answers({}, 429)],
  ['a reset', 503, 'service_unavailable', sends({ fault: 'reset' })],
  ['half a reply', 503, 'service_unavailable', sends({ fault: 'cut' })],
  ['silence', 504, 'deadline_exceeded', sends({ fault: 'silence' })],
];

describe('a failing provider', () => {
  let host: Host;
  beforeAll(async () => {
    host = await start({ tenantHttp: { deadline: DEADLINE, attemptTimeout: 200, attempts: 2 } });
  });

  /** Expects that a login fails in time, without a refusal or an identity, and that its state is spent. */
  async function meet(script: Script, status: number, code: string): Promise<[Arrival, Reply]> {
    const visitor = new Visitor();
    const arrival = await toProvider(visitor, host);
    const before = copyOf(visitor, host);
    provider.script = script;
    const startedAt = performance.now();
    const reply = await toHost(visitor, arrival);
    expect(performance.now() - startedAt).toBeLessThan(GENEROUS);
    expect([reply.status, JSON.parse(reply.text)]).toEqual([
      status,
      expect.objectContaining({ statusCode: status, code }),
    ]);
    expect(reply.headers.get('cache-control')).toBe('no-store');
    expect(await identityOf(visitor, host)).toBeUndefined();
    expectRefusal(await toHost(before, arrival), 'state');
    return [arrival, reply];
  }

  it.each(troubles)(
    'answers the code with %s: %i, and the code is sent once',
    async (_, status, code, token) => {
      await expectAccepted(host);
      const [{ parameters }] = await meet({ token }, status, code);
      expect(provider.redemptions.get(parameters.get('code') ?? '')).toBe(1);
      provider.script = {};
      await expectAccepted(host);
    },
  );

  it.each(troubles)('answers every userinfo request with %s', async (_, status, code, userinfo) => {
    const asked = provider.count('/connect/userinfo');
    // With another attempt left, an attempt without a reply ends before the deadline.
    const expected = status === 504 ? ([503, 'service_unavailable'] as const) : ([status, code] as const);
    const [{ parameters }] = await meet({ userinfo, email: 'userinfo' }, ...expected);
    expect(provider.redemptions.get(parameters.get('code') ?? '')).toBe(1);
    // A userinfo request may be repeated, a code may not.
    expect(provider.count('/connect/userinfo') - asked).toBeGreaterThanOrEqual(2);
    provider.script = { email: 'userinfo' };
    await expectAccepted(host);
  });

  it('is asked for userinfo again after one reset, and the login is accepted', async () => {
    let resets = 0;
    provider.script = {
      email: 'userinfo',
      userinfo: (reply) => (resets++ === 0 ? { ...reply, fault: 'reset' } : reply),
    };
    await expectAccepted(host);
    expect(resets).toBeGreaterThan(1);
  });

  it('sends Retry-After, and the host forwards it', async () => {
    const later = sends({ status: 503, headers: { 'retry-after': '7' }, body: '' });
    const [, reply] = await meet({ token: later }, 503, 'service_unavailable');
    expect(reply.headers.get('retry-after')).toBe('7');
  });

  it('is limited by one deadline for code, userinfo and keys together', async () => {
    const slow = await start({
      login: { keys: `${provider.url}/connect/jwks` },
      tenantHttp: { deadline: DEADLINE, attempts: 1 },
    });
    const visitor = new Visitor();
    const arrival = await toProvider(visitor, slow);
    provider.script = { keys: sends({ fault: 'silence' }) };
    const reply = await toHost(visitor, arrival);
    expect([503, 504]).toContain(reply.status);
    expect(provider.redemptions.get(arrival.parameters.get('code') ?? '')).toBe(1);
  });

  it('may fail to send its keys: the last good ones are used', async () => {
    const remote = await start({
      login: { keys: `${provider.url}/connect/jwks` },
      tenantHttp: { deadline: DEADLINE, attempts: 1 },
    });
    await expectAccepted(remote);
    for (const keys of [
      answers({}, 500),
      sends({ fault: 'reset' }),
      answers([]),
      // The last one: its fetch has the time of the module, and those who come meanwhile join it.
      sends({ fault: 'silence' }),
    ]) {
      provider.script = { keys };
      clockOf(remote.app).skip(600_001, ['now']);
      const fetched = provider.count('/connect/jwks');
      await expectAccepted(remote);
      expect(provider.count('/connect/jwks')).toBeGreaterThan(fetched);
    }
  });
});

/** An attacker can make up codes, for which a provider may fail or take long. */
describe('forged codes', () => {
  async function forge(at: Host): Promise<number> {
    const visitor = new Visitor();
    const arrival = await toProvider(visitor, at);
    arrival.parameters.set('code', 'forged');
    return (await toHost(visitor, arrival)).status;
  }

  it.each<[string, Partial<WireReply>, number]>([
    ['500', { status: 500 }, 503],
    ['a reset', { fault: 'reset' }, 503],
    ['silence', { fault: 'silence' }, 504],
  ])('to which the token endpoint answers with %s stop nobody else', async (_what, answer, status) => {
    // Silence lasts until the deadline; the others need time on a busy machine.
    const host = await start({ tenantHttp: { deadline: status === 504 ? 1_500 : 10_000 } });
    // The provider refuses a code that it does not know with 400.
    provider.script = { token: (reply) => (reply.status === 400 ? sends(answer)(reply) : reply) };
    const forged = Array.from({ length: 42 }, () => forge(host));
    expect(new Set(await Promise.all(forged))).toEqual(new Set([status]));
    expect((await logIn(new Visitor(), host)).status).toBe(303);
  });
});

it('silent name servers of a tenant delay no login of another tenant', async () => {
  const names = NameServers.start();
  try {
    const byName = provider.url.replace('127.0.0.1', 'localhost');
    const at = (callback: string, token: string) => ({
      ...provider.tenantOptions(callback),
      endpoints: { token, userinfo: `${byName}/connect/userinfo` },
    });
    const host = await start({}, (callback) => ({
      tenants: {
        silent: at(callback, 'https://silent.test/token'),
        other: at(callback, `${byName}/connect/token`),
      },
      resolveTenant: ({ query }) => String(query['tenant']),
    }));
    const arrivals = Array.from({ length: 20 }, async () => {
      const visitor = new Visitor();
      return { visitor, arrival: await toProvider(visitor, host, '?tenant=silent') };
    });
    const callbacks = (await Promise.all(arrivals)).map(({ visitor, arrival }) => toHost(visitor, arrival));
    await sleep(100);
    const began = performance.now();
    const reply = await logIn(new Visitor(), host, '?tenant=other');
    expect(reply.status).toBe(303);
    expect(performance.now() - began).toBeLessThan(2_000);
    expect(names.mostBlocked).toBe(1);
    names.stop();
    for (const refused of await Promise.all(callbacks)) {
      expect(refused.status).toBe(503);
    }
  } finally {
    names.stop();
  }
});

describe('the diagnostics of logins', () => {
  let host: Host;
  const messages: unknown[] = [];
  const collect = (message: unknown): void => void messages.push(message);
  beforeAll(async () => {
    const paths = { authorize: 'authorize', token: 'token', me: 'userinfo', jwks: 'jwks' };
    provider.otherPaths = Object.fromEntries(
      Object.entries(paths).map(([name, usual]) => [`/oauth2/${name}`, `/connect/${usual}`]),
    );
    host = await start({ login: { keys: undefined, discovery: true } });
  });
  beforeEach(() => {
    messages.length = 0;
    subscribe('nestjs-exhibitor:login', collect);
  });
  afterEach(() => {
    unsubscribe('nestjs-exhibitor:login', collect);
    expect(messages.flatMap((message) => leaksOf(message))).toEqual([]);
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
