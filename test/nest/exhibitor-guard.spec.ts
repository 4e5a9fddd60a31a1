import { afterEach, describe, expect, it, jest } from '@jest/globals';
import { All, Controller, HttpException, Post, UseGuards } from '@nestjs/common';
import { firstValueFrom } from 'rxjs';
import {
  AllowAnonymous,
  CurrentEvent,
  CurrentExhibitors,
  ExhibitorGuard,
  ExhibitorIdentityGuard,
  ExhibitorLoginGuard,
  ExhibitorsService,
  TenantRegistry,
  type ExhibitorModuleOptions,
  type HttpContext,
} from '../../lib/index.js';
import { Sealer } from '../../lib/store/sealer.service.js';
import { Calls } from '../../lib/call/calls.service.js';
import { BoothController } from '../support/booth.controller.js';
import { clockOf } from '../support/clock.js';
import { COOKIE_SECRET, startHost, tenantsOptions, type Host, type HostKind } from '../support/host.js';
import { useClosing, useHost, useSandbox } from '../support/lifetimes.js';
import type { OtherOptions } from '../support/module-options.js';
import { OperatorLines } from '../support/operator-lines.js';
import { traced } from '../support/traced-requests.js';
import { Visitor, type Reply } from '../support/visitor.js';
import { routesOf } from './routes-of.js';
import { answerOf, bodyOf, idsOf, logOut, Members, refused, signIn } from './signed-in.js';

class LeadingGuard extends ExhibitorIdentityGuard {
  protected override onNoIdentity(http: HttpContext): Promise<never> {
    return this.redirectToLogin(http, '/auth/login');
  }
}

/** Chooses the event itself where a request names none. */
class ChoosingGuard extends ExhibitorGuard {
  protected override onNoEvent(): string {
    return 'national-2026';
  }
}

/** They name the event in ways of their own. */
const FAIRS = routesOf({
  'fairs/:id/booth': [UseGuards(ExhibitorGuard)],
  'fairs/:id/hall': [UseGuards(ExhibitorGuard), AllowAnonymous()],
  'fairs/:id/events/:eventId': [UseGuards(ExhibitorGuard)],
  'fairs/:id/page': [UseGuards(LeadingGuard)],
  'fairs/:id/login': [UseGuards(ExhibitorLoginGuard)],
  'portals/:tenant/booths/:exhibitorId': [UseGuards(ExhibitorGuard)],
});

/** They act on an event. Each answers all methods. */
@Controller()
class ActingController {
  @All('save')
  @UseGuards(ExhibitorGuard)
  save(@CurrentEvent() eventId: string): object {
    return { eventId };
  }

  @All('portals/:tenant/save')
  @UseGuards(ExhibitorGuard)
  saveAt(@CurrentEvent() eventId: string): object {
    return { eventId };
  }

  @All('events/:eventId/save')
  @UseGuards(ExhibitorGuard)
  saveOf(@CurrentEvent() eventId: string): object {
    return { eventId };
  }

  @All('note')
  @UseGuards(ExhibitorIdentityGuard)
  note(@CurrentEvent() eventId: string, @CurrentEvent() again: string): object {
    return eventId === again ? { eventId } : {};
  }

  @All('events/:eventId/note')
  @UseGuards(ExhibitorIdentityGuard)
  noteOf(@CurrentEvent() eventId: string): object {
    return { eventId };
  }

  @All('fairs/:id/note')
  @UseGuards(ExhibitorIdentityGuard)
  noteAt(@CurrentEvent() eventId: string): object {
    return { eventId };
  }

  @All('open/save')
  @AllowAnonymous()
  @UseGuards(ExhibitorGuard)
  openSave(@CurrentEvent() eventId: string | undefined, @CurrentExhibitors() { length }: unknown[]): object {
    return { eventId, length };
  }

  @All('open/note')
  @AllowAnonymous()
  @UseGuards(ExhibitorIdentityGuard)
  openNote(@CurrentEvent() eventId?: string): object {
    return { eventId };
  }

