import { beforeAll, describe, expect, it, jest } from '@jest/globals';
import { decodeProtectedHeader } from 'jose';
import { Clock } from '../../lib/call/clock.js';
import { leaksOf } from '../setup/leaks.js';
import { clockOf } from '../support/clock.js';
import type { Host, HostKind } from '../support/host.js';
import { OperatorLines } from '../support/operator-lines.js';
import type { LoginOverrides, ScriptedProvider } from '../support/provider.js';
import { says } from '../support/provider-script.js';
import { Visitor, type Reply } from '../support/visitor.js';
import { withProvider, type Given } from './hosts.js';
import {
  arrive,
  copyOf,
  enter,
  expectError,
  expectRefusal,
  identityOf,
  isLoggedIn,
  logIn,
  logOut,
  pendingLogins,
  toHost,
  toProvider,
  type Arrival,
} from './journey.js';

/** As a proxy that terminates TLS knows the host. */
const SITE = 'https://host.example.com';
const HTTPS = { redirectUri: `${SITE}/auth/callback` };

let provider: ScriptedProvider;
const start = withProvider((started) => (provider = started));
let host: Host;
let behindTls: Host;
beforeAll(async () => {
  host = await start();
  behindTls = await start(HTTPS);
});

interface Site {
  site: { url: string };
  visitor: Visitor;
}

/** A browser, and the host as it knows it. */
const browserAt = ({ url }: Host, isHttps = false): Site =>
  isHttps
    ? { site: { url: SITE }, visitor: new Visitor({ [SITE]: url }) }
    : { site: { url }, visitor: new Visitor() };

const cookiesOf = (visitor: Visitor, { url }: { url: string }): Map<string, string> =>
  visitor.cookies(new URL(url).hostname);

/** The only pending login of a browser: the name of its cookie. */
const pendingOf = (visitor: Visitor, site: { url: string } = host): string =>
  pendingLogins(visitor, site)[0] ?? '';

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

type Attributes = [what: string, kind: HostKind, given: Given, login: string, identity: string];
const HYBRID: LoginOverrides = { responseType: 'code token id_token' };

