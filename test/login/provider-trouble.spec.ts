import { afterAll, afterEach, beforeAll, describe, expect, it } from '@jest/globals';
import type { HttpOptions } from '../../lib/index.js';
import { ScriptedProvider, type LoginOverrides } from '../support/provider.js';
import { answers, sends, type ReplyChange, type Script } from '../support/provider-script.js';
import { COOKIE_SECRET, startHost, type Host } from '../support/host.js';
import { Visitor, type Reply } from '../support/visitor.js';
import {
  copyOf,
  expectAccepted,
  expectRefusal,
  identityOf,
  toHost,
  toProvider,
  type Arrival,
} from './journey.js';
import { clockOf } from '../support/clock.js';

const DEADLINE = 700;
/** Maximum duration on a busy machine. */
const GENEROUS = 5_000;

let provider: ScriptedProvider;
beforeAll(async () => {
  provider = await ScriptedProvider.start();
});
afterEach(() => {
  provider.script = {};
});
afterAll(() => provider?.stop());

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
  const hosts: Host[] = [];
  async function start(http: HttpOptions, login?: LoginOverrides): Promise<Host> {
    const host = await startHost({
      options: (callback) => ({
        tenant: { ...provider.tenantOptions(callback, login), http: { deadline: DEADLINE, ...http } },
        secrets: [COOKIE_SECRET],
      }),
    });
    hosts.push(host);
    return host;
  }

  let host: Host;
  beforeAll(async () => {
    host = await start({ attemptTimeout: 200, attempts: 2 });
  });
  afterAll(() => Promise.all(hosts.map((started) => started?.close())));

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
    const slow = await start({ attempts: 1 }, { keys: `${provider.url}/connect/jwks` });
    const visitor = new Visitor();
    const arrival = await toProvider(visitor, slow);
    provider.script = { keys: sends({ fault: 'silence' }) };
    const reply = await toHost(visitor, arrival);
    expect([503, 504]).toContain(reply.status);
    expect(provider.redemptions.get(arrival.parameters.get('code') ?? '')).toBe(1);
  });

  it('may fail to send its keys: the last good ones are used', async () => {
    const remote = await start({ attempts: 1 }, { keys: `${provider.url}/connect/jwks` });
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