  @Post('both')
  @UseGuards(ExhibitorIdentityGuard, ChoosingGuard)
  both(@CurrentEvent() eventId: string): object {
    return { eventId };
  }
}

type Answers = Pick<ExhibitorModuleOptions, 'resolveTenant' | 'resolveEvent' | 'resolveExhibitor'>;

const BY_REQUEST: Answers = {
  resolveTenant: ({ query, headers }) => {
    const named = query['tenant'] ?? headers['x-tenant'];
    return typeof named === 'string' ? named : undefined;
  },
};

/** What the host answers in this test. */
let answers = BY_REQUEST;

const lines = new OperatorLines();
const sandbox = await useSandbox();
afterEach(() => {
  answers = BY_REQUEST;
  lines.clear();
  sandbox.clearRequests();
});

function start(kind: HostKind, options: OtherOptions = {}): Promise<Host> {
  return startHost({
    kind,
    controllers: [BoothController, FAIRS, ActingController],
    configure: (app) => app.useLogger(lines),
    options: tenantsOptions(sandbox, ['acme', 'globex', 'initech'], {
      resolveTenant: (...asked) => answers.resolveTenant?.(...asked),
      ...options,
    }),
  });
}

type Answer = [status: number, body: unknown];

describe.each(['express', 'fastify'] as const)('a request on %s', (kind) => {
  const host = useHost(() => start(kind));
  /** With functions for event and exhibitor. */
  const resolving = useHost(() =>
    start(kind, {
      resolveEvent: (...asked) => answers.resolveEvent?.(...asked),
      resolveExhibitor: (...asked) => answers.resolveExhibitor?.(...asked),
    }),
  );
  const members = new Members(sandbox, host);
  const get = async (visitor: Visitor, path: string, headers = {}): Promise<Answer> =>
    answerOf(await visitor.visit(`${host.url}${path}`, { headers }));

  describe('has a tenant', () => {
    it('of the person where it names none', async () => {
      const visitor = await members.enter('sam.several', { tenant: 'globex' });
      const me = [200, { tenant: 'globex', identity: { tenant: 'globex' } }];
      expect(await get(visitor, '/me')).toMatchObject(me);
      const ofGlobex = { id: expect.stringMatching(/^globex-/) };
      const mine = [200, [ofGlobex, ofGlobex, ofGlobex]];
      expect(await get(visitor, '/events/world-2026/mine')).toMatchObject(mine);
    });

    it('that the host answers: a login at another one does not count there', async () => {
      const visitor = await members.enter('sam.several', { tenant: 'acme' });
      const at = async (tenant: string): Promise<number> =>
        (await get(visitor, '/events/world-2026/mine', { 'x-tenant': tenant }))[0];
      sandbox.clearRequests();
      expect(await at('globex')).toBe(401);
      expect(sandbox.requests).toHaveLength(0);
      expect([await at('acme'), await at('initech')]).toEqual([200, 401]);
    });

    it('that the host answers later, unless it throws, whose exception is the reply', async () => {
      answers = { resolveTenant: async () => 'initech' };
      const visitor = await signIn(sandbox, host);
      expect(await get(visitor, '/me')).toMatchObject([200, { tenant: 'initech' }]);
      answers = {
        resolveTenant: () => {
          throw new HttpException('no such portal', 410);
        },
      };
      expect(await get(visitor, '/me')).toMatchObject([410, { message: 'no such portal' }]);
    });
  });

  describe('has an event', () => {
    const login = { tenant: 'acme', eventId: 'boutique-2026' };
    const ask = async (path: string): Promise<Answer> => get(await members.enter('sam.several', login), path);

    it('of the route parameter, else of the query, else of the login', async () => {
      expect(await ask('/mine')).toMatchObject([200, { eventId: 'boutique-2026' }]);
      expect(await ask('/mine?eventId=world-2026')).toMatchObject([200, { eventId: 'world-2026' }]);
      expect(await ask('/mine?eventId=world-2026&eventId=x')).toEqual(refused(400, 'event_required'));
      const [, mine] = await ask('/events/regional-2026/mine?eventId=world-2026');
      expect(mine).toMatchObject(idsOf(sandbox, 'regional-2026').map((id) => ({ id })));
    });

    it('that the host answers, whatever the address contains; of the login where it answers none', async () => {
      const eventFor = async (visitor: Visitor, resolveEvent: Answers['resolveEvent']): Promise<unknown> => {
        answers = { ...BY_REQUEST, resolveEvent };
        return bodyOf(await visitor.visit(`${resolving.url}/mine?eventId=world-2026`))['eventId'];
      };
      answers = { ...BY_REQUEST, resolveEvent: () => 'regional-2026' };
      const visitor = await signIn(sandbox, resolving, 'sam.several', { tenant: 'acme' });
      const other = await signIn(sandbox, resolving, 'sam.several', login);
      expect(await eventFor(visitor, () => 'national-2026')).toBe('national-2026');
      expect(await eventFor(visitor, async () => 'regional-2026')).toBe('regional-2026');
      expect(await eventFor(visitor, () => undefined)).toBe('regional-2026');
      // That of the address of the login, which the login page or `redirectToLogin` names.
      expect(await eventFor(other, () => undefined)).toBe('boutique-2026');
    });

    it('of no query and no login where the route has other parameters: 400, and a line where that is refused', async () => {
      await members.enter('sam.several', login);
      sandbox.clearRequests();
      for (const query of ['', '?eventId=world-2026', '?eventId=boutique-2026']) {
        expect(await ask(`/fairs/world-2026/booth${query}`)).toEqual(refused(400, 'event_required'));
        expect(await ask(`/fairs/world-2026/hall${query}`)).toEqual([
          200,
          { subject: 'sam.several', tenant: 'acme', count: 0 },
        ]);
      }
      expect(sandbox.requests).toEqual([]);
      expect(lines.all.filter((line) => line.includes('resolveEvent'))).toEqual([
        expect.stringContaining('fairs/:id/booth'),
      ]);
    });

    it('that resolveEvent names on such a route, and no other where that names none', async () => {
      answers = {
        ...BY_REQUEST,
        resolveEvent: ({ params, query }) =>
          params['id'] === 'none' ? undefined : (params['id'] ?? String(query['eventId'])),
      };
      const visitor = await signIn(sandbox, resolving, 'sam.several', login);
      const at = async (path: string): Promise<Answer> =>
        answerOf(await visitor.visit(`${resolving.url}${path}?eventId=boutique-2026`));
      expect(await at('/fairs/world-2026/booth')).toMatchObject([200, { eventId: 'world-2026' }]);
      expect(lines.all).toEqual([]);
      expect(await at('/fairs/none/booth')).toEqual(refused(400, 'event_required'));
      expect(lines.all).toEqual([expect.stringContaining('names no event')]);
    });

    it('as elsewhere where the parameters are tenant and exhibitor, or one is eventId, and at a login', async () => {
      const [own] = idsOf(sandbox, 'boutique-2026');
      expect(await ask(`/portals/acme/booths/${own}`)).toMatchObject([200, { eventId: 'boutique-2026' }]);
      const both = await ask('/fairs/x/events/world-2026?eventId=boutique-2026');
      expect(both).toMatchObject([200, { eventId: 'world-2026' }]);
      const visit = (path: string): Promise<Reply> =>
        new Visitor().visit(`${host.url}/fairs/x/${path}`, { headers: { accept: 'text/html' } });
      expect((await visit('login?eventId=world-2026&tenant=acme')).status).toBe(302);
      const page = await visit('page?eventId=world-2026');
      const returnTo = new URLSearchParams({ returnTo: '/fairs/x/page?eventId=world-2026' });
      expect(page.headers.get('location')).toBe(`/auth/login?${returnTo}`);
      expect(lines.all).toEqual([]);
    });
  });

  describe('that changes something', () => {
    const WRITING = ['POST', 'PUT', 'PATCH', 'DELETE'];
    const login = { tenant: 'acme', eventId: 'boutique-2026' };
    const send = async (
      path: string,
      method: string,
      at: { url: string } = host,
      visitor?: Visitor,
    ): Promise<Answer> => {
      const json = ['GET', 'DELETE'].includes(method) ? undefined : { eventId: 'world-2026' };
      const from = visitor ?? (await members.enter('sam.several', login));
      const { status, text } = await from.visit(`${at.url}${path}`, { method, json });
      return [status, JSON.parse(text)];
    };
    const ofLogin = expect.objectContaining({ eventId: 'boutique-2026' });

    it.each(['/save', '/portals/acme/save', '/note'])(
      'names its event itself at %s: that of the login counts for reading',
      async (path) => {
        for (const method of WRITING) {
          clockOf(host.app).skip(60_000);
          lines.clear();
          expect([method, ...(await send(path, method))]).toEqual([
            method,
            ...refused(400, 'event_required'),
          ]);
          expect(lines.all).toEqual([
            expect.stringMatching(
              /ActingController\.\w+ names no event.*resolveEvent.*query eventId.*GET and HEAD/,
            ),
          ]);
          await send(path, method);
          expect(lines.all).toHaveLength(1);
          const named = await send(`${path}?eventId=regional-2026`, method);
          expect(named[1]).toEqual({ eventId: 'regional-2026' });
          expect(await send(`${path}?eventId=a&eventId=b`, method)).toEqual(refused(400, 'event_required'));
          expect(await send(`${path}?eventId=..`, method)).toEqual(refused(400, 'invalid_argument'));
        }
        clockOf(host.app).back();
        expect(await send(path, 'GET')).toEqual([200, ofLogin]);
        const head = await (
          await members.enter('sam.several', login)
        ).visit(`${host.url}${path}`, {
          method: 'HEAD',
        });
        expect(head.status).toBe(200);
      },
    );

    it('names it by the route, at any method', async () => {
      for (const method of ['GET', ...WRITING]) {
        for (const path of ['save', 'note']) {
          const [, body] = await send(`/events/regional-2026/${path}`, method);
          expect(body).toEqual({ eventId: 'regional-2026' });
        }
        expect(await send('/fairs/world-2026/note?eventId=world-2026', method)).toEqual(
          refused(400, 'event_required'),
        );
      }
    });

    it('is about no event on a public route, unless it names one', async () => {
      for (const path of ['/open/save', '/open/note']) {
        expect((await send(path, 'GET'))[1]).toMatchObject({ eventId: 'boutique-2026' });
        expect((await send(path, 'POST'))[1]).not.toHaveProperty('eventId');
        const named = `${path}?eventId=regional-2026`;
        expect((await send(named, 'POST'))[1]).toMatchObject({ eventId: 'regional-2026' });
        expect((await send(named, 'POST', host, new Visitor()))[1]).toMatchObject({
          eventId: 'regional-2026',
        });
        expect((await send(path, 'POST', host, new Visitor()))[1]).not.toHaveProperty('eventId');
      }
    });

    it('leaves the event to the guard that needs one', async () => {
      expect(await send('/both', 'POST')).toEqual([201, { eventId: 'national-2026' }]);
    });

    it('is about the event that resolveEvent answers, once for each guard, and no other', async () => {
      const resolveEvent = jest.fn<NonNullable<Answers['resolveEvent']>>(() => undefined);
      answers = { ...BY_REQUEST, resolveEvent };
      const visitor = await signIn(sandbox, resolving, 'sam.several', login);
      for (const path of ['/save', '/note']) {
        lines.clear();
        resolveEvent.mockReset();
        expect(await send(`${path}?eventId=world-2026`, 'POST', resolving, visitor)).toEqual(
          refused(400, 'event_required'),
        );
        expect(lines.all).toEqual([expect.stringContaining('resolveEvent')]);
        expect(resolveEvent).toHaveBeenCalledTimes(1);
        expect(await send(path, 'GET', resolving, visitor)).toEqual([200, ofLogin]);
        resolveEvent.mockResolvedValue('regional-2026');
        const [, body] = await send(path, 'POST', resolving, visitor);
        expect(body).toEqual({ eventId: 'regional-2026' });
        resolveEvent.mockImplementation(() => {
          throw new HttpException('no such fair', 410);
        });
        expect((await send(path, 'POST', resolving, visitor))[0]).toBe(410);
      }
    });
  });

  describe('has an exhibitor', () => {
    const login = { tenant: 'acme', eventId: 'world-2026' };
    const booth = async (path: string, person = 'sam.several'): Promise<Answer> =>
      get(await members.enter(person, login), `/events/world-2026/${path}`);

    it('that is the only one of a person; with several and none selected, it is 409', async () => {
      const [id] = idsOf(sandbox, 'world-2026', 'olga.one');
      expect(await booth('booth', 'olga.one')).toMatchObject([200, { id }]);
      const error = { message: 'select one of your exhibitors first', error: 'Conflict' };
      const body = { statusCode: 409, ...error, code: 'exhibitor_not_selected' };
      expect(await booth('booth')).toEqual([409, body]);
    });

    it('of the route, if it belongs to the person', async () => {
      const own = idsOf(sandbox);
      for (const id of own) {
        expect(await booth(`booths/${id}`)).toMatchObject([200, { id }]);
      }
      const foreign = sandbox.exhibitors('world-2026', 'acme').find(({ id }) => !own.includes(id));
      const error = { message: 'this exhibitor is not one of yours at this event', error: 'Forbidden' };
      for (const id of [foreign?.id, 'acme-boutique-2026-0001', 'nonsense']) {
        const body = { statusCode: 403, ...error, code: 'no_exhibitor' };
        expect(await booth(`booths/${id}`)).toEqual([403, body]);
      }
    });

    it('that the host answers, at once or later, if it belongs to the person', async () => {
      const resolveEvent = () => 'world-2026';
      answers = { ...BY_REQUEST, resolveEvent };
      const visitor = await signIn(sandbox, resolving, 'sam.several', login);
      const boothFor = async (resolveExhibitor: Answers['resolveExhibitor']): Promise<Answer> => {
        answers = { ...BY_REQUEST, resolveEvent, resolveExhibitor };
        return answerOf(await visitor.visit(`${resolving.url}/events/world-2026/booth`));
      };
      const [, second = ''] = idsOf(sandbox);
      expect(await boothFor(() => second)).toMatchObject([200, { id: second }]);
      expect(await boothFor(async () => second)).toMatchObject([200, { id: second }]);
      expect(await boothFor(() => 'acme-world-2026-0001')).toEqual(refused(403, 'no_exhibitor'));
      expect(await boothFor(() => undefined)).toEqual(refused(409, 'exhibitor_not_selected'));
    });
  });

  describe('reads a reply of the service', () => {
    let event = 0;
    const at = async (
      body: string,
      path = (eventId: string) => `/events/${eventId}/booth`,
    ): Promise<Answer> => {
      const visitor = await members.enter('nora.none', { tenant: 'acme' });
      sandbox.failNext('lookup', { kind: 'body', body });
      event += 1;
      return get(visitor, path(`reply-${kind}-${event}`));
    };

    it('that is no exhibitor as a failure, and tells the operator which members came, without their values', async () => {
      clockOf(host.app).skip(60_000, ['now']);
      expect(await at('{"Message":"No exhibitor","TraceId":"secret"}')).toEqual(
        refused(502, 'malformed_response'),
      );
      clockOf(host.app).back();
      expect(lines.warnings).toEqual([
        'tenants.acme: malformed_response: not the exhibitors of a contact: one object, without an id (option exhibitorId); ' +
          'its members: Message, TraceId',
      ]);
    });

    it('whose numeric ids were rounded: they open nothing, and the records stay', async () => {
      const two = '[{"id":9007199254740993},{"id":7}]';
      const booth = (id: string) => (eventId: string) => `/events/${eventId}/booths/${id}`;
      for (const id of ['9007199254740992', '9007199254740993', '9007199254740994']) {
        expect(await at(two, booth(id))).toEqual(refused(403, 'no_exhibitor'));
      }
      expect(await at(two, booth('7'))).toEqual([200, { id: 7 }]);
      expect(await at(two)).toEqual(refused(409, 'exhibitor_not_selected'));
      expect(await at(two, (eventId) => `/events/${eventId}/mine`)).toMatchObject([200, [{}, { id: 7 }]]);
      expect(await at('{"id":9007199254740993}')).toEqual(refused(502, 'malformed_response'));
    });
  });
});

