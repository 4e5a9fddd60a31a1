/** The started login in `state`, and the cookie that proves its browser. */
import { beforeAll, describe, expect, it } from '@jest/globals';
import { Sealer } from '../../lib/store/sealer.service.js';
import { clockOf } from '../support/clock.js';
import type { Host, HostKind } from '../support/host.js';
import { loggedLines } from '../support/logged-lines.js';
import type { ScriptedProvider } from '../support/provider.js';
import { Visitor } from '../support/visitor.js';
import type { Flow } from './flows.js';
import { withProvider } from './hosts.js';
import {
  arrive,
  copyOf,
  enter,
  expectRefusal,
  identityOf,
  isLoggedIn,
  loginCookies,
  toHost,
  toProvider,
  type Arrival,
  type Start,
} from './journey.js';

let provider: ScriptedProvider;
let other: ScriptedProvider;
const start = withProvider((first, second) => ([provider, other] = [first, second]));
const { warnings } = loggedLines();

const MAX_STATE = 1_024;
const stateOf = ({ parameters }: Arrival): string => parameters.get('state') ?? '';
const queryOf = (values: Record<string, string>): string => `?${new URLSearchParams(values)}`;
const withState = (arrival: Arrival, state: string): Arrival => {
  const parameters = new URLSearchParams(arrival.parameters);
  parameters.set('state', state);
  return { ...arrival, parameters };
};

/** Logins of one browser that begin in one instant, so that no request carries the cookie of another. */
const beginAtOnce = (visitor: Visitor, sites: readonly Start[]): Promise<Arrival[]> =>
  Promise.all(sites.map((site, tab) => toProvider(visitor, site, `?returnTo=/tab-${tab}`)));

async function expectAllEndWell(visitor: Visitor, arrivals: readonly Arrival[]): Promise<void> {
  for (const [tab, arrival] of arrivals.entries()) {
    const { status, location } = await toHost(visitor, arrival);
    expect([tab, status, new URL(location ?? '').pathname]).toEqual([tab, 303, `/tab-${tab}`]);
  }
}

describe('twenty tabs of one browser that begin in one instant all end well', () => {
  it.each<[HostKind, Flow]>([
    ['express', 'code'],
    ['fastify', 'code token id_token'],
    ['express + express-session', 'code id_token'],
    ['fastify + @fastify/session', 'code'],
  ])('on %s by %s', async (kind, responseType) => {
    const host = await start({ kind, login: { responseType } });
    const visitor = new Visitor();
    const arrivals = await beginAtOnce(visitor, Array<Host>(20).fill(host));
    expect(new Set(loginCookies(visitor, host)).size).toBe(20);
    await expectAllEndWell(visitor, arrivals);
    expect([await isLoggedIn(visitor, host), loginCookies(visitor, host)]).toEqual([true, []]);
  });

  it('on fastify, at two tenants by path', async () => {
    const host = await start({ kind: 'fastify', routes: 'portals/:tenant/auth' }, (_callback, url) => ({
      tenants: {
        one: provider.tenantOptions(`${url}/portals/one/auth/callback`),
        two: other.tenantOptions(`${url}/portals/two/auth/callback`, { responseType: 'code id_token' }),
      },
      resolveTenant: ({ params }) => params?.['tenant'],
    }));
    const visitor = new Visitor();
    const sites = ['one', 'two'].map((key) => ({ url: `${host.url}/portals/${key}` }));
    await expectAllEndWell(visitor, await beginAtOnce(visitor, Array(10).fill(sites).flat()));
  });
});

describe('logins that begin one after another', () => {
  it.each([
    ['express', false],
    ['fastify', true],
  ] as const)('all end well, twelve of them, on %s, https: %p', async (kind, isHttps) => {
    const own = await start({ kind, ...(isHttps && { redirectUri: 'https://host.example/auth/callback' }) });
    const url = isHttps ? 'https://host.example' : own.url;
    const visitor = new Visitor({ 'https://host.example': own.url });
    // Cookies with the other prefix are none of ours: a sibling domain may have set them. So are those of other names.
    const { hostname } = new URL(url);
    const strange = Array.from(
      { length: 20 },
      (_, at) => `${isHttps ? '' : '__Host-'}exhibitor-login-sib-${1_000 + at}`,
    );
    strange.push(
      ...Array.from({ length: 20 }, (_, at) => `${isHttps ? '__Host-' : ''}exhibitor-login-${at}`),
    );
    // Those of another service with the name `exhibitor-login`.
    strange.push(
      ...['identity', 'id-token'].map((name) => `${isHttps ? '__Host-' : ''}exhibitor-login-${name}`),
    );
    strange.forEach((name) => visitor.cookies(hostname).set(name, 'x'));
    const arrivals: Arrival[] = [];
    const counts: number[] = [];
    for (let tab = 0; tab < 29; tab++) {
      arrivals.push(await toProvider(visitor, { url }, `?returnTo=/tab-${tab}`));
      counts.push(loginCookies(visitor, { url }).length - strange.length);
    }
    // With 16, the four oldest go.
    expect(counts).toEqual(Array.from({ length: 29 }, (_, at) => (at < 16 ? at + 1 : 13 + (at % 4))));
    expect(strange.filter((name) => !visitor.cookies(hostname).has(name))).toEqual([]);
    for (const [at, arrival] of arrivals.entries()) {
      const { status } = await toHost(visitor, arrival);
      expect([at, status]).toEqual([at, at < 16 ? 401 : 303]);
    }
  });
});

