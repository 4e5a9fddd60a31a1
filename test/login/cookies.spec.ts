import { beforeAll, describe, expect, it, jest } from '@jest/globals';
import { decodeProtectedHeader } from 'jose';
import { OwnCookies } from '../../lib/http/cookies.js';
import { HttpContext } from '../../lib/http/http-context.js';
import { Clock } from '../../lib/time/clock.js';
import { leaksOf } from '../setup/leaks.js';
import { clockOf } from '../support/clock.js';
import type { Host, HostKind } from '../support/host.js';
import { OperatorLines } from '../support/operator-lines.js';
import type { LoginOverrides, ScriptedProvider } from '../support/provider.js';
import { Visitor, type Reply } from '../support/visitor.js';
import { withProvider, type Given } from './hosts.js';
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

/** As a proxy knows the host. */
const SITE = 'https://host.example.com';

let provider: ScriptedProvider;
const start = withProvider((started) => (provider = started));
let host: Host;
let behindTls: Host;
beforeAll(async () => {
  host = await start();
  behindTls = await start({ redirectUri: `${SITE}/auth/callback` });
});

/** A host with a public https address, as behind a proxy that terminates TLS. */
async function startBehindTls(given: Given): Promise<{ site: { url: string }; visitor: () => Visitor }> {
  const { url } = await start({ redirectUri: `${SITE}/auth/callback`, ...given });
  return { site: { url: SITE }, visitor: () => new Visitor({ [SITE]: url }) };
}

/** Cookies that a reply sets, with their attributes as sent. */
function attributesIn(reply: Reply): Record<string, string> {
  return Object.fromEntries(
    reply.setCookies.map((header) => {
      const [pair = '', ...attributes] = header.split('; ');
      const name = pair.slice(0, pair.indexOf('=')).replace(/-[0-9a-f]$/, '-…');
      return [name, attributes.toSorted().join('; ')];
    }),
  );
}

describe.each<HostKind>(['express', 'fastify'])('the sealed cookies on %s', (kind) => {
  it('are host-only, http-only and Lax on plain http (loopback only)', async () => {
    const plain = await start({ kind });
    const visitor = new Visitor();
    const started = await visitor.visit(`${plain.url}/auth/login`);
    expect(attributesIn(started)).toEqual({
      'exhibitor-login-…': 'HttpOnly; Max-Age=600; Path=/; SameSite=Lax',
    });
    const finished = await toHost(visitor, await toProvider(visitor, plain));
    expect(attributesIn(finished)).toEqual({
      'exhibitor-login-…': 'HttpOnly; Max-Age=0; Path=/; SameSite=Lax',
      'exhibitor-identity': 'HttpOnly; Max-Age=28800; Path=/; SameSite=Lax',
    });
  });

  it('are Secure and carry the __Host- prefix where the callback is https', async () => {
    const { site, visitor: arrive } = await startBehindTls({ kind });
    const visitor = arrive();
    const started = await visitor.visit(`${site.url}/auth/login`);
    expect(attributesIn(started)).toEqual({
      '__Host-exhibitor-login-…': 'HttpOnly; Max-Age=600; Path=/; SameSite=Lax; Secure',
    });
    const finished = await toHost(visitor, await toProvider(visitor, site));
    expect(attributesIn(finished)).toEqual({
      '__Host-exhibitor-login-…': 'HttpOnly; Max-Age=0; Path=/; SameSite=Lax; Secure',
      '__Host-exhibitor-identity': 'HttpOnly; Max-Age=28800; Path=/; SameSite=Lax; Secure',
    });
    expect(await identityOf(visitor, site)).toMatchObject({ subject: 'pat' });
    const left = await visitor.visit(`${site.url}/auth/logout`, { method: 'POST' });
    expect(attributesIn(left)).toEqual({
      '__Host-exhibitor-identity': 'HttpOnly; Max-Age=0; Path=/; SameSite=Lax; Secure',
    });
    expect(await identityOf(visitor, site)).toBeUndefined();
  });

  it('are SameSite=None for a form_post from the provider, that of the login only', async () => {
    const { site, visitor: arrive } = await startBehindTls({
      kind,
      login: { responseType: 'code token id_token' },
    });
    const started = await arrive().visit(`${site.url}/auth/login`);
    expect(attributesIn(started)).toEqual({
      '__Host-exhibitor-login-…': 'HttpOnly; Max-Age=600; Path=/; SameSite=None; Secure',
    });
    const visitor = arrive();
    const finished = await toHost(visitor, await toProvider(visitor, site));
    expect(finished.status).toBe(303);
    expect(attributesIn(finished)).toEqual({
      '__Host-exhibitor-login-…': 'HttpOnly; Max-Age=0; Path=/; SameSite=None; Secure',
      '__Host-exhibitor-identity': 'HttpOnly; Max-Age=28800; Path=/; SameSite=Lax; Secure',
    });
  });

  it('are SameSite=None and Secure for a form_post on http loopback too, without the prefix', async () => {
    const plain = await start({ kind, login: { responseType: 'code id_token' } });
    const started = await new Visitor().visit(`${plain.url}/auth/login`);
    expect(attributesIn(started)).toEqual({
      'exhibitor-login-…': 'HttpOnly; Max-Age=600; Path=/; SameSite=None; Secure',
    });
    const visitor = new Visitor();
    const finished = await toHost(visitor, await toProvider(visitor, plain));
    expect(finished.status).toBe(303);
    expect(attributesIn(finished)).toEqual({
      'exhibitor-login-…': 'HttpOnly; Max-Age=0; Path=/; SameSite=None; Secure',
      'exhibitor-identity': 'HttpOnly; Max-Age=28800; Path=/; SameSite=Lax',
    });
  });

  it('of the host itself are not changed', async () => {
    const own = await start({ kind });
    const visitor = new Visitor();
    visitor.cookies('127.0.0.1').set('exhibitor-identity-card', 'of the host');
    visitor.cookies('127.0.0.1').set('theme', 'dark');
    await toHost(visitor, await toProvider(visitor, own));
    await visitor.visit(`${own.url}/auth/logout`, { method: 'POST' });
    expect([...visitor.cookies('127.0.0.1').keys()].toSorted()).toEqual(['exhibitor-identity-card', 'theme']);
  });
});

