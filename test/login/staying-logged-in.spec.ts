import { IncomingMessage, ServerResponse } from 'node:http';
import { Socket } from 'node:net';
import { afterAll, afterEach, beforeAll, describe, expect, it, jest } from '@jest/globals';
import {
  Controller,
  Get,
  Header,
  Inject,
  Injectable,
  Post,
  Req,
  Res,
  UseGuards,
  type ExecutionContext,
} from '@nestjs/common';
import { parseSetCookie } from 'cookie';
import {
  AllowAnonymous,
  CurrentIdentity,
  ExhibitorGuard,
  ExhibitorIdentityGuard,
  ExhibitorLogoutGuard,
  ExhibitorSelection,
  type ExhibitorIdentity,
  type ExhibitorRequest,
} from '../../lib/index.js';
import { HttpContext } from '../../lib/browser/http-context.js';
import { Sealer } from '../../lib/store/sealer.service.js';
import { bodyOf, signIn } from '../nest/signed-in.js';
import { MemoryStore } from '../store/memory-store.js';
import { BoothController } from '../support/booth.controller.js';
import { clockOf } from '../support/clock.js';
import { acmeOptions, COOKIE_SECRET, startHost, type Host, type HostKind } from '../support/host.js';
import { useSandbox } from '../support/lifetimes.js';
import { eventually } from '../support/wait.js';
import type { Reply, Visitor } from '../support/visitor.js';
import { copyOf, identityOf, isLoggedIn, logOut } from './journey.js';

const MINUTE = 60_000;
const HOUR = 60 * MINUTE;
const TTL = { identityTtl: HOUR, absoluteTtl: 12 * HOUR };
const IDENTITY = 'exhibitor-identity';
const SELECTION = 'exhibitor-selection';
const PUBLIC = 'public, max-age=60';
/** Caches obey them in place of `Cache-Control`. */
const TARGETED = {
  'CDN-Cache-Control': 'max-age=60',
  'Cloudflare-CDN-Cache-Control': 'max-age=60',
  'Surrogate-Control': 'max-age=60',
  'X-Accel-Expires': '60',
};

/** The response of Express, or that of Node behind a reply of Fastify. */
interface AnyResponse {
  raw?: AnyResponse;
  hijack?: () => void;
  writeHead(status: number, headers: object): AnyResponse;
  end(body: string): void;
}

/** What the replies of `/slow` wait for. */
const slowReplies: (() => void)[] = [];

/** As many as the fields of one GraphQL request. */
const MANY = 12_000;

@Injectable()
class ManyGuards extends ExhibitorIdentityGuard {
  override async canActivate(context: ExecutionContext): Promise<boolean> {
    for (let count = 1; count < MANY; count += 1) {
      await super.canActivate(context);
    }
    return super.canActivate(context);
  }
}

@Controller()
class PortalController {
  constructor(@Inject(ExhibitorSelection) private readonly selection: ExhibitorSelection) {}

  @Get('welcome')
  @AllowAnonymous()
  @UseGuards(ExhibitorIdentityGuard)
  welcome(@CurrentIdentity() identity?: ExhibitorIdentity): string {
    return identity?.subject ?? 'nobody';
  }

  @Get('cached')
  @UseGuards(ExhibitorIdentityGuard)
  @Header('Cache-Control', PUBLIC)
  @Header('Vary', 'Accept-Language')
  cached(@CurrentIdentity() { subject }: ExhibitorIdentity): string {
    return subject;
  }

  @Get('written')
  @UseGuards(ExhibitorIdentityGuard)
  written(@CurrentIdentity() { subject }: ExhibitorIdentity, @Res() response: AnyResponse): void {
    response.hijack?.();
    const headers = { 'Cache-Control': PUBLIC, 'X-Own': 'of the host', ...TARGETED };
    (response.raw ?? response).writeHead(200, headers).end(subject);
  }

  @Post('events/:eventId/select-cached')
  @UseGuards(ExhibitorIdentityGuard, ExhibitorGuard)
  @Header('Cache-Control', PUBLIC)
  async select(
    @Req() request: { query: { id: string } },
    @Res({ passthrough: true }) response: object,
  ): Promise<void> {
    await this.selection.select({ request, response }, request.query.id);
  }

  /** Answers when the test says so. */
  @Get('slow')
  @UseGuards(ExhibitorIdentityGuard)
  async slow(): Promise<string> {
    await new Promise<void>((resolve) => slowReplies.push(resolve));
    return 'slow';
  }