describe('the lengths of a state', () => {
  const LONG_KEY = 'k'.repeat(128);
  const QUOTES = '"'.repeat(128);
  let host: Host;
  beforeAll(async () => {
    host = await start({}, (callback) => {
      const options = provider.tenantOptions(callback, {
        responseType: 'code token id_token',
        maxAge: 31_536_000,
      });
      const code = provider.tenantOptions(callback);
      return { tenants: { acme: code, [LONG_KEY]: options, [QUOTES]: options } };
    });
  });

  const path = (length: number, character = 'x'): string => `/${character.repeat(length - 1)}`;
  type Row = [
    what: string,
    tenant: string,
    eventId: string,
    returnTo: string,
    isAgain: boolean,
    kept: 'all' | 'former' | 'none',
  ];
  it.each<Row>([
    ['nothing more', 'acme', '', '', false, 'all'],
    ['an event and a page', 'acme', 'world-2026', '/events/world-2026/mine', false, 'all'],
    [
      'a GUID, a page with a query, logged in',
      'acme',
      '0f8fad5b-d9cb-469f-a165-70867728950e',
      `/events/x?${'page=2&'.repeat(12)}`,
      true,
      'all',
    ],
    ['a page of 320 bytes', 'acme', 'world-2026', path(320), false, 'all'],
    ['a page of 512 bytes', 'acme', 'world-2026', path(512), false, 'former'],
    ['a page of 512 bytes, logged in', 'acme', 'world-2026', path(512), true, 'former'],
    ['an event of 128 bytes, a page of 200', 'acme', 'e'.repeat(128), path(200), false, 'all'],
    ['an event of 128 quotation marks', 'acme', QUOTES, path(512, '"'), true, 'former'],
    ['a key and an event of 128 bytes', LONG_KEY, '展'.repeat(42), path(512), false, 'former'],
    ['a key and an event of 128 bytes, logged in', LONG_KEY, 'e'.repeat(128), path(512), true, 'former'],
    ['a key and an event of quotation marks, logged in', LONG_KEY, QUOTES, path(512), true, 'none'],
  ])('with %s is 1,024 at most', async (_, tenant, eventId, returnTo, isAgain, kept) => {
    const visitor = isAgain ? await enter(host, queryOf({ tenant })) : new Visitor();
    warnings.length = 0;
    clockOf(host.app).skip(61_000, ['now']);
    const query = queryOf({ tenant, ...(eventId && { eventId }), ...(returnTo && { returnTo }) });
    const arrival = await toProvider(visitor, host, query);
    const state = stateOf(arrival);
    expect(state.length).toBeLessThanOrEqual(MAX_STATE);
    const value = Object(await host.app.get(Sealer).open('login', state));
    expect([value.returnTo, value.former.length]).toEqual([
      kept === 'all' ? returnTo || undefined : undefined,
      isAgain && kept !== 'none' ? 1 : 0,
    ]);
    const dropped = kept === 'none' ? 'returnTo and the identities that it replaces' : 'returnTo';
    expect(warnings).toEqual(
      kept === 'all'
        ? []
        : [expect.stringContaining(`a login is started without ${dropped}: its state would be`)],
    );
    expect((await toHost(visitor, arrival)).status).toBe(303);
    expect(await identityOf(visitor, host)).toMatchObject({ tenant, ...(eventId && { eventId }) });
  });

  it('is never more: 400 where JSON escapes key and event', async () => {
    const reply = await new Visitor().visit(
      `${host.url}/auth/login${queryOf({ tenant: QUOTES, eventId: QUOTES })}`,
    );
    expect([reply.status, reply.setCookies]).toEqual([400, []]);
  });
});