describe('the sealed cookies', () => {
  it('live as long as the options set', async () => {
    const brief = await start({
      cookies: { loginTtl: 90_000, identityTtl: 3_600_000, sameSite: 'strict' },
    });
    const visitor = new Visitor();
    const arrival = await toProvider(visitor, brief);
    const finished = await toHost(visitor, arrival);
    expect(attributesIn(finished)['exhibitor-identity']).toBe(
      'HttpOnly; Max-Age=3600; Path=/; SameSite=Strict',
    );
    const clock = clockOf(brief.app);
    clock.skip(3_599_000);
    const reply = await visitor.visit(`${brief.url}/me`);
    expect([reply.status, reply.setCookies]).toEqual([200, []]);
    clock.skip(2_000);
    // Also where the cookie is kept beyond its Max-Age.
    expect(await identityOf(visitor, brief)).toBeUndefined();
  });

  it('are JWE with a key for each purpose, and show nothing', async () => {
    const visitor = new Visitor();
    const arrival = await toProvider(visitor, host, '?returnTo=/secret-page&eventId=secret-event');
    const cookies = visitor.cookies('127.0.0.1');
    const login = cookies.get(pendingLogins(visitor, host)[0] ?? '') ?? '';
    await toHost(visitor, arrival);
    const identity = cookies.get('exhibitor-identity') ?? '';
    const headers = [login, identity].map((sealed) => decodeProtectedHeader(sealed));
    for (const header of headers) {
      expect(header).toEqual({ alg: 'dir', enc: 'A256GCM', kid: expect.any(String) });
    }
    expect(headers[0]?.kid).not.toBe(headers[1]?.kid);
    const shown = [login, identity].flatMap((sealed) =>
      sealed.split('.').map((part) => Buffer.from(part, 'base64url').toString('latin1')),
    );
    expect(shown.join()).not.toMatch(/secret|pat|example|subject|verifier|state/);
  });

  it('contain no token: the identity has neither ID token nor access token, nor claims about them', async () => {
    const visitor = new Visitor();
    const arrival = await toProvider(visitor, host);
    await toHost(visitor, arrival);
    const identity = await identityOf(visitor, host);
    expect(Object.keys(identity?.claims ?? {}).toSorted()).toEqual([
      'auth_time',
      'email',
      'email_verified',
      'sub',
    ]);
    expect(leaksOf({ ...identity, email: '', claims: { ...identity?.claims, email: '' } })).toEqual([]);
    expect(JSON.stringify(identity)).not.toContain(arrival.parameters.get('code'));
  });

  it('are not accepted for each other', async () => {
    const visitor = new Visitor();
    const arrival = await toProvider(visitor, host);
    const [name = ''] = pendingLogins(visitor, host);
    const cookies = visitor.cookies('127.0.0.1');
    const login = cookies.get(name) ?? '';
    const swapped = copyOf(visitor, host);
    await toHost(visitor, arrival);
    swapped.cookies('127.0.0.1').set('exhibitor-identity', login);
    expect(await identityOf(swapped, host)).toBeUndefined();
    const next = await toProvider(swapped, host);
    const [nextName = ''] = pendingLogins(swapped, host).filter((each) => each !== name);
    swapped.cookies('127.0.0.1').set(nextName, cookies.get('exhibitor-identity') ?? '');
    expectRefusal(await toHost(swapped, next), 'state');
  });

  it.each(['code', 'code id_token'] as const)(
    'are ignored without the prefix, as a sibling domain could set them, with %s',
    async (responseType) => {
      const { site, visitor: arrive } = await startBehindTls({ login: { responseType } });
      const attacker = arrive();
      const arrival = await toProvider(attacker, site);
      const victim = arrive();
      for (const [name, value] of attacker.cookies('host.example.com')) {
        victim.cookies('host.example.com').set(name.replace('__Host-', ''), value);
      }
      expectRefusal(await toHost(victim, arrival), 'state');
      // The login of the victim gives the other one no prefix either.
      await toHost(victim, await toProvider(victim, site));
      expect(await identityOf(victim, site)).toBeDefined();
      expect(pendingLogins(victim, site)).toEqual([expect.stringMatching(/^exhibitor-login-/)]);
      victim.cookies('host.example.com').delete('__Host-exhibitor-identity');

      await toHost(attacker, arrival);
      const sealed = attacker.cookies('host.example.com').get('__Host-exhibitor-identity') ?? '';
      victim.cookies('host.example.com').set('exhibitor-identity', sealed);
      expect(await identityOf(victim, site)).toBeUndefined();
      victim.cookies('host.example.com').set('__Host-exhibitor-identity', sealed);
      expect(await identityOf(victim, site)).toBeDefined();
    },
  );

  it('are ignored where they cannot be opened, without an exception', async () => {
    const visitor = new Visitor();
    const arrival = await toProvider(visitor, host);
    const [name = ''] = pendingLogins(visitor, host);
    const sealed = visitor.cookies('127.0.0.1').get(name) ?? '';
    await toHost(visitor, arrival);
    const [header = '', ...rest] = sealed.split('.');
    const garbage = [
      '',
      'x',
      '....',
      'a.b.c.d.e',
      '%',
      '%E0%A4%A',
      '"quoted"',
      sealed.slice(0, -1),
      `${sealed}.${sealed}`,
      [Buffer.from('{"alg":"none"}').toString('base64url'), ...rest].join('.'),
      [Buffer.from('{"alg":"dir","enc":"A256GCM","kid":7}').toString('base64url'), ...rest].join('.'),
      [Buffer.from('{"alg":"dir","enc":"A256GCM","zip":"DEF"}').toString('base64url'), ...rest].join('.'),
      [header, ...rest.map(() => '')].join('.'),
      'x'.repeat(2_500),
    ];
    for (const value of garbage) {
      const stranger = new Visitor();
      const own = await toProvider(stranger, host);
      const [ownName = ''] = pendingLogins(stranger, host);
      const cookies = stranger.cookies('127.0.0.1');
      cookies.set(ownName, value);
      cookies.set('exhibitor-identity', value);
      cookies.set('exhibitor-login-', value);
      cookies.set('exhibitor-login-zzz', value);
      expect(await identityOf(stranger, host)).toBeUndefined();
      expectRefusal(await toHost(stranger, own), 'state');
      expect((await stranger.visit(`${host.url}/auth/login`)).status).toBe(302);
    }
  });

  describe('for an identity that is too large', () => {
    const BIG = 'x'.repeat(5_000);
    const lines = new OperatorLines();

    async function logInWith(
      claims: Record<string, unknown>,
      login?: LoginOverrides,
    ): Promise<{ own: Host; visitor: Visitor; reply: Reply }> {
      const own = await start({ login });
      lines.clear();
      own.app.useLogger(lines);
      provider.script = { backToken: { claims: (all) => void Object.assign(all, claims) } };
      const visitor = new Visitor();
      const reply = await toHost(visitor, await toProvider(visitor, own));
      return { own, visitor, reply };
    }

    const longest = ({ setCookies }: Reply): number => Math.max(...setCookies.map((cookie) => cookie.length));

    it('keep what the guards need, and one warning names what was dropped', async () => {
      const { own, visitor, reply } = await logInWith({ biography: BIG, nickname: 'Patty' });
      expect(reply.status).toBe(303);
      expect(longest(reply)).toBeLessThanOrEqual(4_096);
      expect(await identityOf(visitor, own)).toMatchObject({
        subject: 'pat',
        email: 'pat@example.com',
        claims: {},
      });
      const again = new Visitor();
      await toHost(again, await toProvider(again, own));
      expect(lines.warnings).toHaveLength(1);
      expect(lines.warnings[0]).toMatch(/login\.keepClaims.*biography.*nickname/s);
      expect(lines.warnings[0]).not.toContain('Patty');
    });

    it('name foreign claims in the warning in a short form: one line, without addresses', async () => {
      const names = {
        'first\nFORGED [Nest] 1 - LOG a line of its own': 1,
        'group of zoe.private@example.com': 2,
        'red \u001b[31m and \u202e reversed': 3,
        [`long_${'n'.repeat(5_000)}`]: 4,
        ...Object.fromEntries(Array.from({ length: 500 }, (_, index) => [`claim_${index}`, index])),
      };
      const { reply } = await logInWith({ ...names, biography: BIG });
      expect(reply.status).toBe(303);
      const [warning = ''] = lines.warnings;
      expect(lines.warnings).toHaveLength(1);
      expect(warning).toMatch(/login\.keepClaims.*first FORGED.*group of \[removed\]/);
      expect(warning).toMatch(/^[^\p{C}\p{Zl}\p{Zp}]*$/u);
      expect(warning.length).toBeLessThan(1_500);
      expect(leaksOf(warning)).toEqual([]);
    });

    it('keep the claims of the option keepClaims', async () => {
      const { own, visitor } = await logInWith(
        { biography: BIG, nickname: 'Patty' },
        { keepClaims: ['nickname'] },
      );
      expect((await identityOf(visitor, own))?.claims).toEqual({
        nickname: 'Patty',
        auth_time: expect.any(Number),
      });
      expect(lines.warnings).toEqual([]);
    });

    it('keep all claims where they fit', async () => {
      const { own, visitor } = await logInWith({ nickname: 'Patty', groups: ['a', 'b'] });
      expect((await identityOf(visitor, own))?.claims).toMatchObject({
        nickname: 'Patty',
        groups: ['a', 'b'],
      });
      expect(lines.warnings).toEqual([]);
    });

    it('refuse the login where the subject is too long', async () => {
      const { own, visitor, reply } = await logInWith({ sub: BIG });
      expectRefusal(reply, 'provider');
      expect(await identityOf(visitor, own)).toBeUndefined();
    });
  });
});

