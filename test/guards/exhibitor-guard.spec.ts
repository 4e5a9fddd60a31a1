import { afterAll, afterEach, beforeAll, describe, expect, it, jest } from '@jest/globals';
import { Controller, Get, HttpException, Param, UseGuards } from '@nestjs/common';
import { firstValueFrom } from 'rxjs';
import {
  AllowAnonymous,
  CurrentEvent,
  CurrentIdentity,
  ExhibitorGuard,
  ExhibitorIdentityGuard,
  ExhibitorLoginGuard,
  ExhibitorsService,
  TenantRegistry,
  type ExhibitorIdentity,
  type ExhibitorModuleOptions,
  type HttpContext,
} from '../../lib/index.js';
import { Sealer } from '../../lib/store/sealer.service.js';
import type { ExhibitorSandbox } from '../../lib/testing/index.js';
import { Deadlines } from '../../lib/time/deadline.js';
import { BoothController } from '../support/booth.controller.js';
import { clockOf } from '../support/clock.js';
import { COOKIE_SECRET, startHost, type Host, type HostKind } from '../support/host.js';
import type { OtherOptions } from '../support/module-options.js';
import { OperatorLines } from '../support/operator-lines.js';
import { startSandbox } from '../support/sandbox.js';
import { traced } from '../support/traced-requests.js';
import { Visitor, type Reply } from '../support/visitor.js';
import { bodyOf, Members, signIn } from './signed-in.js';

class LeadingGuard extends ExhibitorIdentityGuard {
  protected override onNoIdentity(http: HttpContext): Promise<never> {
    return this.redirectToLogin(http, '/auth/login');
  }
}

/** Its routes name the event in ways of their own. */
@Controller()
class FairController {
  @Get('fairs/:id/booth')
  @UseGuards(ExhibitorGuard)
  booth(@Param('id') id: string, @CurrentEvent() eventId: string): object {
    return { id, eventId };
  }

  @Get('fairs/:id/hall')
  @UseGuards(ExhibitorGuard)
  @AllowAnonymous()
  hall(@CurrentEvent() eventId: string | undefined): object {
    return { eventId };
  }

  @Get('portals/:tenant/booths/:exhibitorId')
  @UseGuards(ExhibitorGuard)
  portal(@CurrentEvent() eventId: string): object {
    return { eventId };
  }

  @Get('fairs/:id/events/:eventId')
  @UseGuards(ExhibitorGuard)
  both(@CurrentEvent() eventId: string): object {
    return { eventId };
  }

  @Get('fairs/:id/page')
  @UseGuards(LeadingGuard)
  page(): void {}

  @Get('fairs/:id/login')
  @UseGuards(ExhibitorLoginGuard)
  login(): void {}

