import { afterAll, afterEach, beforeAll, describe, expect, it } from '@jest/globals';
import { parseSetCookie } from 'cookie';
import { decodeProtectedHeader } from 'jose';
import { leaksOf } from '../setup/leaks.js';
import { ScriptedProvider, type LoginOverrides } from '../support/provider.js';
import { COOKIE_SECRET, startHost, type Host, type HostKind } from '../support/host.js';
import { Visitor, type Reply } from '../support/visitor.js';
import { copyOf, expectRefusal, identityOf, pendingLogins, toHost, toProvider } from './journey.js';
import { clockOf } from '../support/clock.js';
import type { OtherOptions } from '../support/module-options.js';

const HTTPS = 'https://host.example.com';
const KINDS: readonly HostKind[] = ['express', 'fastify'];

let provider: ScriptedProvider;
const hosts: Host[] = [];
beforeAll(async () => {
  provider = await ScriptedProvider.start();
});
afterEach(async () => {
  provider.script = {};
  await Promise.all(hosts.splice(0).map((host) => host?.close()));
});
afterAll(() => provider?.stop());

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

describe.each(KINDS)('the sealed cookies on %s', (kind) => {
  async function start(login: LoginOverrides = {}, options: OtherOptions = {}): Promise<Host> {
    const host = await startHost({
      kind,
      options: (callback) => ({
        tenant: provider.tenantOptions(callback, login),
        secrets: [COOKIE_SECRET],
        ...options,
      }),
    });
    hosts.push(host);
    return host;
  }

  /** A host with a public https address, as behind a proxy that terminates TLS. */
  async function startBehindTls(
    login: LoginOverrides = {},
  ): Promise<{ site: { url: string }; visitor: () => Visitor }> {
    const host = await start({ redirectUri: `${HTTPS}/auth/callback`, ...login });
    return { site: { url: HTTPS }, visitor: () => new Visitor({ [HTTPS]: host.url }) };
  }

  it('are host-only, http-only and Lax on plain http (loopback only)', async () => {
    const host = await start();
    const visitor = new Visitor();
    const started = await visitor.visit(`${host.url}/auth/login`);
    expect(attributesIn(started)).toEqual({
      'exhibitor-login-…': 'HttpOnly; Max-Age=600; Path=/; SameSite=Lax',
    });
    const finished = await toHost(visitor, await toProvider(visitor, host));
    expect(attributesIn(finished)).toEqual({
      'exhibitor-login-…': 'HttpOnly; Max-Age=0; Path=/; SameSite=Lax',
      'exhibitor-identity': 'HttpOnly; Max-Age=28800; Path=/; SameSite=Lax',
    });
  });

  it('are Secure and carry the __Host- prefix where the callback is https', async () => {
    const { site, visitor: arrive } = await startBehindTls();
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
    const { site, visitor: arrive } = await startBehindTls({ responseType: 'code token id_token' });
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
    const host = await start({ responseType: 'code id_token' });
    const started = await new Visitor().visit(`${host.url}/auth/login`);
    expect(attributesIn(started)).toEqual({
      'exhibitor-login-…': 'HttpOnly; Max-Age=600; Path=/; SameSite=None; Secure',
    });
    const visitor = new Visitor();
    const finished = await toHost(visitor, await toProvider(visitor, host));
    expect(finished.status).toBe(303);
    expect(attributesIn(finished)).toEqual({
      'exhibitor-login-…': 'HttpOnly; Max-Age=0; Path=/; SameSite=None; Secure',
      'exhibitor-identity': 'HttpOnly; Max-Age=28800; Path=/; SameSite=Lax',
    });
  });

  it('live as long as the options set', async () => {
    const host = await start(
      {},
      { cookies: { loginTtl: 90_000, identityTtl: 3_600_000, sameSite: 'strict' } },
    );
    const visitor = new Visitor();
    const arrival = await toProvider(visitor, host);
    const finished = await toHost(visitor, arrival);
    expect(attributesIn(finished)['exhibitor-identity']).toBe(
      'HttpOnly; Max-Age=3600; Path=/; SameSite=Strict',
    );
    const clock = clockOf(host.app);
    clock.skip(3_599_000);
    const reply = await visitor.visit(`${host.url}/me`);
    expect([reply.status, reply.setCookies]).toEqual([200, []]);
    clock.skip(2_000);
    // Also where the cookie is kept beyond its Max-Age.
    expect(await identityOf(visitor, host)).toBeUndefined();
  });

  it('are JWE with a key for each purpose, and show nothing', async () => {
    const host = await start();
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
    const host = await start();
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
    const host = await start();
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
      const { site, visitor: arrive } = await startBehindTls({ responseType });
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
    const host = await start();
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

  it('of the host itself are not changed', async () => {
    const host = await start();
    const visitor = new Visitor();
    visitor.cookies('127.0.0.1').set('exhibitor-identity-card', 'of the host');
    visitor.cookies('127.0.0.1').set('theme', 'dark');
    await toHost(visitor, await toProvider(visitor, host));
    await visitor.visit(`${host.url}/auth/logout`, { method: 'POST' });
    expect([...visitor.cookies('127.0.0.1').keys()].toSorted()).toEqual(['exhibitor-identity-card', 'theme']);
  });

  describe('for an identity that is too large', () => {
    const BIG = 'x'.repeat(5_000);
    const warnings: string[] = [];

    async function logInWith(
      claims: Record<string, unknown>,
      login?: LoginOverrides,
    ): Promise<{ host: Host; visitor: Visitor; reply: Reply }> {
      const host = await start(login);
      warnings.length = 0;
      host.app.useLogger({
        log: () => undefined,
        error: () => undefined,
        warn: (line: string) => warnings.push(line),
      });
      provider.script = { backToken: { claims: (all) => void Object.assign(all, claims) } };
      const visitor = new Visitor();
      const reply = await toHost(visitor, await toProvider(visitor, host));
      return { host, visitor, reply };
    }

    const longest = ({ setCookies }: Reply): number => Math.max(...setCookies.map((cookie) => cookie.length));

    it('keep what the guards need, and one warning names what was dropped', async () => {
      const { host, visitor, reply } = await logInWith({ biography: BIG, nickname: 'Patty' });
      expect(reply.status).toBe(303);
      expect(longest(reply)).toBeLessThanOrEqual(4_096);
      expect(await identityOf(visitor, host)).toMatchObject({
        subject: 'pat',
        email: 'pat@example.com',
        claims: {},
      });
      const again = new Visitor();
      await toHost(again, await toProvider(again, host));
      expect(warnings).toHaveLength(1);
      expect(warnings[0]).toMatch(/login\.keepClaims.*biography.*nickname/s);
      expect(warnings[0]).not.toContain('Patty');
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
      const [warning = ''] = warnings;
      expect(warnings).toHaveLength(1);
      expect(warning).toMatch(/login\.keepClaims.*first FORGED.*group of \[removed\]/);
      expect(warning).toMatch(/^[^\p{C}\p{Zl}\p{Zp}]*$/u);
      expect(warning.length).toBeLessThan(1_500);
      expect(leaksOf(warning)).toEqual([]);
    });

    it('keep the claims of the option keepClaims', async () => {
      const { host, visitor } = await logInWith(
        { biography: BIG, nickname: 'Patty' },
        { keepClaims: ['nickname'] },
      );
      expect((await identityOf(visitor, host))?.claims).toEqual({
        nickname: 'Patty',
        auth_time: expect.any(Number),
      });
      expect(warnings).toEqual([]);
    });

    it('keep all claims where they fit', async () => {
      const { host, visitor } = await logInWith({ nickname: 'Patty', groups: ['a', 'b'] });
      expect((await identityOf(visitor, host))?.claims).toMatchObject({
        nickname: 'Patty',
        groups: ['a', 'b'],
      });
      expect(warnings).toEqual([]);
    });

    it('refuse the login where the subject is too long', async () => {
      const { host, visitor, reply } = await logInWith({ sub: BIG });
      expectRefusal(reply, 'provider');
      expect(await identityOf(visitor, host)).toBeUndefined();
    });
  });

  it('are serialized so that a cookie parser reads the same value', async () => {
    const host = await start();
    const reply = await new Visitor().visit(`${host.url}/auth/login`);
    for (const header of reply.setCookies) {
      const { name, value } = parseSetCookie(header);
      expect(`${name}=${value}`).toMatch(/^[\w-]+=[\w.-]+$/);
    }
  });
});