const ADDRESSES = ['http', 'https'] as const;

/** The largest values of a login: what JSON escapes, what UTF-8 makes longer, and both. */
const WORST: readonly [[what: string, eventId: string, returnTo: string], ...[string, string, string][]] = [
  ['quotation marks', '"'.repeat(128), `/${'"'.repeat(511)}`],
  ['characters of 4 bytes', '😀'.repeat(32), `/${'😀'.repeat(127)}`],
  ['characters of 3 bytes', `${'展'.repeat(42)}x`, `/?${'展'.repeat(170)}`],
];

function arriveBy(address: (typeof ADDRESSES)[number]): { site: { url: string }; visitor: Visitor } {
  return address === 'http'
    ? { site: host, visitor: new Visitor() }
    : { site: { url: SITE }, visitor: new Visitor({ [SITE]: behindTls.url }) };
}

/** Bytes of the cookies of the module in a request: `name=value` with `; ` for each. */
function bytesOf(visitor: Visitor, { url }: { url: string }, part = 'exhibitor-'): number {
  return [...visitor.cookies(new URL(url).hostname)]
    .filter(([name]) => name.includes(part))
    .reduce((sum, [name, value]) => sum + Buffer.byteLength(`${name}=${value}; `), 0);
}

const SILENT = {
  setHeader: () => undefined,
  redirect: () => undefined,
  reply: () => undefined,
};

