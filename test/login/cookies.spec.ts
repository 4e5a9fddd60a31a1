import { beforeAll, describe, expect, it } from '@jest/globals';
import { decodeProtectedHeader } from 'jose';
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
  loginCookies,
  toHost,
  toProvider,
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

/** Cookies that a reply sets, with their attributes as sent. */
function attributesIn(reply: Reply): Record<string, string> {
  return Object.fromEntries(
    reply.setCookies.map((header) => {
      const [pair = '', ...attributes] = header.split('; ');
      const name = pair.slice(0, pair.indexOf('=')).replace(/-login-[\w-]{8}$/, '-login-…');
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
    expect(attributesIn(started)).toEqual({ [`${prefix}exhibitor-login-…`]: headed(3_600, login) });
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
    await toHost(visitor, arrival);
    const sealed = [arrival.parameters.get('state') ?? '', visitor.cookies().get('exhibitor-identity') ?? ''];
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
    const swapped = copyOf(visitor, host);
    swapped.cookies().set('exhibitor-identity', arrival.parameters.get('state') ?? '');
    expect(await isLoggedIn(swapped, host)).toBe(false);
    expect((await toHost(visitor, arrival)).status).toBe(303);
    const state = visitor.cookies().get('exhibitor-identity') ?? '';
    const parameters = new URLSearchParams({ code: 'any', state });
    expectRefusal(await toHost(swapped, { ...arrival, parameters }), 'state');
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
      expect(loginCookies(victim, site)).toEqual([expect.stringMatching(/^exhibitor-login-/)]);
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
    const visitor = new Visitor();
    const sealed = (await enter(host, undefined, visitor)).cookies().get('exhibitor-identity') ?? '';
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
        ...loginCookies(stranger, host),
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

  it('keeps started logins and identities until the old secret is removed', async () => {
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

describe('cookies that a neighbour has set', () => {
  it('with thousands of names hinder no login, and none is removed', async () => {
    const cookie = Array.from({ length: 545 }, (_, index) => `__Host-exhibitor-login-${index}=`).join('; ');
    expect(cookie.length).toBeGreaterThan(15_000);
    const { site, visitor } = browserAt(behindTls, true);
    const started = await visitor.visit(`${site.url}/auth/login`, { headers: { cookie } });
    expect([started.status, started.setCookies.length]).toEqual([302, 1]);
  });
});

describe('the event of a login', () => {
  it.each(['x'.repeat(129), '..'])(
    'is no event id with %s: 400, and nothing is sent or kept',
    async (eventId) => {
      const seen = provider.seen.length;
      const reply = await new Visitor().visit(`${host.url}/auth/login?${new URLSearchParams({ eventId })}`);
      expectError(reply, 400, 'invalid_argument');
      expect([reply.location, reply.setCookies, provider.seen.length]).toEqual([undefined, [], seen]);
    },
  );

  it.each(['😀'.repeat(32), '"<>"'])('may be %j', async (eventId) => {
    expect(await identityOf(await enter(host, `?${new URLSearchParams({ eventId })}`), host)).toMatchObject({
      eventId,
    });
  });
});