describe('the sealed cookies', () => {
  it.each<Attributes>([
    ['http-only and Lax on plain http (loopback only)', 'express', {}, 'Lax', 'Lax'],
    ['Secure with __Host- where the callback is https', 'express', HTTPS, 'Lax; Secure', 'Lax; Secure'],
    ['the same', 'fastify', HTTPS, 'Lax; Secure', 'Lax; Secure'],
    [
      'None for a form_post, that of the login only',
      'fastify',
      { ...HTTPS, login: HYBRID },
      'None; Secure',
      'Lax; Secure',
    ],
    ['None and Secure for a form_post on http too', 'express', { login: HYBRID }, 'None; Secure', 'Lax'],
  ])('are host-only, and %s, on %s', async (_what, kind, given, login, identity) => {
    const isHttps = given.redirectUri !== undefined;
    const prefix = isHttps ? '__Host-' : '';
    const { site, visitor } = browserAt(await start({ kind, ...given }), isHttps);
    const headed = (maxAge: number, sameSite: string): string =>
      `HttpOnly; Max-Age=${maxAge}; Path=/; SameSite=${sameSite}`;
    const started = await visitor.visit(`${site.url}/auth/login`);
    expect(attributesIn(started)).toEqual({ [`${prefix}exhibitor-login-…`]: headed(600, login) });
    expect(attributesIn(await logIn(visitor, site))).toEqual({
      [`${prefix}exhibitor-login-…`]: headed(0, login),
      [`${prefix}exhibitor-identity`]: headed(28_800, identity),
    });
    expect(await identityOf(visitor, site)).toMatchObject({ subject: 'pat' });
    expect(attributesIn(await logOut(visitor, site))).toEqual({
      [`${prefix}exhibitor-identity`]: headed(0, identity),
    });
    expect(await isLoggedIn(visitor, site)).toBe(false);
  });

  it('leave those of the host itself as they are', async () => {
    const visitor = new Visitor();
    visitor.cookies().set('exhibitor-identity-card', 'of the host');
    visitor.cookies().set('theme', 'dark');
    await logOut(await enter(host, undefined, visitor), host);
    expect([...visitor.cookies().keys()].toSorted()).toEqual(['exhibitor-identity-card', 'theme']);
  });

  it('live as long as the options set', async () => {
    const brief = await start({ cookies: { loginTtl: 90_000, identityTtl: 3_600_000 } });
    const visitor = new Visitor();
    const attributes = attributesIn(await logIn(visitor, brief))['exhibitor-identity'];
    expect(attributes).toBe('HttpOnly; Max-Age=3600; Path=/; SameSite=Lax');
    const clock = clockOf(brief.app);
    clock.skip(3_599_000);
    const reply = await visitor.visit(`${brief.url}/me`);
    expect([reply.status, reply.setCookies]).toEqual([200, []]);
    // Also where the cookie is kept beyond its Max-Age.
    clock.skip(2_000);
    expect(await isLoggedIn(visitor, brief)).toBe(false);
  });

  it('are JWE with a key for each purpose, show nothing, and contain no token and no claims about one', async () => {
    const { visitor, arrival } = await arrive(host, '?returnTo=/secret-page&eventId=secret-event');
    const login = visitor.cookies().get(pendingOf(visitor)) ?? '';
    await toHost(visitor, arrival);
    const sealed = [login, visitor.cookies().get('exhibitor-identity') ?? ''];
    const headers = sealed.map((each) => decodeProtectedHeader(each));
    const header = { alg: 'dir', enc: 'A256GCM', kid: expect.any(String) };
    expect(headers).toEqual([header, header]);
    expect(headers[0]?.kid).not.toBe(headers[1]?.kid);
    const parts = sealed.flatMap((each) => each.split('.'));
    const shown = parts.map((part) => Buffer.from(part, 'base64url').toString('latin1')).join();
    expect(shown).not.toMatch(/secret|pat|example|subject|verifier|state/);

    const identity = await identityOf(visitor, host);
    const kept = ['auth_time', 'email', 'email_verified', 'sub'];
    expect(Object.keys(identity?.claims ?? {}).toSorted()).toEqual(kept);
    expect(leaksOf({ ...identity, email: '', claims: { ...identity?.claims, email: '' } })).toEqual([]);
    expect(JSON.stringify(identity)).not.toContain(arrival.parameters.get('code'));
  });

  it('are not accepted for each other', async () => {
    const { visitor, arrival } = await arrive(host);
    const name = pendingOf(visitor);
    const swapped = copyOf(visitor, host);
    swapped.cookies().set('exhibitor-identity', visitor.cookies().get(name) ?? '');
    expect(await isLoggedIn(swapped, host)).toBe(false);
    expect((await toHost(visitor, arrival)).status).toBe(303);
    swapped.cookies().set(name, visitor.cookies().get('exhibitor-identity') ?? '');
    expectRefusal(await toHost(swapped, arrival), 'state');
  });

  it.each(['code', 'code id_token'] as const)(
    'are ignored without the prefix, as a sibling domain could set them, with %s',
    async (responseType) => {
      const own = await start({ ...HTTPS, login: { responseType } });
      const { site, visitor: attacker } = browserAt(own, true);
      const { visitor: victim } = browserAt(own, true);
      const arrival = await toProvider(attacker, site);
      for (const [name, value] of cookiesOf(attacker, site)) {
        cookiesOf(victim, site).set(name.replace('__Host-', ''), value);
      }
      expectRefusal(await toHost(victim, arrival), 'state');
      // The login of the victim gives the other one no prefix either.
      await enter(site, undefined, victim);
      expect(pendingLogins(victim, site)).toEqual([expect.stringMatching(/^exhibitor-login-/)]);
      cookiesOf(victim, site).delete('__Host-exhibitor-identity');

      await toHost(attacker, arrival);
      const sealed = cookiesOf(attacker, site).get('__Host-exhibitor-identity') ?? '';
      cookiesOf(victim, site).set('exhibitor-identity', sealed);
      expect(await isLoggedIn(victim, site)).toBe(false);
      cookiesOf(victim, site).set('__Host-exhibitor-identity', sealed);
      expect(await isLoggedIn(victim, site)).toBe(true);
    },
  );

  it('are ignored where they cannot be opened, without an exception', async () => {
    const { visitor } = await arrive(host);
    const sealed = visitor.cookies().get(pendingOf(visitor)) ?? '';
    const [header = '', ...rest] = sealed.split('.');
    const headed = (members: string): string =>
      [Buffer.from(members).toString('base64url'), ...rest].join('.');
    const garbage = ['', 'x', '....', 'a.b.c.d.e', '%', '%E0%A4%A', '"quoted"', 'x'.repeat(2_500)];
    for (const value of [
      ...garbage,
      sealed.slice(0, -1),
      `${sealed}.${sealed}`,
      [header, ...rest.map(() => '')].join('.'),
      headed('{"alg":"none"}'),
      headed('{"alg":"dir","enc":"A256GCM","kid":7}'),
      headed('{"alg":"dir","enc":"A256GCM","zip":"DEF"}'),
    ]) {
      const { visitor: stranger, arrival } = await arrive(host);
      for (const name of [
        pendingOf(stranger),
        'exhibitor-identity',
        'exhibitor-login-',
        'exhibitor-login-zzz',
      ]) {
        stranger.cookies().set(name, value);
      }
      expect(await isLoggedIn(stranger, host)).toBe(false);
      expectRefusal(await toHost(stranger, arrival), 'state');
      expect((await stranger.visit(`${host.url}/auth/login`)).status).toBe(302);
    }
  });
});