  @Get('many')
  @UseGuards(ManyGuards)
  many(@CurrentIdentity() { subject }: ExhibitorIdentity): string {
    return subject;
  }

  @Post('leave')
  @UseGuards(ExhibitorIdentityGuard, ExhibitorLogoutGuard)
  leave(): void {}
}

const sandbox = await useSandbox();

/** The identity cookie that a reply sets, with its attributes. */
const renewalIn = (reply: Reply): string | undefined =>
  reply.setCookies.find((cookie) => cookie.startsWith(`${IDENTITY}=`));

const namesIn = (reply: Reply): string[] => reply.setCookies.map((cookie) => parseSetCookie(cookie).name);
const valueIn = (visitor: Visitor, name: string): string => visitor.cookies().get(name) ?? '';

it('a user of thousands of guards in one request gets one seal, and the head can be written', async () => {
  const host = await startHost({
    controllers: [BoothController, PortalController],
    options: acmeOptions(sandbox, { cookies: TTL }),
  });
  const visitor = await signIn(sandbox, host);
  clockOf(host.app).skip(40 * MINUTE);
  const seal = jest.spyOn(host.app.get(Sealer), 'seal');
  const reply = await visitor.visit(`${host.url}/many`);
  expect([reply.status, namesIn(reply), seal.mock.calls.length]).toEqual([200, [IDENTITY], 1]);
  await host.close();
});

/** A reply without a connection. */
function replyOf(): { response: ServerResponse; http: HttpContext } {
  const response = new ServerResponse(new IncomingMessage(new Socket()));
  const adapter = { setHeader: () => {}, redirect: () => {}, reply: () => {} };
  return { response, http: new HttpContext({ headers: {} } as ExhibitorRequest, response, adapter) };
}

it('a reply with thousands of cookies has a head that can be written, and is private', () => {
  const { response, http } = replyOf();
  for (let count = 0; count < MANY; count += 1) {
    http.setCookie(`name-${count}`, { value: '1', header: `name-${count}=1` });
  }
  response.writeHead(200);
  expect(response.getHeader('Cache-Control')).toBe('private, no-store');
  expect(response.getHeader('Set-Cookie')).toHaveLength(MANY);
});

it.each([
  ['new, set', 200, ['name=set']],
  ['set, new', 200, ['name=set']],
  ['new, host', 200, ['name=host']],
  ['new', 200, ['name=new']],
  ['new', 304, []],
])('a cookie that is sealed anew stays behind one that the reply sets: %s, %i', (order, status, headers) => {
  const { response, http } = replyOf();
  for (const value of order.split(', ')) {
    const header = `name=${value}`;
    if (value === 'host') {
      response.setHeader('Set-Cookie', header);
    } else {
      http.setCookie('name', { value, header, isRenewed: value === 'new' });
    }
  }
  response.writeHead(status);
  expect([response.getHeader('Set-Cookie') ?? []].flat()).toEqual(headers);
});

