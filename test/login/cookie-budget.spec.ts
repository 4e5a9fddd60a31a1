import { afterAll, afterEach, beforeAll, describe, expect, it, jest } from '@jest/globals';
import { cookieNames, fitCookies, receivedCookies } from '../../lib/http/cookies.js';
import { HttpContext } from '../../lib/http/http-context.js';
import { Clock } from '../../lib/time/clock.js';
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

const SILENT = {
  setHeader: () => undefined,
  appendHeader: () => undefined,
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
      const { site, visitor } = arrive(address);
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

  it.each(WORST)('stay in it beside the largest identity with logins of %s', async (_, eventId, returnTo) => {
    const { site, visitor } = arrive(address);
    await logInAtMost(visitor, site);
    const arrivals = await begin(visitor, site, 4, { eventId, returnTo });
    expect(await identityOf(visitor, site)).toMatchObject({ subject: 'pat' });
    const newest = arrivals.at(-1);
    expect(newest && (await toHost(visitor, newest)).status).toBe(303);
  });

  it('stay in it when the identity arrives last: the other logins go', async () => {
    const { site, visitor } = arrive(address);
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
    const { site, visitor } = arrive(address);
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
    const { site, visitor } = arrive('https');
    const started = await visitor.visit(`${site.url}/auth/login`, { headers: { cookie: made } });
    expect(started.status).toBe(302);
    expect(started.setCookies).toHaveLength(1);

    const names = cookieNames('exhibitor');
    const attributes = { secure: true, sameSite: 'lax' } as const;
    const took = Array.from({ length: 20 }, () => {
      const http = new HttpContext(requestWith(made), undefined, { ...SILENT });
      const began = performance.now();
      receivedCookies(http, names.identity);
      fitCookies(http, names, attributes);
      return performance.now() - began;
    });
    expect(Math.min(...took)).toBeLessThan(1);
  });

  it('for a parent domain end no login of another tab, and are not counted', async () => {
    const { site, visitor } = arrive('https');
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