describe('an identity that is too large for its cookie', () => {
  const BIG = 'x'.repeat(5_000);
  const lines = new OperatorLines();

  async function logInWith(
    claims: Record<string, unknown>,
    login?: LoginOverrides,
  ): Promise<{ own: Host; visitor: Visitor; reply: Reply }> {
    const own = await start({ login });
    lines.clear();
    own.app.useLogger(lines);
    provider.script = says(claims);
    const visitor = new Visitor();
    return { own, visitor, reply: await logIn(visitor, own) };
  }

  it('keeps what the guards need, and one warning names what was dropped', async () => {
    const { own, visitor, reply } = await logInWith({ biography: BIG, nickname: 'Patty' });
    expect(Math.max(...reply.setCookies.map((cookie) => cookie.length))).toBeLessThanOrEqual(4_096);
    const kept = { subject: 'pat', email: 'pat@example.com', claims: {} };
    expect(await identityOf(visitor, own)).toMatchObject(kept);
    await enter(own);
    expect(lines.warnings).toEqual([expect.stringMatching(/login\.keepClaims.*biography.*nickname/s)]);
    expect(lines.warnings[0]).not.toContain('Patty');
  });

  it('names foreign claims in the warning in a short form: one line, without addresses', async () => {
    await logInWith({
      'first\nFORGED [Nest] 1 - LOG a line of its own': 1,
      'group of zoe.private@example.com': 2,
      'red \u001b[31m and \u202e reversed': 3,
      [`long_${'n'.repeat(5_000)}`]: 4,
      ...Object.fromEntries(Array.from({ length: 500 }, (_, index) => [`claim_${index}`, index])),
      biography: BIG,
    });
    const [warning = '', ...others] = lines.warnings;
    expect(warning).toMatch(/login\.keepClaims.*first FORGED.*group of \[removed\]/);
    expect(warning).toMatch(/^[^\p{C}\p{Zl}\p{Zp}]*$/u);
    expect(warning.length).toBeLessThan(1_500);
    expect([leaksOf(warning), others]).toEqual([[], []]);
  });

  it('keeps the claims of the option keepClaims, and all claims where they fit', async () => {
    const some = await logInWith({ biography: BIG, nickname: 'Patty' }, { keepClaims: ['nickname'] });
    const kept = { nickname: 'Patty', auth_time: expect.any(Number) };
    expect((await identityOf(some.visitor, some.own))?.claims).toEqual(kept);
    const fits = { nickname: 'Patty', groups: ['a', 'b'] };
    const all = await logInWith(fits);
    expect((await identityOf(all.visitor, all.own))?.claims).toMatchObject(fits);
    expect(lines.warnings).toEqual([]);
  });
});