describe.each([
  ['express', 'code'],
  ['fastify', 'code token id_token'],
] as const)('a state on %s by %s', (kind, responseType) => {
  let host: Host;
  beforeAll(async () => {
    host = await start({ kind, login: { responseType } });
  });

  it('shows nothing of the login, and its cookie is a proof of 256 bits', async () => {
    const { visitor, arrival } = await arrive(host, '?eventId=secret-event&returnTo=/secret-page');
    const [name = ''] = loginCookies(visitor, host);
    expect([name, visitor.cookies().get(name)]).toEqual([
      expect.stringMatching(/^exhibitor-login-[\w-]{8}$/),
      expect.stringMatching(/^[\w-]{43}$/),
    ]);
    const value = Object(await host.app.get(Sealer).open('login', stateOf(arrival)));
    const { nonce = '', code_challenge = '' } = Object.fromEntries(provider.last('/connect/authorize').query);
    await toHost(visitor, arrival);
    const verifier = provider.last('/connect/token').form.get('code_verifier') ?? '';
    expect([nonce, code_challenge, verifier]).toEqual(Array(3).fill(expect.stringMatching(/^[\w-]{43}$/)));
    expect(new Set([nonce, verifier, visitor.cookies().get(name), value.id, value.proof]).size).toBe(5);
    for (const secret of [nonce, verifier]) {
      expect(JSON.stringify(value)).not.toContain(secret);
    }
  });

  it('with a byte changed opens nothing, and leaves its login usable', async () => {
    const { visitor, arrival } = await arrive(host, '?returnTo=/tab-0');
    const parts = stateOf(arrival).split('.');
    expect(parts.map((part) => part.length > 0)).toEqual([true, false, true, true, true]);
    warnings.length = 0;
    for (const [at, part] of parts.entries()) {
      const bytes = Buffer.from(part, 'base64url');
      // Each takes a request.
      for (let index = 0; index < bytes.length; index += 5) {
        const changed = Buffer.from(bytes);
        changed.writeUInt8(changed.readUInt8(index) ^ (1 << (index % 8)), index);
        const state = parts.with(at, changed.toString('base64url')).join('.');
        const { status, setCookies } = await toHost(visitor, withState(arrival, state));
        expect([at, index, status, setCookies]).toEqual([at, index, 401, []]);
      }
    }
    expect(warnings).toEqual([]);
    await expectAllEndWell(visitor, [arrival]);
  });

  it('in another spelling of its bytes is the same login, and is spent with it', async () => {
    const ALPHABET = 'ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_';
    for (const isFirst of [true, false]) {
      const { visitor, arrival } = await arrive(host);
      const state = stateOf(arrival);
      // A tag of 16 bytes leaves 4 bits of its last character over.
      const last = ALPHABET.indexOf(state.slice(-1));
      const otherwise = withState(arrival, state.slice(0, -1) + ALPHABET[last + 1]);
      const [one, two] = isFirst ? [otherwise, arrival] : [arrival, otherwise];
      const copy = copyOf(visitor, host);
      expect((await toHost(visitor, one)).status).toBe(303);
      expectRefusal(await toHost(copy, two), 'state');
    }
  });

  it.each(['identity', 'id-token', 'store'] as const)('is none where it is sealed as %s', async (purpose) => {
    const { visitor, arrival } = await arrive(host, '?returnTo=/tab-0');
    const sealer = host.app.get(Sealer);
    const value = await sealer.open('login', stateOf(arrival));
    expectRefusal(
      await toHost(visitor, withState(arrival, await sealer.seal(purpose, value, 60_000))),
      'state',
    );
    await expectAllEndWell(visitor, [arrival]);
  });

  it('of another host is refused, also with the same secrets and in the same browser, and can be finished there', async () => {
    const { visitor, arrival } = await arrive(host, '?returnTo=/tab-0');
    const sibling = await start({ kind, login: { responseType } });
    const stranger = await start({
      kind,
      login: { responseType },
      secrets: ['the secret of quite another host, 32+ characters'],
    });
    for (const { callback } of [sibling, stranger]) {
      const reply = await toHost(visitor, { ...arrival, callback });
      expectRefusal(reply, 'state');
      expect(reply.setCookies).toEqual([]);
    }
    await expectAllEndWell(visitor, [arrival]);
  });

  it('is refused with a proof of another login, none, or one that is changed', async () => {
    const { visitor, arrival } = await arrive(host, '?returnTo=/tab-0');
    const [name = ''] = loginCookies(visitor, host);
    const proof = visitor.cookies().get(name) ?? '';
    const { visitor: stranger } = await arrive(host);
    const [strange = ''] = loginCookies(stranger, host).map((each) => stranger.cookies().get(each));
    const spelled = `${proof.slice(0, -1)}${proof.endsWith('A') ? 'B' : 'A'}`;
    for (const value of [
      strange,
      '',
      'x',
      `${proof}x`,
      proof.toLowerCase(),
      spelled,
      `"${proof}"`,
      'x'.repeat(4_000),
    ]) {
      visitor.cookies().set(name, value);
      expectRefusal(await toHost(visitor, arrival), 'state');
    }
    // With `__Host-`, which a host on http never sets.
    visitor.cookies().delete(name);
    visitor.cookies().set(`__Host-${name}`, proof);
    expectRefusal(await toHost(visitor, arrival), 'state');
    visitor.cookies().set(name, proof);
    await expectAllEndWell(visitor, [arrival]);
  });
});

it('the state of a login is that of its own tenant: responses of two providers are not exchanged', async () => {
  const host = await start({}, (callback) => ({
    tenants: { one: provider.tenantOptions(callback), two: other.tenantOptions(callback) },
  }));
  const { visitor, arrival: one } = await arrive(host, '?tenant=one');
  const two = await toProvider(visitor, host, '?tenant=two');
  const asked = provider.count('/connect/token');
  expectRefusal(await toHost(visitor, withState(two, stateOf(one))), 'issuer');
  expect(provider.count('/connect/token')).toBe(asked);
  expect((await toHost(visitor, two)).status).toBe(303);
});