const requestWith = (cookie: string): HttpContext['request'] => ({
  method: 'GET',
  url: '/',
  headers: { cookie },
  params: {},
  query: {},
});

const cookiesOf = (visitor: Visitor, { url }: { url: string }): Map<string, string> =>
  visitor.cookies(new URL(url).hostname);

const queryOf = (values: Record<string, string>): string => `?${new URLSearchParams(values)}`;

/** Begins logins one after the other; the budget holds after each. */
async function begin(
  visitor: Visitor,
  site: { url: string },
  count: number,
  values: Record<string, string> = {},
): Promise<Arrival[]> {
  const arrivals: Arrival[] = [];
  for (let tab = 0; tab < count; tab++) {
    arrivals.push(await toProvider(visitor, site, queryOf(values)));
    expect(bytesOf(visitor, site)).toBeLessThanOrEqual(7_000);
    const sizes = pendingLogins(visitor, site).map((name) => cookiesOf(visitor, site).get(name)?.length ?? 0);
    expect(Math.max(...sizes)).toBeLessThanOrEqual(2_000);
  }
  return arrivals;
}

/** A claim that still fits into 3,000 bytes. */
const LARGEST = 'x'.repeat(1_630);

/** An identity whose cookie is as large as it may be. */
async function logInAtMost(visitor: Visitor, site: { url: string }): Promise<void> {
  provider.script = { backToken: { claims: (claims) => void (claims['biography'] = LARGEST) } };
  expect((await logIn(visitor, site)).status).toBe(303);
  provider.script = {};
  expect(bytesOf(visitor, site, 'exhibitor-identity')).toBeGreaterThan(2_900);
}