const closing = useClosing();

it.each(['cookie', 'host', 'bearer'] as const)(
  "knows no tenant of an empty key, and asks its source for none (session: '%s')",
  async (session) => {
    const find = jest.fn((_key: string) => sandbox.tenantOptions('acme'));
    const options = { tenants: { find }, allowedOrigins: () => true, resolveTenant: () => '', session };
    const { app, url } = closing(
      await startHost({ kind: 'fastify', options: () => ({ ...options, secrets: [COOKIE_SECRET] }) }),
    );
    const headers = { authorization: 'Bearer e.e.e' };
    for (const path of ['me', 'mine?eventId=world-2026', 'events/world-2026/booth', 'auth/login']) {
      const reply = await new Visitor().visit(`${url}/${path}`, { headers });
      expect(answerOf(reply)).toEqual(refused(404, 'unknown_tenant'));
    }
    const page = firstValueFrom(app.get(ExhibitorsService).forTenant('').list('world-2026'));
    await expect(page).rejects.toMatchObject({
      code: expect.stringMatching(/unknown_tenant|invalid_argument/),
    });
    await expect(app.get(TenantRegistry).get('')).rejects.toMatchObject({ code: 'unknown_tenant' });
    expect(find).not.toHaveBeenCalled();
  },
);

it('looks exhibitors up with the client-credentials token of the tenant, never with a token of the login', async () => {
  const host = closing(await start('fastify'));
  const visitor = await signIn(sandbox, host, 'sam.several', { tenant: 'acme' });
  expect((await visitor.visit(`${host.url}/events/world-2026/mine`)).status).toBe(200);
  const [acme] = sandbox.tenants;
  const grants = traced(sandbox).filter(({ operation }) => operation === 'token');
  expect(grants.map(({ body, clientId }) => [body['grant_type'], clientId])).toEqual([
    ['authorization_code', acme?.loginClientId],
    ['client_credentials', acme?.clientId],
  ]);
  const lookups = traced(sandbox).filter(({ operation }) => operation === 'lookup');
  expect(lookups).toMatchObject([
    {
      contactEmail: 'sam.several@example.com',
      tenantId: acme?.tenantId,
      tokenClaims: { client_id: acme?.clientId, scope: 'idp_api' },
    },
  ]);
  expect(lookups[0]?.tokenClaims).not.toHaveProperty('sub', 'sam.several');
  const withLoginToken = traced(sandbox).filter(
    ({ operation, headers, tokenClaims }) =>
      headers.authorization !== undefined && tokenClaims === undefined && operation !== 'userinfo',
  );
  expect(withLoginToken).toEqual([]);
});