describe('a rotation of the secrets', () => {
  const OLD = 'the old cookie secret of these tests, 32+ characters';
  const NEW = 'the new cookie secret of these tests, 32+ characters';

  it('keeps pending logins and identities until the old secret is removed', async () => {
    const before = await start({ secrets: [OLD] });
    const after = (...secrets: string[]): Promise<Host> => start({ secrets, redirectUri: before.callback });
    const [appended, promoted, removed] = [await after(OLD, NEW), await after(NEW, OLD), await after(NEW)];
    for (const [sealedBy, opens] of [
      [before, { appended: true, promoted: true, removed: false }],
      [promoted, { before: false, appended: true, removed: true }],
    ] as const) {
      const others = { before, appended, promoted, removed };
      for (const [name, isOpened] of Object.entries(opens)) {
        const at = others[name as keyof typeof others];
        const { visitor, arrival } = await arrive(sealedBy);
        const reply = await toHost(visitor, { ...arrival, callback: at.callback });
        expect([name, reply.status]).toEqual([name, isOpened ? 303 : 401]);
        const own = await toProvider(visitor, sealedBy);
        expect((await toHost(visitor, { ...own, callback: sealedBy.callback })).status).toBe(303);
        expect([name, await isLoggedIn(visitor, at)]).toEqual([name, isOpened]);
      }
    }
  });
});

/** The largest values of a login: what JSON escapes, what UTF-8 makes longer, and both. */
const WORST: readonly [[what: string, eventId: string, returnTo: string], ...[string, string, string][]] = [
  ['quotation marks', '"'.repeat(128), `/${'"'.repeat(511)}`],
  ['characters of 4 bytes', '😀'.repeat(32), `/${'😀'.repeat(127)}`],
  ['characters of 3 bytes', `${'展'.repeat(42)}x`, `/?${'展'.repeat(170)}`],
];
const [[, WORST_EVENT, WORST_PAGE]] = WORST;
const LARGE = { eventId: WORST_EVENT, returnTo: `/${'"'.repeat(300)}` };

/** Bytes of the cookies of the module in a request: `name=value` with `; ` for each. */
const bytesOf = (visitor: Visitor, site: { url: string }, part = 'exhibitor-'): number =>
  [...cookiesOf(visitor, site)]
    .filter(([name]) => name.includes(part))
    .reduce((sum, [name, value]) => sum + Buffer.byteLength(`${name}=${value}; `), 0);

const queryOf = (values: Record<string, string>): string => `?${new URLSearchParams(values)}`;

/** Begins logins one after the other; the budget holds after each. Answers the last one, and all. */
async function begin(
  { site, visitor }: Site,
  count: number,
  values: Record<string, string> = {},
): Promise<{ last: Arrival; arrivals: Arrival[] }> {
  const arrivals: Arrival[] = [];
  for (let tab = 0; tab < count; tab++) {
    arrivals.unshift(await toProvider(visitor, site, queryOf(values)));
    expect(bytesOf(visitor, site)).toBeLessThanOrEqual(7_000);
    const sizes = pendingLogins(visitor, site).map((name) => cookiesOf(visitor, site).get(name)?.length ?? 0);
    expect(Math.max(...sizes)).toBeLessThanOrEqual(2_000);
  }
  const [last] = arrivals;
  if (last === undefined) {
    throw new Error('no login was begun');
  }
  return { last, arrivals };
}