describe.each(ADDRESSES)('the cookies of a browser by %s', (address) => {
  it.each(WORST)(
    'stay in the budget with logins of %s, and the newest is kept',
    async (_, eventId, returnTo) => {
      const { site, visitor } = arriveBy(address);
      const arrivals = await begin(visitor, site, 6, { eventId, returnTo });
      const kept = pendingLogins(visitor, site).length;
      expect(kept).toBeGreaterThanOrEqual(1);
      const [oldest, newest] = [arrivals[0], arrivals.at(-1)];
      if (kept < 6 && oldest !== undefined) {
        expectRefusal(await toHost(visitor, oldest), 'state');
      }
      expect(newest && (await toHost(visitor, newest)).status).toBe(303);
      expect(await identityOf(visitor, site)).toMatchObject({ subject: 'pat', eventId });
    },
  );

  it('stay in it beside the largest identity', async () => {
    const [[, eventId, returnTo]] = WORST;
    const { site, visitor } = arriveBy(address);
    await logInAtMost(visitor, site);
    const arrivals = await begin(visitor, site, 4, { eventId, returnTo });
    expect(await identityOf(visitor, site)).toMatchObject({ subject: 'pat' });
    const newest = arrivals.at(-1);
    expect(newest && (await toHost(visitor, newest)).status).toBe(303);
  });

  it('stay in it when the identity arrives last: the other logins go', async () => {
    const { site, visitor } = arriveBy(address);
    const [eventId, returnTo] = ['"'.repeat(128), `/${'"'.repeat(300)}`];
    const arrivals = await begin(visitor, site, 3, { eventId, returnTo });
    const taken = pendingLogins(visitor, site);
    expect(taken).toHaveLength(3);
    const others = Array.from('0123', (digit) => (taken[0] ?? '').replace(/.$/, digit));
    cookiesOf(visitor, site).set(others.find((name) => !taken.includes(name)) ?? '', 'x'.repeat(3_000));
    provider.script = { backToken: { claims: (claims) => void (claims['biography'] = LARGEST.slice(300)) } };
    const [newest] = arrivals.toReversed();
    expect(newest && (await toHost(visitor, newest)).status).toBe(303);
    expect(bytesOf(visitor, site)).toBeGreaterThan(2_500);
    expect(pendingLogins(visitor, site)).toEqual([]);
  });

  it('stay in it beside the largest ID token: the other logins go first, then the ID token', async () => {
    const { site, visitor } = arriveBy(address);
    const cookies = cookiesOf(visitor, site);
    const idToken = `${address === 'https' ? '__Host-' : ''}exhibitor-id-token`;
    await logInAtMost(visitor, site);
    cookies.set(idToken, 'x'.repeat(1_900));
    const large = { eventId: '"'.repeat(128), returnTo: `/${'"'.repeat(300)}` };
    await begin(visitor, site, 1, large);
    expect(cookies.has(idToken)).toBe(true);
    await begin(visitor, site, 1, large);
    expect([cookies.has(idToken), pendingLogins(visitor, site).length]).toEqual([true, 1]);
    cookies.set(idToken, 'x'.repeat(2_500));
    const [last] = await begin(visitor, site, 1, large);
    expect(cookies.has(idToken)).toBe(false);
    expect(last && (await toHost(visitor, last)).status).toBe(303);
  });

  it('hold six ordinary logins', async () => {
    const { site, visitor } = arriveBy(address);
    const arrivals = await begin(visitor, site, 6, {
      eventId: 'world-2026',
      returnTo: '/events/world-2026/mine',
    });
    expect(pendingLogins(visitor, site)).toHaveLength(6);
    for (const arrival of arrivals) {
      expect((await toHost(visitor, arrival)).status).toBe(303);
    }
  });

  it('count what is in the browser already, also where it does not open', async () => {
    const { site, visitor } = arriveBy(address);
    const prefix = address === 'https' ? '__Host-' : '';
    for (const digit of ['0', '9', 'f']) {
      cookiesOf(visitor, site).set(`${prefix}exhibitor-login-${digit}`, 'x'.repeat(3_000));
    }
    const [arrival] = await begin(visitor, site, 1);
    expect(pendingLogins(visitor, site)).toHaveLength(1);
    expect(arrival && (await toHost(visitor, arrival)).status).toBe(303);
  });
});