describe('a guard that has seen the user', () => {
  const HOUR = 3_600_000;
  const COOKIE = 'exhibitor-identity';
  const host = useHost(() => start('fastify'));
  afterEach(() => {
    jest.restoreAllMocks();
    clockOf(host.app).back();
  });

  const enter = (person = 'olga.one'): Promise<Visitor> => signIn(sandbox, host, person, { tenant: 'acme' });
  const sealedOf = (visitor: Visitor): string => visitor.cookies('127.0.0.1').get(COOKIE) ?? '';
  /** A request without a jar. */
  const ask = (cookie: string, headers: Record<string, string> = {}): Promise<Reply> =>
    new Visitor().visit(`${host.url}/me`, { headers: { cookie, ...headers } });
  /** Counts how often the host opens sealed values from now on. */
  const openings = (): (() => number) => {
    const unseal = jest.spyOn(host.app.get(Sealer, { strict: false }), 'unseal');
    return () => unseal.mock.calls.length;
  };

  it('opens the cookie once, and answers later requests alike', async () => {
    const cookie = `${COOKIE}=${sealedOf(await enter())}`;
    const opened = openings();
    const seen = async (): Promise<unknown[]> => {
      const { status, text, headers } = await ask(cookie);
      return [status, text, headers.get('cache-control')];
    };
    const first = await seen();
    expect(first).toEqual([200, expect.any(String), 'private, no-store']);
    expect([await seen(), await seen()]).toEqual([first, first]);
    clockOf(host.app).skip(3_600_000, ['now']);
    expect((await ask(cookie)).status).toBe(200);
    expect(opened()).toBe(1);
  });

  it('starts no call, and so no timer, once cookie and lookup are remembered', async () => {
    const visitor = await enter('sam.several');
    const calls = jest.spyOn(host.app.get(Calls, { strict: false }), 'start');
    const started: number[] = [];
    for (let visit = 0; visit < 3; visit += 1) {
      expect((await visitor.visit(`${host.url}/events/regional-2026/mine`)).status).toBe(200);
      started.push(calls.mock.calls.length);
    }
    expect(started[0]).toBeGreaterThan(0);
    expect(started).toEqual(started.map(() => started[0]));
  });

  it('refuses a remembered cookie that has expired, at another tenant, and with another prefix', async () => {
    const sealed = sealedOf(await enter());
    expect((await ask(`${COOKIE}=${sealed}`)).status).toBe(200);
    const opened = openings();
    expect((await ask(`${COOKIE}=${sealed}`, { 'x-tenant': 'globex' })).status).toBe(401);
    expect((await ask(`__Host-${COOKIE}=${sealed}`)).status).toBe(401);
    clockOf(host.app).skip(8 * HOUR, ['epochMs']);
    expect((await ask(`${COOKIE}=${sealed}`)).status).toBe(401);
    expect(opened()).toBe(0);
  });

  it('refuses every copy of the cookie after the logout, without opening it', async () => {
    const visitor = await enter();
    const stays = `${COOKIE}=${sealedOf(await enter())}`;
    const cookie = `${COOKIE}=${sealedOf(visitor)}`;
    expect([(await ask(cookie)).status, (await ask(stays)).status]).toEqual([200, 200]);
    await logOut(visitor, host);
    const opened = openings();
    expect([(await ask(cookie)).status, (await ask(cookie)).status]).toEqual([401, 401]);
    expect((await ask(stays)).status).toBe(200);
    expect(opened()).toBe(0);
  });

  it('remembers no cookie that does not open', async () => {
    const sealed = sealedOf(await enter());
    const forged = sealed.slice(0, -3) + (sealed.endsWith('AAA') ? 'BBB' : 'AAA');
    const opened = openings();
    for (let visit = 0; visit < 3; visit += 1) {
      expect((await ask(`${COOKIE}=${forged}`)).status).toBe(401);
    }
    expect(opened()).toBe(3);
  });
});

it('takes a key that passes to another customer for the checked one until the reply, and its users for nobody then', async () => {
  let customer = 'acme';
  let isPassingOn = false;
  const host = closing(
    await startHost({
      options: (redirectUri) => ({
        tenants: { find: () => sandbox.tenantOptions(customer, { redirectUri }) },
        resolveTenant: () => 'portal',
        // Between the check of the user and the lookup.
        resolveEvent: () => {
          if (isPassingOn) {
            customer = 'globex';
            host.app.get(TenantRegistry).forget('portal');
          }
          return 'world-2026';
        },
        allowedOrigins: [sandbox.url],
        lookupCache: false,
        secrets: [COOKIE_SECRET],
      }),
    }),
  );
  const visitor = await signIn(sandbox, host);
  const mine = (): Promise<Reply> => visitor.visit(`${host.url}/events/world-2026/mine`);
  const before = await mine();
  expect(before.status).toBe(200);
  isPassingOn = true;
  expect((await mine()).text).toBe(before.text);
  expect((await mine()).status).toBe(401);
});
