import { setTimeout as sleep } from 'node:timers/promises';
import { beforeAll, describe, expect, it } from '@jest/globals';
import { leaksOf } from '../setup/leaks.js';
import { clockOf } from '../support/clock.js';
import type { Host } from '../support/host.js';
import { messagesOn } from '../support/messages.js';
import { NameServers } from '../support/name-servers.js';
import { KEYS, sign } from '../support/provider-keys.js';
import {
  answers,
  says,
  sends,
  type ReplyChange,
  type Script,
  type WireReply,
} from '../support/provider-script.js';
import { CLIENT_ID, type LoginOverrides, type ScriptedProvider } from '../support/provider.js';
import { Visitor, type Reply } from '../support/visitor.js';
import { aWhile, eventually } from '../support/wait.js';
import { withProvider } from './hosts.js';
import {
  arrive,
  copyOf,
  enter,
  expectAccepted,
  expectError,
  expectRefusal,
  identityOf,
  toHost,
  type Arrival,
} from './journey.js';

const DEADLINE = 700;
/** Maximum duration on a busy machine. */
const GENEROUS = 5_000;
const HOUR = 3_600_000;

let provider: ScriptedProvider;
const start = withProvider((started) => (provider = started));

const redemptionsOf = ({ parameters }: Arrival): number | undefined =>
  provider.redemptions.get(parameters.get('code') ?? '');

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
  let remote: Host;
  beforeAll(async () => {
    host = await start({ tenantHttp: { deadline: DEADLINE, attemptTimeout: 200, attempts: 2 } });
    const login: LoginOverrides = { keys: `${provider.url}/connect/jwks` };
    remote = await start({ login, http: { deadline: DEADLINE, attempts: 1 } });
  });

  /** Expects that a login fails in time, without a refusal or an identity, that its code is sent once and its state spent. */
  async function meet(script: Script, status: number, code: string): Promise<Reply> {
    const { visitor, arrival } = await arrive(host);
    const before = copyOf(visitor, host);
    provider.script = script;
    const startedAt = performance.now();
    const reply = await toHost(visitor, arrival);
    expect(performance.now() - startedAt).toBeLessThan(GENEROUS);
    expectError(reply, status, code);
    expect(reply.headers.get('cache-control')).toBe('private, no-store');
    expect(await identityOf(visitor, host)).toBeUndefined();
    expectRefusal(await toHost(before, arrival), 'state');
    expect(redemptionsOf(arrival)).toBe(1);
    provider.script = {};
    await expectAccepted(host);
    return reply;
  }

  it.each(troubles)(
    'answers the code with %s: %i, and the code is sent once',
    async (_, status, code, token) => {
      await meet({ token }, status, code);
    },
  );

  it('may refuse a code or userinfo with half a body: its status tells', async () => {
    const half = (status: number) => sends({ status, fault: 'cut' });
    for (const script of [{ token: half(400) }, { email: 'userinfo', userinfo: half(403) }] as const) {
      const { visitor, arrival } = await arrive(host);
      provider.script = script;
      expectRefusal(await toHost(visitor, arrival), 'provider');
      expect(redemptionsOf(arrival)).toBe(1);
    }
    const later = sends({
      status: 429,
      headers: { 'retry-after': '7', 'content-length': '99' },
      fault: 'cut',
    });
    const reply = await meet({ token: later }, 503, 'rate_limited');
    expect(reply.headers.get('retry-after')).toBe('7');
  });

  // The other kinds of failures are those of any request: test/http/faults.spec.ts.
  const ofEachCode = troubles.filter(([what]) => ['500', '429', 'a reset', 'silence'].includes(what));
  it.each(ofEachCode)('answers every userinfo request with %s', async (_, status, code, userinfo) => {
    const asked = provider.count('/connect/userinfo');
    // With another attempt left, an attempt without a reply ends before the deadline.
    const expected = status === 504 ? ([503, 'service_unavailable'] as const) : ([status, code] as const);
    await meet({ userinfo, email: 'userinfo' }, ...expected);
    // A userinfo request may be repeated, a code may not.
    expect(provider.count('/connect/userinfo') - asked).toBeGreaterThanOrEqual(2);
  });

  it('is asked for userinfo again after one reset, and the login is accepted', async () => {
    let resets = 0;
    const userinfo: ReplyChange = (reply) => (resets++ === 0 ? { ...reply, fault: 'reset' } : reply);
    provider.script = { email: 'userinfo', userinfo };
    await expectAccepted(host);
    expect(resets).toBeGreaterThan(1);
  });

  it('sends Retry-After, and the host forwards it', async () => {
    const later = sends({ status: 503, headers: { 'retry-after': '7' }, body: '' });
    const reply = await meet({ token: later }, 503, 'service_unavailable');
    expect(reply.headers.get('retry-after')).toBe('7');
  });

  it('may fail to send its keys: there is one deadline for all, and then the last good ones are used', async () => {
    const { visitor, arrival } = await arrive(remote);
    const silent = { keys: sends({ fault: 'silence' }) };
    provider.script = silent;
    expect([503, 504]).toContain((await toHost(visitor, arrival)).status);
    expect(redemptionsOf(arrival)).toBe(1);
    // The fetch began after the call, and ends after it.
    await aWhile();
    for (const script of [{}, silent]) {
      provider.script = script;
      clockOf(remote.app).skip(600_001, ['now']);
      const fetched = provider.count('/connect/jwks');
      await expectAccepted(remote);
      expect(provider.count('/connect/jwks')).toBe(fetched + 1);
    }
  });
});