/** A claim that still fits into 3,000 bytes. */
const LARGEST = 'x'.repeat(1_630);

/** A browser whose identity is as large as it may be. */
async function enterAtMost(): Promise<Site> {
  const at = browserAt(behindTls, true);
  provider.script = says({ biography: LARGEST });
  await enter(at.site, undefined, at.visitor);
  provider.script = {};
  expect(bytesOf(at.visitor, at.site, 'exhibitor-identity')).toBeGreaterThan(2_900);
  return at;
}

const expectFinished = async (visitor: Visitor, arrival: Arrival): Promise<void> =>
  expect((await toHost(visitor, arrival)).status).toBe(303);

describe('the cookies of a browser', () => {
  it.each(WORST)(
    'stay in the budget with logins of %s, and the newest is kept',
    async (_, eventId, returnTo) => {
      const at = browserAt(behindTls, true);
      const { last, arrivals } = await begin(at, 6, { eventId, returnTo });
      const kept = pendingLogins(at.visitor, at.site).length;
      const oldest = arrivals.at(-1);
      if (kept < 6 && oldest !== undefined) {
        expectRefusal(await toHost(at.visitor, oldest), 'state');
      }
      await expectFinished(at.visitor, last);
      expect(await identityOf(at.visitor, at.site)).toMatchObject({ subject: 'pat', eventId });
    },
  );

  it('stay in it beside the largest identity', async () => {
    const at = await enterAtMost();
    const { last } = await begin(at, 4, { eventId: WORST_EVENT, returnTo: WORST_PAGE });
    expect(await isLoggedIn(at.visitor, at.site)).toBe(true);
    await expectFinished(at.visitor, last);
  });

  it('stay in it when the identity arrives last: the other logins go', async () => {
    const at = browserAt(behindTls, true);
    const { site, visitor } = at;
    const { last } = await begin(at, 3, LARGE);
    const taken = pendingLogins(visitor, site);
    expect(taken).toHaveLength(3);
    const others = Array.from('0123', (digit) => (taken[0] ?? '').replace(/.$/, digit));
    cookiesOf(visitor, site).set(others.find((name) => !taken.includes(name)) ?? '', 'x'.repeat(3_000));
    provider.script = says({ biography: LARGEST.slice(300) });
    await expectFinished(visitor, last);
    expect(bytesOf(visitor, site)).toBeGreaterThan(2_500);
    expect(pendingLogins(visitor, site)).toEqual([]);
  });

  it('stay in it beside the largest ID token: the other logins go first, then the ID token', async () => {
    const at = await enterAtMost();
    const cookies = cookiesOf(at.visitor, at.site);
    const idToken = '__Host-exhibitor-id-token';
    for (const [size, isKept] of [
      [1_900, true],
      [1_900, true],
      [2_500, false],
    ] as const) {
      cookies.set(idToken, 'x'.repeat(size));
      const { last } = await begin(at, 1, LARGE);
      expect([cookies.has(idToken), pendingLogins(at.visitor, at.site).length]).toEqual([isKept, 1]);
      await (isKept ? undefined : expectFinished(at.visitor, last));
    }
  });

  it('hold six ordinary logins', async () => {
    const at = browserAt(behindTls, true);
    const ordinary = { eventId: 'world-2026', returnTo: '/events/world-2026/mine' };
    const { arrivals } = await begin(at, 6, ordinary);
    expect(pendingLogins(at.visitor, at.site)).toHaveLength(6);
    for (const arrival of arrivals) {
      await expectFinished(at.visitor, arrival);
    }
  });

  it('count what is in the browser already, also where it does not open', async () => {
    const at = browserAt(behindTls, true);
    for (const digit of ['0', '9', 'f']) {
      cookiesOf(at.visitor, at.site).set(`__Host-exhibitor-login-${digit}`, 'x'.repeat(3_000));
    }
    const { last } = await begin(at, 1);
    expect(pendingLogins(at.visitor, at.site)).toHaveLength(1);
    await expectFinished(at.visitor, last);
  });
});