describe.each<HostKind>(['express', 'fastify'])('users who are active on %s', (kind) => {
  let store: MemoryStore;
  let one: Host;
  const hosts: Host[] = [];
  beforeAll(async () => {
    store = new MemoryStore();
    one = await startProcess();
  });
  afterEach(comeBack);
  afterAll(() => Promise.all(hosts.map((host) => host.close())));

  /** A process of the host, with the clock of the others. */
  async function startProcess(skipped = 0): Promise<Host> {
    const host = await startHost({
      kind,
      controllers: [BoothController, PortalController],
      options: (own) => {
        const tenant = sandbox.tenantOptions('acme', { redirectUri: one?.callback ?? own });
        return {
          tenant: { ...tenant, login: { ...tenant.login, endSession: true } },
          secrets: [COOKIE_SECRET],
          cookies: TTL,
          logoutCheck: { ttl: 0 },
          store,
        };
      },
    });
    hosts.push(host);
    clockOf(host.app).skip(skipped);
    return host;
  }

  function pass(ms: number): void {
    hosts.forEach(({ app }) => clockOf(app).skip(ms));
    store.skip(ms);
  }

  const setDateBack = (ms: number): void => hosts.forEach(({ app }) => clockOf(app).skip(-ms, ['epochMs']));

  /** To the date of the provider, which a login needs. */
  function comeBack(): void {
    hosts.forEach(({ app }) => clockOf(app).back());
  }

  const visit = (visitor: Visitor, path = '/me', headers: Record<string, string> = {}): Promise<Reply> =>
    visitor.visit(`${one.url}${path}`, { headers });

  /** Ids of the exhibitors of a user, without a new seal for this browser. */
  const idsOf = async (visitor: Visitor): Promise<string[]> =>
    bodyOf<{ id: string }[]>(await visit(copyOf(visitor, one), '/events/world-2026/mine')).map(
      ({ id }) => id,
    );

  /** All visit every 40 minutes for so long. */
  async function stayActive(ms: number, ...visitors: Visitor[]): Promise<void> {
    for (let passed = 0; passed < ms; passed += 40 * MINUTE) {
      pass(40 * MINUTE);
      for (const visitor of visitors) {
        expect((await visit(visitor)).status).toBe(200);
      }
    }
  }

  /** Logged in 40 minutes ago. */
  async function dueVisitor(): Promise<Visitor> {
    const visitor = await signIn(sandbox, one);
    pass(40 * MINUTE);
    return visitor;
  }

  const expectEnded = async (...visitors: Visitor[]): Promise<void> => {
    for (const visitor of visitors) {
      expect(await isLoggedIn(visitor, one)).toBe(false);
    }
  };

  it('get a new seal once half of the time has passed, and once each time', async () => {
    const visitor = await signIn(sandbox, one);
    const login = valueIn(visitor, IDENTITY);
    const { expiresAt: first = 0, ...before } = (await identityOf(visitor, one)) ?? {};
    pass(29 * MINUTE);
    expect((await visit(visitor)).setCookies).toEqual([]);
    pass(MINUTE);
    const reply = await visit(visitor);
    expect(namesIn(reply)).toEqual([IDENTITY]);
    const { name: _, value = '', maxAge = 0, ...attributes } = parseSetCookie(renewalIn(reply) ?? '');
    expect(attributes).toEqual({ path: '/', httpOnly: true, sameSite: 'lax' });
    expect(value.length).toBe(login.length);
    // The browser keeps it until the end of the login, longer than the seal is valid.
    expect(Math.round(maxAge / 60)).toBe(11.5 * 60);
    const { expiresAt: second = 0, ...after } = (await identityOf(visitor, one)) ?? {};
    expect(after).toEqual(before);
    expect(Math.abs(second - first - 30.5 * MINUTE)).toBeLessThanOrEqual(MINUTE / 2);
    pass(29 * MINUTE);
    expect((await visit(visitor)).setCookies).toEqual([]);
    pass(30 * MINUTE);
    expect(renewalIn(await visit(visitor))).toBeDefined();
    pass(HOUR);
    const late = await visit(visitor);
    expect([late.status, late.setCookies]).toEqual([401, []]);
  });

  it('get no new seal by HEAD and prefetches', async () => {
    const visitor = await dueVisitor();
    for (const [method, name, value] of [
      ['HEAD', 'accept', '*/*'],
      ['GET', 'sec-purpose', 'prefetch;prerender'],
      ['GET', 'purpose', 'prefetch'],
      ['GET', 'x-purpose', 'Prefetch'],
      ['GET', 'x-moz', 'prefetch'],
    ] as const) {
      const reply = await visitor.visit(`${one.url}/me`, { method, headers: { [name]: value } });
      expect([reply.status, reply.setCookies]).toEqual([200, []]);
    }
    expect(renewalIn(await visit(copyOf(visitor, one)))).toBeDefined();
  });

  it('get a new seal on public pages, where an expired identity counts as nobody', async () => {
    const visitor = await dueVisitor();
    const idle = copyOf(visitor, one);
    const reply = await visit(visitor, '/welcome');
    expect([reply.text, renewalIn(reply)]).toEqual(['sam.several', expect.any(String)]);
    pass(40 * MINUTE);
    const [known, unknown] = [await visit(visitor, '/welcome'), await visit(idle, '/welcome')];
    expect([known.text, unknown.text, unknown.setCookies]).toEqual(['sam.several', 'nobody', []]);
  });

  it('get one cookie of several guards, and none where one of them is a logout', async () => {
    const visitor = await dueVisitor();
    const leaving = copyOf(visitor, one);
    const [id = ''] = await idsOf(visitor);
    const path = `/events/world-2026/select-cached?id=${id}`;
    for (const names of [[IDENTITY, SELECTION], [SELECTION]]) {
      const reply = await visitor.visit(`${one.url}${path}`, { method: 'POST' });
      expect(namesIn(reply)).toEqual(names);
      // The handler lets caches store it, which holds for no reply with a cookie.
      expect(reply.headers.get('cache-control')).toBe('private, no-store');
      expect(reply.headers.get('vary')).toContain('Cookie');
    }
    const left = await leaving.visit(`${one.url}/leave`, { method: 'POST' });
    expect(left.setCookies.map((cookie) => cookie.split(';')[0])).toContain(`${IDENTITY}=`);
    expect(valueIn(leaving, IDENTITY)).toBe('');
  });

  describe('with caches in front of the host', () => {
    it.each(['/cached', '/written'])(
      'get a cookie in replies of %s that no cache may store, and other headers as the handler wrote them',
      async (path) => {
        const visitor = await dueVisitor();
        const [renewed, plain] = [await visit(visitor, path), await visit(visitor, path)];
        const targeted = ({ headers }: Reply): string[] =>
          Object.keys(TARGETED).filter((name) => headers.has(name));
        expect([renewed.text, renewalIn(renewed)]).toEqual(['sam.several', expect.any(String)]);
        expect(renewed.headers.get('cache-control')).toBe('private, no-store');
        expect(renewed.headers.get('vary')).toBe(path === '/cached' ? 'Accept-Language, Cookie' : 'Cookie');
        expect(targeted(renewed)).toEqual([]);
        // Without a cookie of ours the handler decides.
        expect([plain.headers.get('cache-control'), plain.setCookies]).toEqual([PUBLIC, []]);
        if (path !== '/cached') {
          const own = renewed.headers.get('x-own');
          expect([targeted(plain), own]).toEqual([Object.keys(TARGETED), 'of the host']);
        }
      },
    );
  });

  describe('with a slow reply in flight', () => {
    /** A request of a user who is due for a new seal. Answers what lets its reply go. */
    async function slowVisit(visitor: Visitor, host = one): Promise<() => Promise<Reply>> {
      const reply = visitor.visit(`${host.url}/slow`);
      await eventually(() => slowReplies.length > 0);
      return async () => {
        slowReplies.splice(0).forEach((answer) => answer());
        return reply;
      };
    }

    it('get its new seal where nothing else happened', async () => {
      const visitor = await dueVisitor();
      const answer = await slowVisit(visitor);
      expect(renewalIn(await answer())).toBeDefined();
      expect((await visit(visitor)).setCookies).toEqual([]);
    });

    it('stay logged out: it may bring back a cookie, which opens nothing', async () => {
      const other = await startProcess();
      for (const slow of [one, other]) {
        const visitor = await dueVisitor();
        const late = copyOf(visitor, one);
        const answer = await slowVisit(late, slow);
        await logOut(visitor, one);
        await answer();
        expect([await isLoggedIn(late, one), await isLoggedIn(late, other)]).toEqual([false, false]);
      }
    });

    it('are nobody once another person has logged in', async () => {
      const visitor = await dueVisitor();
      const late = copyOf(visitor, one);
      const answer = await slowVisit(late);
      comeBack();
      await signIn(sandbox, one, 'olga.one', {}, visitor);
      await answer();
      expect([await isLoggedIn(late, one), (await identityOf(visitor, one))?.subject]).toEqual([
        false,
        'olga.one',
      ]);
    });

    it('keep the selection, whichever reply arrives last', async () => {
      const visitor = await dueVisitor();
      const [, id] = await idsOf(visitor);
      const late = copyOf(visitor, one);
      const answer = await slowVisit(late);
      await visitor.visit(`${one.url}/events/world-2026/select`, { json: { id } });
      expect(namesIn(await answer())).toEqual([IDENTITY]);
      visitor.cookies().set(IDENTITY, valueIn(late, IDENTITY));
      pass(50 * MINUTE);
      expect(bodyOf(await visit(visitor, '/events/world-2026/booth'))).toMatchObject({ id });
    });
  });

  if (kind === 'fastify') {
    return;
  }
  // What no adapter can change.
  it('stay logged in with selection and ID token until absoluteTtl after the login, and no longer', async () => {
    const visitor = await signIn(sandbox, one);
    const end = ((await identityOf(visitor, one))?.expiresAt ?? 0) + 11 * HOUR;
    const id = (await idsOf(visitor)).at(-1);
    await stayActive(2 * HOUR, visitor);
    await visitor.visit(`${one.url}/events/world-2026/select`, { json: { id } });
    await stayActive(9 * HOUR, visitor);
    expect(bodyOf(await visit(visitor, '/events/world-2026/booth'))).toMatchObject({ id });
    pass(39 * MINUTE);
    expect(Math.abs(((await identityOf(visitor, one))?.expiresAt ?? 0) - end)).toBeLessThan(10);
    const leaving = copyOf(visitor, one);
    pass(2 * MINUTE);
    const ended = await visit(visitor);
    expect([ended.status, ended.setCookies]).toEqual([401, []]);
    hosts.forEach(({ app }) => clockOf(app).skip(-2 * MINUTE));
    const { location = '' } = await logOut(leaving, one);
    expect(new URL(location).searchParams.get('id_token_hint')).toMatch(/^ey/);
    expect([...leaving.cookies().keys()].filter((name) => name.startsWith('exhibitor-'))).toEqual([]);
  });

  it('gain nothing by a date that is set back', async () => {
    const visitor = await dueVisitor();
    await visit(visitor);
    const { expiresAt } = (await identityOf(visitor, one)) ?? {};
    setDateBack(90 * MINUTE);
    const reply = await visit(visitor);
    expect([reply.status, reply.setCookies]).toEqual([200, []]);
    setDateBack(-90 * MINUTE);
    expect((await identityOf(visitor, one))?.expiresAt).toBe(expiresAt);
    pass(61 * MINUTE);
    await expectEnded(visitor);
  });

  it('are logged out with every copy of the identity, in every process: also one that a thief keeps alive', async () => {
    const [visitor, stays] = [await signIn(sandbox, one), await signIn(sandbox, one)];
    const [older, thief] = [copyOf(visitor, one), copyOf(visitor, one)];
    const other = await startProcess();
    await stayActive(4 * HOUR, visitor, stays, thief);
    expect(valueIn(thief, IDENTITY)).not.toBe(valueIn(visitor, IDENTITY));
    expect(await isLoggedIn(thief, other)).toBe(true);
    await logOut(visitor, one);
    const all = [one, other, await startProcess(4 * HOUR)];
    for (const host of all) {
      expect([await isLoggedIn(thief, host), await isLoggedIn(older, host)]).toEqual([false, false]);
      expect(await isLoggedIn(stays, host)).toBe(true);
    }
    pass(50 * MINUTE);
    // It is remembered longer than any seal is valid, also after the date was set back.
    setDateBack(HOUR);
    for (const host of all) {
      expect(await isLoggedIn(thief, host)).toBe(false);
    }
  });

  it('are logged out for good by a new login in the same browser, also where only a thief was active since', async () => {
    const visitor = await signIn(sandbox, one);
    const thief = copyOf(visitor, one);
    await stayActive(2 * HOUR, thief);
    await expectEnded(visitor);
    expect(await isLoggedIn(thief, one)).toBe(true);
    comeBack();
    await signIn(sandbox, one, 'olga.one', {}, visitor);
    pass(2 * HOUR);
    await expectEnded(thief);
  });

  it('are logged out for good by the logout with an old copy, whose own seal is over', async () => {
    const visitor = await signIn(sandbox, one);
    const older = copyOf(visitor, one);
    await stayActive(2 * HOUR, visitor);
    await logOut(older, one);
    await expectEnded(visitor);
    pass(9 * HOUR);
    setDateBack(9 * HOUR);
    await expectEnded(visitor);
  });
});

it.each<HostKind>(['express + express-session', 'fastify + @fastify/session'])(
  'users in the session of a host on %s are logged in until absoluteTtl after the login, without a cookie of ours',
  async (kind) => {
    const host = await startHost({
      kind,
      options: acmeOptions(sandbox, { cookies: TTL }),
    });
    const visitor = await signIn(sandbox, host);
    const { expiresAt = 0 } = (await identityOf(visitor, host)) ?? {};
    expect(Math.abs(expiresAt - Date.now() - TTL.absoluteTtl)).toBeLessThan(MINUTE);
    clockOf(host.app).skip(11 * HOUR);
    expect((await identityOf(visitor, host))?.expiresAt).toBe(expiresAt);
    expect([...visitor.cookies().keys()].filter((name) => name.startsWith('exhibitor-id'))).toEqual([]);
    clockOf(host.app).skip(HOUR);
    expect(await isLoggedIn(visitor, host)).toBe(false);
    await host.close();
  },
);