describe('cookies that a neighbour has set', () => {
  it('with thousands of names take less than a millisecond, and none is removed', async () => {
    const made = Array.from({ length: 545 }, (_, index) => `__Host-exhibitor-login-${index}=`).join('; ');
    expect(made.length).toBeGreaterThan(15_000);
    const { site, visitor } = arriveBy('https');
    const started = await visitor.visit(`${site.url}/auth/login`, { headers: { cookie: made } });
    expect(started.status).toBe(302);
    expect(started.setCookies).toHaveLength(1);

    const cookies = new OwnCookies({ name: 'exhibitor', sameSite: 'lax' });
    const took = Array.from({ length: 20 }, () => {
      const http = new HttpContext(requestWith(made), undefined, { ...SILENT });
      const began = performance.now();
      cookies.received(http, 'identity');
      cookies.set(http, 'selection', 'x', { secure: true }, 1_000);
      return performance.now() - began;
    });
    expect(Math.min(...took)).toBeLessThan(1);
  });

  it('for a parent domain end no login of another tab, and are not counted', async () => {
    const { site, visitor } = arriveBy('https');
    const [first] = await begin(visitor, site, 1);
    for (let digit = 0; digit < 6; digit += 1) {
      cookiesOf(visitor, site).set(`exhibitor-login-${digit}`, 'x'.repeat(1_200));
    }
    const started = await visitor.visit(`${site.url}/auth/login`);
    expect(started.setCookies).toHaveLength(1);
    expect(first && (await toHost(visitor, first)).status).toBe(303);
  });
});