describe('cookies that a neighbour has set', () => {
  it('with thousands of names hinder no login, and none is removed', async () => {
    const cookie = Array.from({ length: 545 }, (_, index) => `__Host-exhibitor-login-${index}=`).join('; ');
    expect(cookie.length).toBeGreaterThan(15_000);
    const { site, visitor } = browserAt(behindTls, true);
    const started = await visitor.visit(`${site.url}/auth/login`, { headers: { cookie } });
    expect([started.status, started.setCookies.length]).toEqual([302, 1]);
  });

  it('for a parent domain end no login of another tab, and are not counted', async () => {
    const at = browserAt(behindTls, true);
    const { last } = await begin(at, 1);
    for (let digit = 0; digit < 6; digit += 1) {
      cookiesOf(at.visitor, at.site).set(`exhibitor-login-${digit}`, 'x'.repeat(1_200));
    }
    expect((await at.visitor.visit(`${at.site.url}/auth/login`)).setCookies).toHaveLength(1);
    await expectFinished(at.visitor, last);
  });
});

describe('tabs that start a login at the same moment', () => {
  /** Logins of one browser, whose requests carry no cookie yet. Answers the replies of their callbacks. */
  async function finishAll(chances: readonly number[]): Promise<{ pending: string[]; statuses: number[] }> {
    const [visitor, left] = [new Visitor(), [...chances]];
    const clock = host.app.get(Clock, { strict: false });
    const random = jest.spyOn(clock, 'random').mockImplementation(() => left.shift() ?? 0);
    const tabs = await Promise.all(chances.map(() => arrive(host)));
    random.mockRestore();
    for (const tab of tabs) {
      tab.visitor.cookies().forEach((value, name) => visitor.cookies().set(name, value));
    }
    const pending = pendingLogins(visitor, host).map((name) => name.slice(-1));
    const statuses: number[] = [];
    for (const { arrival } of tabs) {
      statuses.push((await toHost(visitor, arrival)).status);
    }
    return { pending: pending.toSorted(), statuses: statuses.toSorted() };
  }

  it('all end well', async () => {
    expect(await finishAll([0, 0.1, 0.2, 0.5, 0.99])).toEqual({
      pending: ['0', '1', '3', '8', 'f'],
      statuses: [303, 303, 303, 303, 303],
    });
  });

  it('may get the same cookie: then the later one replaces the other, which is refused by state', async () => {
    expect(await finishAll([0.3, 0.3])).toEqual({ pending: ['4'], statuses: [303, 401] });
  });

  it('get a cookie of their own where the browser has others, and any where it has all', async () => {
    const visitor = new Visitor();
    Array.from('012345689abcdef', (digit) => visitor.cookies().set(`exhibitor-login-${digit}`, 'x'));
    expect((await toProvider(visitor, host)).parameters.get('state')?.[0]).toBe('7');
    await enter(host, undefined, visitor);
  });
});

describe('the event of a login', () => {
  it.each([
    ['129 bytes', 'x'.repeat(129)],
    ['33 characters of 4 bytes', '😀'.repeat(33)],
    ['a line feed', 'a\nb'],
    ['..', '..'],
    ['an empty segment', 'world//2026'],
  ])('is no event id with %s: 400, and nothing is sent or kept', async (_, eventId) => {
    const seen = provider.seen.length;
    const reply = await new Visitor().visit(`${host.url}/auth/login${queryOf({ eventId })}`);
    expectError(reply, 400, 'invalid_argument');
    expect([reply.location, reply.setCookies, provider.seen.length]).toEqual([undefined, [], seen]);
  });

  it.each(['x'.repeat(128), '😀'.repeat(32), ' ', '"<>"'])('may be %j', async (eventId) => {
    expect(await identityOf(await enter(host, queryOf({ eventId })), host)).toMatchObject({ eventId });
  });
});