  @Get('frozen')
  @UseGuards(ExhibitorIdentityGuard)
  frozen(@CurrentIdentity() { claims }: ExhibitorIdentity): boolean[] {
    return [claims, ...Object.values(claims)].map((value) => Object.isFrozen(value));
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
let sandbox: ExhibitorSandbox;
beforeAll(async () => {
  sandbox = await startSandbox();
});
afterAll(() => sandbox?.stop());
afterEach(() => {
  answers = BY_REQUEST;
  lines.clear();
  sandbox.clearRequests();
});

function start(kind: HostKind, options: OtherOptions = {}): Promise<Host> {
  return startHost({
    kind,
    controllers: [BoothController, FairController],
    configure: (app) => app.useLogger(lines),
    options: (redirectUri) => ({
      tenants: Object.fromEntries(
        ['acme', 'globex', 'initech'].map((key) => [key, sandbox.tenantOptions(key, { redirectUri })]),
      ),
      resolveTenant: (...asked) => answers.resolveTenant?.(...asked),
      secrets: [COOKIE_SECRET],
      ...options,
    }),
  });
}

const sams = (): string[] =>
  sandbox
    .exhibitors('world-2026', 'acme')
    .filter(({ contactEmails }) => contactEmails.includes('sam.several@example.com'))
    .map(({ id }) => id);

describe.each(['express', 'fastify'] as const)('a request on %s', (kind) => {
  /** The second one has functions for event and exhibitor. */
  let host: Host;
  let resolving: Host;
  let members: Members;
  beforeAll(async () => {
    host = await start(kind);
    resolving = await start(kind, {
      resolveEvent: (...asked) => answers.resolveEvent?.(...asked),
      resolveExhibitor: (...asked) => answers.resolveExhibitor?.(...asked),
    });
    members = new Members(sandbox, host);
  });
  afterAll(() => Promise.all([host?.close(), resolving?.close()]));

  const get = (visitor: Visitor, path: string, headers = {}): Promise<Reply> =>
    visitor.visit(`${host.url}${path}`, { headers });
  const refused = (status: number, code: string): [number, object] => [
    status,
    expect.objectContaining({ code }) as object,
  ];
  const answerOf = async (reply: Promise<Reply>): Promise<[number, object]> => {
    const { status, text } = await reply;
    return [status, JSON.parse(text) as object];
  };

  describe('has a tenant', () => {
    it('of the person where it names none', async () => {
      const visitor = await members.enter('sam.several', { tenant: 'globex' });
      expect(bodyOf(await get(visitor, '/me'))).toMatchObject({
        tenant: 'globex',
        identity: { tenant: 'globex' },
      });
      const mine = bodyOf<{ id: string }[]>(await get(visitor, '/events/world-2026/mine'));
      expect(mine).toHaveLength(3);
      expect(mine.every(({ id }) => id.startsWith('globex-'))).toBe(true);
    });

    it('that the host answers: a login at another one does not count there', async () => {
      const visitor = await members.enter('sam.several', { tenant: 'acme' });
      const at = async (tenant: string): Promise<number> =>
        (await get(visitor, '/events/world-2026/mine', { 'x-tenant': tenant })).status;
      sandbox.clearRequests();
      expect(await at('globex')).toBe(401);
      expect(sandbox.requests).toHaveLength(0);
      expect(await at('acme')).toBe(200);
      expect(await at('initech')).toBe(401);
    });

    it('that the host answers later', async () => {
      answers = { resolveTenant: async () => 'initech' };
      const visitor = await signIn(sandbox, host);
      expect(bodyOf(await get(visitor, '/me'))).toMatchObject({ tenant: 'initech' });
    });

    it('for a login, where there are several: else it is 500, and the log says why', async () => {
      const message = 'Internal Server Error';
      expect(await answerOf(get(new Visitor(), '/auth/login'))).toEqual([
        500,
        { statusCode: 500, message, error: message, code: 'tenant_required' },
      ]);
      expect(lines.errors.join()).toContain('resolveTenant');
    });

    it('unless the host throws, whose exception is the reply', async () => {
      answers = {
        resolveTenant: () => {
          throw new HttpException('no such portal', 410);
        },
      };
      const [status, body] = await answerOf(get(new Visitor(), '/me'));
      expect([status, body]).toEqual([410, expect.objectContaining({ message: 'no such portal' })]);
    });
  });

  describe('has an event', () => {
    const login = { tenant: 'acme', eventId: 'boutique-2026' };
    const eventOf = async (path: string, headers = {}): Promise<unknown> => {
      const visitor = await members.enter('sam.several', login);
      return bodyOf(await get(visitor, path, headers))['eventId'];
    };

    it('of the route parameter, else of the query, else of the login', async () => {
      expect(await eventOf('/mine')).toBe('boutique-2026');
      expect(await eventOf('/mine?eventId=world-2026')).toBe('world-2026');
      const visitor = await members.enter('sam.several', login);
      const both = await get(visitor, '/events/regional-2026/mine?eventId=world-2026');
      expect(bodyOf<{ id: string }[]>(both)[0]?.id).toMatch(/^acme-regional-2026-/);
    });

    it('that the host answers, whatever the address contains; of the login where it answers none', async () => {
      // The event to log in for.
      answers = { ...BY_REQUEST, resolveEvent: () => 'regional-2026' };
      const visitor = await signIn(sandbox, resolving, 'sam.several', { tenant: 'acme' });
      const seen = [];
      for (const resolveEvent of [() => 'national-2026', async () => 'regional-2026', () => undefined]) {
        answers = { ...BY_REQUEST, resolveEvent };
        seen.push(bodyOf(await visitor.visit(`${resolving.url}/mine?eventId=world-2026`))['eventId']);
      }
      expect(seen).toEqual(['national-2026', 'regional-2026', 'regional-2026']);
      // Another one, which the login page or `redirectToLogin` names.
      answers = { ...BY_REQUEST, resolveEvent: () => 'regional-2026' };
      const other = await signIn(sandbox, resolving, 'sam.several', login);
      answers = { ...BY_REQUEST, resolveEvent: () => undefined };
      expect(bodyOf(await other.visit(`${resolving.url}/mine`))['eventId']).toBe('boutique-2026');
    });

    it.each([
      '/mine?eventId=..',
      '/mine?eventId=%00',
      '/events/a%0Ab/mine',
      `/mine?eventId=${'x'.repeat(129)}`,
      `/auth/login?tenant=acme&eventId=${'%00'.repeat(128)}`,
      '/auth/login?tenant=acme&eventId=..',
      '/auth/login?tenant=acme&eventId=a%C2%85',
    ])('that can be one: else it is 400, and nothing is sent: %s', async (path) => {
      const visitor = await members.enter('sam.several', login);
      sandbox.clearRequests();
      const [status, body] = await answerOf(get(visitor, path));
      expect([status, body]).toEqual(refused(400, 'invalid_argument'));
      expect(sandbox.requests).toHaveLength(0);
    });

    it('of no query and no login where the route has other parameters: 400, and one line for each route', async () => {
      const visitor = await members.enter('sam.several', login);
      sandbox.clearRequests();
      for (const query of ['', '?eventId=world-2026', '?eventId=boutique-2026']) {
        expect(await answerOf(get(visitor, `/fairs/world-2026/booth${query}`))).toEqual(
          refused(400, 'event_required'),
        );
        expect(await answerOf(get(visitor, `/fairs/world-2026/hall${query}`))).toEqual([200, {}]);
      }
      expect(sandbox.requests).toEqual([]);
      expect(lines.all.filter((line) => line.includes('resolveEvent'))).toEqual([
        expect.stringContaining('FairController.booth'),
        expect.stringContaining('FairController.hall'),
      ]);
    });

    it('that resolveEvent names on such a route, and no other where that names none', async () => {
      answers = {
        ...BY_REQUEST,
        resolveEvent: ({ params, query }) =>
          params['id'] === 'none' ? undefined : (params['id'] ?? String(query['eventId'])),
      };
      const visitor = await signIn(sandbox, resolving, 'sam.several', login);
      const at = (path: string) => answerOf(visitor.visit(`${resolving.url}${path}?eventId=boutique-2026`));
      const named = { id: 'world-2026', eventId: 'world-2026' };
      expect(await at('/fairs/world-2026/booth')).toEqual([200, named]);
      expect(await at('/fairs/none/booth')).toEqual(refused(400, 'event_required'));
      expect(lines.all).toEqual([]);
    });

    it('as elsewhere where the parameters are tenant and exhibitor, or one is eventId', async () => {
      const visitor = await members.enter('sam.several', login);
      const { ids } = bodyOf<{ ids: string[] }>(await get(visitor, '/mine'));
      expect(await answerOf(get(visitor, `/portals/acme/booths/${ids[0]}`))).toEqual([
        200,
        { eventId: 'boutique-2026' },
      ]);
      const both = answerOf(get(visitor, '/fairs/x/events/world-2026?eventId=boutique-2026'));
      expect(await both).toEqual([200, { eventId: 'world-2026' }]);
      expect(lines.all).toEqual([]);
    });

    it('for the page that a login leads back to, and a login route reads the query', async () => {
      const page = await get(new Visitor(), '/fairs/x/page?eventId=world-2026', { accept: 'text/html' });
      expect(page.headers.get('location')).toBe(
        `/auth/login?${new URLSearchParams({ returnTo: '/fairs/x/page?eventId=world-2026' })}`,
      );
      const started = await get(new Visitor(), '/fairs/x/login?eventId=world-2026&tenant=acme');
      expect(started.status).toBe(302);
      expect(lines.all).toEqual([]);
    });
  });

  describe('has an exhibitor', () => {
    const login = { tenant: 'acme', eventId: 'world-2026' };
    const booth = async (path: string, person = 'sam.several'): Promise<Reply> =>
      get(await members.enter(person, login), `/events/world-2026/${path}`);

    it('that is the only one of a person', async () => {
      const reply = await booth('booth', 'olga.one');
      expect(reply.status).toBe(200);
      expect(bodyOf(reply)['contactEmails']).toContain('olga.one@example.com');
    });

    it('or none: 409 where a person has several and selected none', async () => {
      expect(await answerOf(booth('booth'))).toEqual([
        409,
        {
          statusCode: 409,
          message: 'select one of your exhibitors first',
          error: 'Conflict',
          code: 'exhibitor_not_selected',
        },
      ]);
    });

    it('of the route, if it belongs to the person', async () => {
      for (const id of sams()) {
        expect(bodyOf(await booth(`booths/${id}`))['id']).toBe(id);
      }
      const foreign = sandbox.exhibitors('world-2026', 'acme').find(({ id }) => !sams().includes(id));
      for (const id of [foreign?.id, 'acme-boutique-2026-0001', 'nonsense']) {
        expect(await answerOf(booth(`booths/${id}`))).toEqual([
          403,
          {
            statusCode: 403,
            message: 'this exhibitor is not one of yours at this event',
            error: 'Forbidden',
            code: 'no_exhibitor',
          },
        ]);
      }
    });

    it('that the host answers, at once or later, if it belongs to the person', async () => {
      const resolveEvent = () => 'world-2026';
      answers = { ...BY_REQUEST, resolveEvent };
      const visitor = await signIn(sandbox, resolving, 'sam.several', login);
      const [, second = ''] = sams();
      const seen = [];
      for (const resolveExhibitor of [
        () => second,
        async () => second,
        () => 'acme-world-2026-0001',
        () => undefined,
      ]) {
        answers = { ...BY_REQUEST, resolveEvent, resolveExhibitor };
        const reply = await visitor.visit(`${resolving.url}/events/world-2026/booth`);
        seen.push(reply.status === 200 ? bodyOf(reply)['id'] : reply.status);
      }
      expect(seen).toEqual([second, second, 403, 409]);
    });
  });
});

it('identifies exhibitors by the id that the host answers', async () => {
  const exhibitorId = ({ booth }: Record<string, unknown>): string => `booth ${String(booth)}`;
  const host = await start('fastify', { exhibitorId });
  try {
    const visitor = await signIn(sandbox, host, 'sam.several', { tenant: 'acme' });
    const at = (path: string): Promise<Reply> => visitor.visit(`${host.url}/events/world-2026/${path}`);
    const [first] = bodyOf<{ id: string; booth: string }[]>(await at('mine'));
    expect(bodyOf(await at(`booths/booth%20${first?.booth}`))['id']).toBe(first?.id);
    expect((await at(`booths/${first?.id}`)).status).toBe(403);
  } finally {
    await host.close();
  }
});

it.each(['cookie', 'host', 'bearer'] as const)(
  "knows no tenant of an empty key, and asks its source for none (session: '%s')",
  async (session) => {
    const asked: string[] = [];
    const find = (key: string) => {
      asked.push(key);
      return sandbox.tenantOptions('acme');
    };
    const host = await startHost({
      kind: 'fastify',
      options: () => ({
        tenants: { find },
        allowedOrigins: () => true,
        resolveTenant: () => '',
        session,
        secrets: [COOKIE_SECRET],
      }),
    });
    try {
      for (const path of ['me', 'mine?eventId=world-2026', 'events/world-2026/booth', 'auth/login']) {
        const reply = await fetch(`${host.url}/${path}`, { headers: { authorization: 'Bearer e.e.e' } });
        expect([reply.status, await reply.json()]).toEqual([
          404,
          expect.objectContaining({ code: 'unknown_tenant' }),
        ]);
      }
      const calls = host.app.get(ExhibitorsService).forTenant('').list('world-2026');
      await expect(firstValueFrom(calls)).rejects.toMatchObject({
        code: expect.stringMatching(/unknown_tenant|invalid_argument/),
      });
      await expect(host.app.get(TenantRegistry).get('')).rejects.toMatchObject({ code: 'unknown_tenant' });
      expect(asked).toEqual([]);
    } finally {
      await host.close();
    }
  },
);

it('looks exhibitors up with the client-credentials token of the tenant, never with a token of the login', async () => {
  const host = await start('fastify');
  try {
    const visitor = await signIn(sandbox, host, 'sam.several', { tenant: 'acme' });
    expect((await visitor.visit(`${host.url}/events/world-2026/mine`)).status).toBe(200);
  } finally {
    await host.close();
  }
  const [acme] = sandbox.tenants;
  const grants = traced(sandbox).filter(({ operation }) => operation === 'token');
  expect(grants.map(({ body, clientId }) => [body['grant_type'], clientId])).toEqual([
    ['authorization_code', acme?.loginClientId],
    ['client_credentials', acme?.clientId],
  ]);
  const lookups = traced(sandbox).filter(({ operation }) => operation === 'lookup');
  expect(lookups).toEqual([
    expect.objectContaining({
      contactEmail: 'sam.several@example.com',
      tenantId: acme?.tenantId,
      tokenClaims: expect.objectContaining({ client_id: acme?.clientId, scope: 'idp_api' }),
    }),
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
  let host: Host;
  beforeAll(async () => {
    host = await start('fastify');
  });
  afterEach(() => {
    jest.restoreAllMocks();
    clockOf(host.app).back();
  });
  afterAll(() => host?.close());

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
    const replies = [await ask(cookie), await ask(cookie), await ask(cookie)];
    expect(replies.map(({ status }) => status)).toEqual([200, 200, 200]);
    expect(new Set(replies.map(({ text }) => text)).size).toBe(1);
    expect(new Set(replies.map(({ headers }) => headers.get('cache-control')))).toEqual(
      new Set(['private, no-store']),
    );
    clockOf(host.app).skip(3_600_000, ['now']);
    expect((await ask(cookie)).status).toBe(200);
    expect(opened()).toBe(1);
  });

  it('starts no deadline, and so no timer, once cookie and lookup are remembered', async () => {
    const visitor = await enter('sam.several');
    const deadlines = jest.spyOn(host.app.get(Deadlines, { strict: false }), 'start');
    const started: number[] = [];
    for (let visit = 0; visit < 3; visit += 1) {
      expect((await visitor.visit(`${host.url}/events/regional-2026/mine`)).status).toBe(200);
      started.push(deadlines.mock.calls.length);
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
    await visitor.visit(`${host.url}/auth/logout`, { method: 'POST' });
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

  it('follows a selection at once, without opening the cookie', async () => {
    const visitor = await enter('sam.several');
    const booth = async (): Promise<[number, unknown]> => {
      const reply = await visitor.visit(`${host.url}/events/world-2026/booth`);
      return [reply.status, bodyOf(reply)['id']];
    };
    expect(await booth()).toEqual([409, undefined]);
    const opened = openings();
    for (const id of sams().slice(0, 2)) {
      await visitor.visit(`${host.url}/events/world-2026/select`, { json: { id } });
      expect(await booth()).toEqual([200, id]);
    }
    expect(opened()).toBe(0);
  });

  it('hands out claims that no handler can change for other requests', async () => {
    const visitor = await enter();
    for (let visit = 0; visit < 2; visit += 1) {
      const frozen = bodyOf<boolean[]>(await visitor.visit(`${host.url}/frozen`));
      expect(frozen.length).toBeGreaterThan(2);
      expect(new Set(frozen)).toEqual(new Set([true]));
    }
  });
});

describe('a tenant of a source whose key passes to another customer', () => {
  it('is the checked one until the reply, and its users are nobody afterwards', async () => {
    let customer = 'acme';
    let isPassingOn = false;
    const host = await startHost({
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
    });
    const visitor = await signIn(sandbox, host);
    const mine = (): Promise<Reply> => visitor.visit(`${host.url}/events/world-2026/mine`);
    const before = await mine();
    expect(before.status).toBe(200);
    isPassingOn = true;
    expect((await mine()).text).toBe(before.text);
    expect((await mine()).status).toBe(401);
    await host.close();
  });
});
