import { afterAll, afterEach, beforeAll, describe, expect, it } from '@jest/globals';
import { setTimeout as sleep } from 'node:timers/promises';
import { parseSetCookie } from 'cookie';
import { clockOf } from '../support/clock.js';
import { COOKIE_SECRET, startHost, type Host } from '../support/host.js';
import { ScriptedProvider } from '../support/provider.js';
import { Visitor } from '../support/visitor.js';
import {
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
const ADDRESSES = ['http', 'https'] as const;
const HOUR = 3_600_000;

/** The largest values of a login: what JSON escapes, what UTF-8 makes longer, and both. */
const WORST: readonly [what: string, eventId: string, returnTo: string][] = [
  ['quotation marks', '"'.repeat(128), `/${'"'.repeat(511)}`],
  ['characters of 4 bytes', '😀'.repeat(32), `/${'😀'.repeat(127)}`],
  ['characters of 3 bytes', `${'展'.repeat(42)}x`, `/?${'展'.repeat(170)}`],
];

let provider: ScriptedProvider;
let host: Host;
let behindTls: Host;
beforeAll(async () => {
  provider = await ScriptedProvider.start();
  const start = (redirectUri?: string): Promise<Host> =>
    startHost({
      options: (callback) => ({
        tenant: provider.tenantOptions(redirectUri ?? callback),
        secrets: [COOKIE_SECRET],
        cookies: { absoluteTtl: 24 * HOUR },
      }),
    });
  host = await start();
  behindTls = await start(`${SITE}/auth/callback`);
});
afterEach(() => {
  provider.script = {};
});
afterAll(async () => {
  await Promise.all([host?.close(), behindTls?.close()]);
  await provider?.stop();
});

function arrive(address: (typeof ADDRESSES)[number]): { site: { url: string }; visitor: Visitor } {
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
    expect(bytesOf(visitor, site, 'exhibitor-login-')).toBeLessThan(6_000);
    expect(bytesOf(visitor, site)).toBeLessThan(7_500);
    await sleep(2);
  }
  return arrivals;
}

/** An identity whose cookie is as large as it may be. */
async function logInAtMost(visitor: Visitor, site: { url: string }): Promise<void> {
  provider.script = { backToken: { claims: (claims) => void (claims['biography'] = 'x'.repeat(2_295)) } };
  expect((await logIn(visitor, site)).status).toBe(303);
  provider.script = {};
  expect(bytesOf(visitor, site, 'exhibitor-identity')).toBeGreaterThan(3_750);
}

describe.each(ADDRESSES)('the cookies of a browser by %s', (address) => {
  it.each(WORST)(
    'stay in the budget with logins of %s, and the newest is kept',
    async (_, eventId, returnTo) => {
      const { site, visitor } = arrive(address);
      const arrivals = await begin(visitor, site, 6, { eventId, returnTo });
      const kept = pendingLogins(visitor, site).length;
      expect(kept).toBeGreaterThanOrEqual(2);
      const [oldest, newest] = [arrivals[0], arrivals.at(-1)];
      if (kept < 6 && oldest !== undefined) {
        expectRefusal(await toHost(visitor, oldest), 'state');
      }
      expect(newest && (await toHost(visitor, newest)).status).toBe(303);
      expect(await identityOf(visitor, site)).toMatchObject({ subject: 'pat', eventId });
    },
  );

  it.each(WORST)('stay in it beside the largest identity with logins of %s', async (_, eventId, returnTo) => {
    const { site, visitor } = arrive(address);
    await logInAtMost(visitor, site);
    const arrivals = await begin(visitor, site, 4, { eventId, returnTo });
    expect(await identityOf(visitor, site)).toMatchObject({ subject: 'pat' });
    const newest = arrivals.at(-1);
    expect(newest && (await toHost(visitor, newest)).status).toBe(303);
  });

  it('stay in it when the identity arrives last', async () => {
    const { site, visitor } = arrive(address);
    const [eventId, returnTo] = ['"'.repeat(128), `/${'"'.repeat(300)}`];
    const arrivals = await begin(visitor, site, 6, { eventId, returnTo });
    const [newest, next] = arrivals.toReversed();
    provider.script = { backToken: { claims: (claims) => void (claims['biography'] = 'x'.repeat(2_295)) } };
    expect(newest && (await toHost(visitor, newest)).status).toBe(303);
    expect(bytesOf(visitor, site)).toBeGreaterThan(3_750);
    expect(bytesOf(visitor, site)).toBeLessThan(7_500);
    // The newest of the others is still there.
    expect(next && (await toHost(visitor, next)).status).toBe(303);
  });

  it('stay in it when the identity is extended: the ID token goes, not the newest login', async () => {
    const { site, visitor } = arrive(address);
    const [clock, prefix] =
      address === 'http' ? [clockOf(host.app), ''] : [clockOf(behindTls.app), '__Host-'];
    const cookies = visitor.cookies(new URL(site.url).hostname);
    await logInAtMost(visitor, site);
    const [arrival] = await begin(visitor, site, 1);
    const idToken = `${prefix}exhibitor-id-token`;
    cookies.set(idToken, 'x'.repeat(7_450 - bytesOf(visitor, site)));
    clock.skip(5 * HOUR);
    const reply = await visitor.visit(`${site.url}/me`);
    clock.back();
    const names = reply.setCookies.map((cookie) => parseSetCookie(cookie).name);
    expect(names).toEqual([`${prefix}exhibitor-identity-extension`, idToken]);
    expect(cookies.has(idToken)).toBe(false);
    expect(bytesOf(visitor, site)).toBeLessThan(7_500);
    expect(arrival && (await toHost(visitor, arrival)).status).toBe(303);
  });

  it('hold six ordinary logins', async () => {
    const { site, visitor } = arrive(address);
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
    const { site, visitor } = arrive(address);
    const prefix = address === 'https' ? '__Host-' : '';
    const cookies = visitor.cookies(new URL(site.url).hostname);
    for (const tab of ['a', 'b', 'c']) {
      cookies.set(`${prefix}exhibitor-login-0000000${tab}-${tab.repeat(22)}`, 'x'.repeat(3_000));
    }
    const [arrival] = await begin(visitor, site, 1);
    expect(arrival && (await toHost(visitor, arrival)).status).toBe(303);
  });

  it('keep the newest login when the clock goes back', async () => {
    const { site, visitor } = arrive(address);
    const cookies = visitor.cookies(new URL(site.url).hostname);
    const later = (Date.now() + 3_600_000).toString(36);
    const prefix = address === 'https' ? '__Host-' : '';
    for (const tab of ['a', 'b', 'c', 'd', 'e', 'f']) {
      cookies.set(`${prefix}exhibitor-login-${later}-${tab.repeat(22)}`, 'x'.repeat(900));
    }
    const [arrival] = await begin(visitor, site, 1);
    expect(arrival && (await toHost(visitor, arrival)).status).toBe(303);
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

  it.each(['x'.repeat(128), '😀'.repeat(32), ' ', '"<>\\"'])('may be %j', async (eventId) => {
    const visitor = new Visitor();
    expect((await logIn(visitor, host, queryOf({ eventId }))).status).toBe(303);
    expect(await identityOf(visitor, host)).toMatchObject({ eventId });
  });
});