describe('tabs that start a login at the same moment', () => {
  /** Five logins of one browser, whose requests carry no cookie yet. */
  async function beginAtOnce(chances: readonly number[]): Promise<{ visitor: Visitor; arrivals: Arrival[] }> {
    const [visitor, left] = [new Visitor(), [...chances]];
    const clock = host.app.get(Clock, { strict: false });
    const random = jest.spyOn(clock, 'random').mockImplementation(() => left.shift() ?? 0);
    const tabs = await Promise.all(
      chances.map(async () => {
        const tab = new Visitor();
        return { tab, arrival: await toProvider(tab, host) };
      }),
    );
    random.mockRestore();
    for (const { tab } of tabs) {
      for (const [name, value] of tab.cookies('127.0.0.1')) {
        visitor.cookies('127.0.0.1').set(name, value);
      }
    }
    return { visitor, arrivals: tabs.map(({ arrival }) => arrival) };
  }

  it('all end well', async () => {
    const { visitor, arrivals } = await beginAtOnce([0, 0.1, 0.2, 0.5, 0.99]);
    expect(pendingLogins(visitor, host).toSorted()).toEqual(
      ['0', '1', '3', '8', 'f'].map((digit) => `exhibitor-login-${digit}`),
    );
    for (const arrival of arrivals) {
      expect((await toHost(visitor, arrival)).status).toBe(303);
    }
  });

  it('may get the same cookie: then the later one replaces the other, which is refused by state', async () => {
    const { visitor, arrivals } = await beginAtOnce([0.3, 0.3]);
    expect(pendingLogins(visitor, host)).toEqual(['exhibitor-login-4']);
    const statuses = [];
    for (const arrival of arrivals) {
      statuses.push((await toHost(visitor, arrival)).status);
    }
    expect(statuses.toSorted()).toEqual([303, 401]);
  });

  it('get a cookie of their own where the browser has others, and any where it has all', async () => {
    const visitor = new Visitor();
    const digits = Array.from('0123456789abcdef');
    digits
      .filter((digit) => digit !== '7')
      .forEach((digit) => visitor.cookies('127.0.0.1').set(`exhibitor-login-${digit}`, 'x'));
    const seventh = await toProvider(visitor, host);
    expect(seventh.parameters.get('state')?.[0]).toBe('7');
    const last = await toProvider(visitor, host);
    expect((await toHost(visitor, last)).status).toBe(303);
  });
});

describe('the event of a login', () => {
  it.each([
    ['129 bytes', 'x'.repeat(129)],
    ['33 characters of 4 bytes', '😀'.repeat(33)],
    ['a NUL', 'a\u0000b'],
    ['a line feed', 'a\nb'],
    ['a DEL', 'a\u007f'],
    ['a C1 control character', 'a\u0085'],
    ['..', '..'],
    ['an empty segment', 'world//2026'],
    ['a segment that ends at a semicolon', '..%3B/world'],
  ])('is no event id with %s: 400, and nothing is sent or kept', async (_, eventId) => {
    const seen = provider.seen.length;
    const reply = await new Visitor().visit(`${host.url}/auth/login${queryOf({ eventId })}`);
    expect([reply.status, JSON.parse(reply.text)]).toEqual([
      400,
      expect.objectContaining({ code: 'invalid_argument' }),
    ]);
    expect([reply.location, reply.setCookies]).toEqual([undefined, []]);
    expect(provider.seen.length).toBe(seen);
  });

  it.each(['x'.repeat(128), '😀'.repeat(32), ' ', '"<>"'])('may be %j', async (eventId) => {
    const visitor = new Visitor();
    expect((await logIn(visitor, host, queryOf({ eventId }))).status).toBe(303);
    expect(await identityOf(visitor, host)).toMatchObject({ eventId });
  });
});