/** An attacker can make up codes, for which a provider may fail or take long. */
it.each<[string, Partial<WireReply>, number]>([
  ['500', { status: 500 }, 503],
  ['a reset', { fault: 'reset' }, 503],
  ['silence', { fault: 'silence' }, 504],
])('forged codes that the token endpoint answers with %s stop nobody else', async (_what, answer, status) => {
  // Silence lasts until the deadline; the others need time on a busy machine.
  const host = await start({ tenantHttp: { deadline: status === 504 ? 1_500 : 10_000 } });
  // The provider refuses a code that it does not know with 400.
  provider.script = { token: (reply) => (reply.status === 400 ? sends(answer)(reply) : reply) };
  const forge = async (): Promise<number> => {
    const { visitor, arrival } = await arrive(host);
    arrival.parameters.set('code', 'forged');
    return (await toHost(visitor, arrival)).status;
  };
  expect(new Set(await Promise.all(Array.from({ length: 42 }, forge)))).toEqual(new Set([status]));
  await enter(host);
});

it('forged codes that the token endpoint holds make no bearer token wait', async () => {
  const audience = { idToken: CLIENT_ID, accessToken: 'portal-api' };
  const host = await start({
    session: ['cookie', 'bearer'],
    login: { audience, authorizedParties: ['portal-spa'] },
    tenantHttp: { deadline: 4_000 },
  });
  provider.script = {
    token: sends({ fault: 'silence' }),
    userinfo: answers({ sub: 'pat', email: 'pat@example.com', email_verified: true }),
  };
  const before = provider.count('/connect/token');
  const forged = Array.from({ length: 70 }, async () => {
    const { visitor, arrival } = await arrive(host);
    arrival.parameters.set('code', 'forged');
    return (await toHost(visitor, arrival)).status;
  });
  // All places for codes are taken.
  await eventually(() => provider.count('/connect/token') - before === 64);
  const exp = Math.floor(Date.now() / 1000) + 300;
  const claims = { iss: provider.url, aud: 'portal-api', azp: 'portal-spa', sub: 'pat', exp };
  const token = await sign(JSON.stringify(claims), KEYS.rs256, { typ: 'at+jwt' });
  const startedAt = performance.now();
  const headers = { authorization: `Bearer ${token}` };
  expect(await new Visitor().visit(`${host.url}/me`, { headers })).toMatchObject({ status: 200 });
  // Codes have places of their own. Else it waits until the deadline of the codes.
  expect(performance.now() - startedAt).toBeLessThan(1_500);
  expect(new Set(await Promise.all(forged))).toEqual(new Set([504]));
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
    }));
    const arrived = await Promise.all(Array.from({ length: 20 }, () => arrive(host, '?tenant=silent')));
    const callbacks = arrived.map(({ visitor, arrival }) => toHost(visitor, arrival));
    await sleep(100);
    const began = performance.now();
    await enter(host, '?tenant=other');
    expect(performance.now() - began).toBeLessThan(2_000);
    expect(names.mostBlocked).toBe(1);
    names.stop();
    const statuses = (await Promise.all(callbacks)).map(({ status }) => status);
    expect(new Set(statuses)).toEqual(new Set([503]));
  } finally {
    names.stop();
  }
});

describe('the diagnostics of logins', () => {
  let host: Host;
  const STARTED = { tenant: 'default', outcome: 'started' };
  const FAILED = { tenant: 'default', outcome: 'failed' };
  const REFUSED = [STARTED, { ...FAILED, reason: 'provider' }];
  beforeAll(async () => {
    const paths = { authorize: 'authorize', token: 'token', me: 'userinfo', jwks: 'jwks' };
    provider.otherPaths = Object.fromEntries(
      Object.entries(paths).map(([name, usual]) => [`/oauth2/${name}`, `/connect/${usual}`]),
    );
    host = await start({ login: { keys: undefined, discovery: true } });
  });

  async function messagesOf(work: () => Promise<unknown>): Promise<unknown[]> {
    const messages = await messagesOn('nestjs-exhibitor:login', work);
    expect(messages.flatMap((message) => leaksOf(message))).toEqual([]);
    return messages;
  }

  it.each<[what: string, script: Script, messages: readonly object[]]>([
    ['that a login starts and succeeds', {}, [STARTED, { ...STARTED, outcome: 'succeeded' }]],
    ['the reason of a refusal', says({ nonce: 'another' }), [STARTED, { ...FAILED, reason: 'nonce' }]],
    ['that the metadata cannot be used', { metadata: answers({}, 404) }, REFUSED],
    ['that the tokens cannot be used', { token: sends({ body: '{' }) }, REFUSED],
    ['that the keys cannot be used', { keys: answers({}, 404) }, REFUSED],
    ['that userinfo cannot be used', { email: 'userinfo', userinfo: answers({}, 404) }, REFUSED],
    [
      'no reason where the provider fails: nothing was refused',
      { token: answers({}, 500) },
      [STARTED, FAILED],
    ],
  ])('report %s', async (_what, script, expected) => {
    const messages = await messagesOf(async () => {
      const { visitor, arrival } = await arrive(host);
      clockOf(host.app).skip(25 * HOUR, ['now']);
      provider.script = script;
      await toHost(visitor, arrival);
    });
    clockOf(host.app).skip(HOUR, ['now']);
    expect(messages).toStrictEqual(expected);
  });

  it('report no tenant for a response without a login', async () => {
    const messages = await messagesOf(() => new Visitor().visit(`${host.callback}?state=x&code=y`));
    expect(messages).toStrictEqual([{ outcome: 'failed', reason: 'state' }]);
  });
});
