import { afterEach, describe, expect, it } from '@jest/globals';
import {
  Catch,
  Controller,
  ForbiddenException,
  Get,
  HttpException,
  Inject,
  Injectable,
  Post,
  Redirect,
  Req,
  UseFilters,
  UseGuards,
  type ArgumentsHost,
  type CanActivate,
  type Type,
} from '@nestjs/common';
import { HttpAdapterHost } from '@nestjs/core';
import {
  CurrentExhibitor,
  CurrentIdentity,
  ExhibitorCallbackGuard,
  ExhibitorGuard,
  ExhibitorIdentityGuard,
  ExhibitorLoginGuard,
  ExhibitorLogoutGuard,
  type Exhibitor,
  type ExhibitorError,
  type ExhibitorIdentity,
  type ExhibitorRequest,
  type HttpContext,
} from '../../lib/index.js';
import { identityOf } from '../login/journey.js';
import { BoothController } from '../support/booth.controller.js';
import { COOKIE_SECRET, startHost, tenantsOptions, type Host, type HostKind } from '../support/host.js';
import { useClosing, useHost, useSandbox } from '../support/lifetimes.js';
import { OperatorLines } from '../support/operator-lines.js';
import { loadSnippets } from '../support/snippets.js';
import { Visitor, type Reply } from '../support/visitor.js';
import { answerOf, bodyOf, idsOf, Members, refused, signIn } from './signed-in.js';

const HTML = { accept: 'text/html' };

/** Leads everybody whom it would refuse to a page. */
@Injectable()
class LeadingGuard extends ExhibitorGuard {
  protected override onNoIdentity(http: HttpContext): Promise<never> {
    return this.redirectToLogin(http);
  }

  protected override onNoEvent(http: HttpContext, { subject }: ExhibitorIdentity): Promise<never> {
    return this.redirect(http, `/which-event?for=${subject}`);
  }

  protected override onNoExhibitor(
    http: HttpContext,
    { subject }: ExhibitorIdentity,
    eventId: string,
  ): Promise<never> {
    return this.redirect(http, `/no-booth?for=${subject}&at=${eventId}`);
  }

  protected override onNotSelected(http: HttpContext, _: ExhibitorIdentity, eventId: string): Promise<never> {
    return this.redirect(http, `/choose?at=${eventId}`);
  }
}

/** Lets everybody pass who is logged in. */
@Injectable()
class LenientGuard extends ExhibitorGuard {
  protected override onNoExhibitor(): void {}
  protected override async onNotSelected(): Promise<void> {}
}

/** Asks for the login again, whatever is missing. */
@Injectable()
class AskingGuard extends ExhibitorGuard {
  protected override onNoExhibitor(http: HttpContext): Promise<never> {
    return this.redirectToLogin(http, '/auth/login?switch');
  }
}

const KEY_HOLDER: Omit<ExhibitorIdentity, 'tenant'> = {
  id: '',
  issuer: 'host',
  subject: 'machine',
  email: 'olga.one@example.com',
  claims: {},
  tenantId: '',
  clientId: '',
  redirectUri: '',
  expiresAt: Number.MAX_SAFE_INTEGER,
};

/** Knows machines by a key, and people by another address than that of the provider. */
@Injectable()
class OwnPeopleGuard extends ExhibitorGuard {
  protected override async getIdentity(
    http: HttpContext,
    tenant?: string,
  ): Promise<ExhibitorIdentity | undefined> {
    const key = http.request.headers['x-key'];
    if (key === 'nothing') {
      return undefined;
    }
    const identity = await super.getIdentity(http, tenant);
    return typeof key === 'string'
      ? { ...KEY_HOLDER, tenant: key }
      : identity && { ...identity, email: 'olga.one@example.com' };
  }

  // As code without types may write it.
  protected override onNoIdentity(): ExhibitorIdentity {
    return undefined as unknown as ExhibitorIdentity;
  }
}

/** Answers a missing choice by what the guard has found until then. */
@Catch(HttpException)
class ChoiceFilter {
  constructor(@Inject(HttpAdapterHost) private readonly adapterHost: HttpAdapterHost) {}

  catch(_error: unknown, host: ArgumentsHost): void {
    const http = host.switchToHttp();
    const { exhibitorContext: found, exhibitors } = http.getRequest<ExhibitorRequest>();
    const { identity, tenant, eventId } = found ?? {};
    const body = {
      subject: identity?.subject,
      tenant,
      eventId,
      ids: exhibitors?.map((one) => Object(one).id),
    };
    this.adapterHost.httpAdapter.reply(http.getResponse(), body, 300);
  }
}

const ran: string[] = [];

@Controller('led/:eventId')
@UseGuards(LeadingGuard)
class LedController {
  @Get('booth')
  booth(@CurrentExhibitor() { id }: Exhibitor): object {
    ran.push('booth');
    return { id };
  }

  @Post('booth')
  change(@CurrentExhibitor() { id }: Exhibitor): object {
    ran.push('change');
    return { id };
  }

  @Get('any')
  any(@Req() { exhibitors }: ExhibitorRequest): object {
    return { count: exhibitors?.length };
  }
}

/** Nest keeps parameters by the name of a handler, so that a subclass has them, also where it replaces the handler. */
@Controller('led-too/:eventId')
class InheritingController extends LedController {
  @Get('booth')
  override booth(exhibitor: Exhibitor): object {
    return super.booth(exhibitor);
  }
}

@Controller()
class StepsController {
  @Get('led-nowhere')
  @UseGuards(LeadingGuard)
  nowhere(): void {}

  @Get('lenient/:eventId')
  @UseGuards(LenientGuard)
  lenient(@CurrentExhibitor() exhibitor?: Exhibitor): object {
    return { id: exhibitor?.['id'] ?? null };
  }

  @Get('asking/:eventId')
  @UseGuards(AskingGuard)
  asking(): void {}

  @Get('choosing/:eventId')
  @UseGuards(ExhibitorGuard)
  @UseFilters(ChoiceFilter)
  choosing(@CurrentExhibitor() exhibitor: Exhibitor): object {
    return exhibitor;
  }

  @Get('own/:eventId')
  @UseGuards(OwnPeopleGuard)
  own(@CurrentExhibitor() exhibitor: Exhibitor, @CurrentIdentity() { subject, tenant }: ExhibitorIdentity) {
    return { id: exhibitor['id'], subject, tenant };
  }

  @Get('own-after-another/:eventId')
  @UseGuards(ExhibitorIdentityGuard, OwnPeopleGuard)
  ownAfter(@Req() { user }: ExhibitorRequest, @CurrentIdentity() { email }: ExhibitorIdentity) {
    return { user, email };
  }
}

const sandbox = await useSandbox();
const closing = useClosing();
const log = new OperatorLines();
afterEach(() => {
  log.clear();
  ran.length = 0;
});

describe.each(['express', 'fastify'] as const)('steps of a host on %s', (kind) => {
  const asked: string[] = [];
  const host = useHost(() =>
    startHost({
      kind,
      controllers: [BoothController, LedController, InheritingController, StepsController],
      configure: (app) => app.useLogger(log),
      options: (url) => ({
        routes: ':tenant/auth',
        tenants: {
          find: (key) => {
            asked.push(key);
            return key === 'acme' ? sandbox.tenantOptions('acme', { redirectUri: url }) : undefined;
          },
        },
        tenantCache: { ttl: 1 },
        allowedOrigins: () => true,
        resolveTenant: () => {
          asked.push('resolveTenant');
          return 'acme';
        },
        resolveEvent: ({ params, query }) => {
          asked.push('resolveEvent');
          return params['eventId'] ?? (query['eventId'] as string | undefined);
        },
        secrets: [COOKIE_SECRET],
      }),
    }),
  );
  const members = new Members(sandbox, host);
  const visit = async (path: string, person?: string, init: object = {}): Promise<Reply> =>
    (person === undefined ? new Visitor() : await members.enter(person)).visit(`${host.url}${path}`, init);
  const ledTo = ({ status, location }: Reply) => [status, location?.slice(host.url.length)];

  it.each([
    [
      'without an exhibitor',
      'GET',
      302,
      '/led/world-2026/any',
      'nora.none',
      '/no-booth?for=nora.none&at=world-2026',
    ],
    [
      'the same by POST',
      'POST',
      303,
      '/led/world-2026/booth',
      'nora.none',
      '/no-booth?for=nora.none&at=world-2026',
    ],
    ['without an event', 'GET', 302, '/led-nowhere', 'sam.several', '/which-event?for=sam.several'],
    ['who has to choose', 'GET', 302, '/led/world-2026/booth', 'sam.several', '/choose?at=world-2026'],
    ['the same by POST', 'POST', 303, '/led/world-2026/booth', 'sam.several', '/choose?at=world-2026'],
    [
      'by an inherited handler',
      'POST',
      303,
      '/led-too/world-2026/booth',
      'sam.several',
      '/choose?at=world-2026',
    ],
    [
      'by a replaced handler',
      'GET',
      302,
      '/led-too/world-2026/booth',
      'sam.several',
      '/choose?at=world-2026',
    ],
  ])('lead a person %s to a page', async (_, method, status, path, person, location) => {
    const reply = await visit(path, person, { method });
    expect(ledTo(reply)).toEqual([status, location]);
    expect(reply.headers.get('cache-control')).toBe('private, no-store');
    expect(ran).toEqual([]);
  });

  it('are not asked for a choice where the handler needs none, nor where there is one', async () => {
    const count = idsOf(sandbox).length;
    expect(answerOf(await visit('/led/world-2026/any', 'sam.several'))).toEqual([200, { count }]);
    const [id] = idsOf(sandbox, 'world-2026', 'olga.one');
    expect(answerOf(await visit('/led/world-2026/booth', 'olga.one'))).toEqual([200, { id }]);
  });

  it('let the handler run where they return nothing, with no exhibitor for one who has to choose', async () => {
    expect(answerOf(await visit('/lenient/world-2026', 'sam.several'))).toEqual([200, { id: null }]);
    const none = await visit('/lenient/world-2026', 'nora.none');
    expect(answerOf(none)).toEqual(refused(409, 'exhibitor_not_selected'));
  });

  it('leave what was found on the request where a person has to choose, for a filter of the host', async () => {
    const found = { subject: 'sam.several', tenant: 'acme', eventId: 'world-2026', ids: idsOf(sandbox) };
    expect(answerOf(await visit('/choosing/world-2026', 'sam.several'))).toEqual([300, found]);
  });

  it('find the login of `routes` beside the callback of the tenant, and lead navigations only', async () => {
    const reply = await visit('/led/world-2026/any?a=b', undefined, { headers: HTML });
    const query = 'eventId=world-2026&returnTo=%2Fled%2Fworld-2026%2Fany%3Fa%3Db';
    expect(ledTo(reply)).toEqual([302, `/auth/login?${query}`]);
    expect(answerOf(await visit('/led/world-2026/any'))).toEqual(refused(401, 'unauthenticated'));
  });

  it('ask functions of the host once for each request, whatever steps follow', async () => {
    await members.enter('nora.none');
    asked.length = 0;
    const reply = await visit('/asking/world-2026', 'nora.none', { headers: HTML });
    const query = 'eventId=world-2026&returnTo=%2Fasking%2Fworld-2026';
    expect(ledTo(reply)).toEqual([302, `/auth/login?switch&${query}`]);
    expect(asked.filter((one) => one.startsWith('resolve'))).toEqual(['resolveTenant', 'resolveEvent']);
  });

  it('may return an identity that was changed, and one of the host, of a tenant that exists', async () => {
    const [id] = idsOf(sandbox, 'world-2026', 'olga.one');
    const sam = await visit('/own/world-2026', 'sam.several');
    expect(answerOf(sam)).toEqual([200, { id, subject: 'sam.several', tenant: 'acme' }]);
    const changed = { email: 'olga.one@example.com' };
    const after = await visit('/own-after-another/world-2026', 'sam.several');
    expect(bodyOf(after)).toMatchObject({ ...changed, user: changed });
    const own = (tenant: string) => visit('/own/world-2026', undefined, { headers: { 'x-key': tenant } });
    expect(answerOf(await own('acme'))).toEqual([200, { id, subject: 'machine', tenant: 'acme' }]);
    expect(answerOf(await own('none'))).toEqual(refused(404, 'unknown_tenant'));
    // Doubt closes: no identity is no user.
    expect(answerOf(await own('nothing'))).toEqual(refused(401, 'unauthenticated'));
  });
});

it('without `routes`, redirectToLogin needs a path, and says so', async () => {
  const { url } = closing(
    await startHost({
      controllers: [LedController],
      configure: (app) => app.useLogger(log),
      options: (redirectUri) => ({
        tenant: sandbox.tenantOptions('acme', { redirectUri }),
        secrets: [COOKIE_SECRET],
      }),
    }),
  );
  const reply = await new Visitor().visit(`${url}/led/world-2026/any`, { headers: HTML });
  expect(answerOf(reply)).toEqual(refused(500, 'configuration_invalid'));
  expect(log.errors.join()).toContain('routes: must be set, or redirectToLogin be called with the path');
});

/** What `onLoggedIn` does, and what the guard was told. */
let welcome: (http: HttpContext, identity: ExhibitorIdentity) => unknown;
const failures: ExhibitorError[] = [];

@Injectable()
class WelcomingGuard extends ExhibitorCallbackGuard {
  protected override async onLoggedIn(http: HttpContext, identity: ExhibitorIdentity): Promise<void> {
    await welcome(http, identity);
    if (identity.subject === 'sam.several') {
      return this.redirect(http, '/welcome');
    }
  }

  protected override onLoginFailed(http: HttpContext, error: ExhibitorError): void | Promise<void> {
    failures.push(error);
    return http.request.query['page'] === undefined ? super.onLoginFailed(http, error) : undefined;
  }
}

@Injectable()
class RetryingGuard extends ExhibitorCallbackGuard {
  protected override onLoginFailed(http: HttpContext): Promise<never> {
    return this.redirectToLogin(http, '/auth/login');
  }
}

@Controller()
class WelcomingController {
  @Get('auth/login')
  @UseGuards(ExhibitorLoginGuard)
  login(): void {}

  @Get('auth/callback')
  @UseGuards(WelcomingGuard)
  @Redirect('/', 303)
  callback(@CurrentIdentity() { returnTo = '/' }: ExhibitorIdentity): { url: string } {
    return { url: returnTo };
  }

  @Get('retried/callback')
  @UseGuards(RetryingGuard)
  retried(): void {}

  @Post('auth/logout')
  @UseGuards(ExhibitorLogoutGuard)
  logout(): void {}

  @Get('me')
  @UseGuards(ExhibitorIdentityGuard)
  me(@CurrentIdentity() identity: ExhibitorIdentity): object {
    return { identity };
  }
}

const KINDS: [HostKind, 'cookie' | 'host'][] = [
  ['express', 'cookie'],
  ['fastify + @fastify/session', 'host'],
];

describe.each(KINDS)("onLoggedIn on %s, with session '%s'", (kind, session) => {
  const host = useHost(() => start('auth/callback'));
  const start = (path: string): Promise<Host> =>
    startHost({
      kind,
      controllers: [WelcomingController],
      configure: (app) => app.useLogger(log),
      options: (_, url) => ({
        tenant: sandbox.tenantOptions('acme', { redirectUri: `${url}/${path}` }),
        secrets: [COOKIE_SECRET],
        session,
        logoutCheck: { ttl: 0 },
      }),
    });
  afterEach(() => void (failures.length = 0));

  it('hears of each login with its identity, which is kept then, and may lead to a page', async () => {
    const heard: unknown[] = [];
    welcome = ({ request }, identity) => {
      heard.push([identity.subject, identity.returnTo, request.user === identity]);
    };
    expect(await identityOf(await signIn(sandbox, host, 'olga.one'), host)).toMatchObject({
      subject: 'olga.one',
    });
    sandbox.signInAs('sam.several');
    const visitor = new Visitor();
    const led = await visitor.follow(`${host.url}/auth/login`, ({ pathname }) => pathname === '/welcome');
    expect([led.status, led.location]).toEqual([302, `${host.url}/welcome`]);
    expect(await identityOf(visitor, host)).toMatchObject({ subject: 'sam.several' });
    expect(heard).toEqual([
      ['olga.one', '/landed', true],
      ['sam.several', undefined, true],
    ]);
  });

  it.each<[what: string, thrown: unknown, status: number, message: string]>([
    ['an error', new TypeError('no row'), 500, 'Internal Server Error'],
    ['nothing', undefined, 500, 'Internal Server Error'],
    ['an HttpException', new ForbiddenException('no seat left'), 403, 'no seat left'],
  ])(
    'that throws %s fails the callback, ends the login and is logged',
    async (_, thrown, status, message) => {
      const visitor = new Visitor();
      const copy = new Visitor();
      welcome = (http) => {
        // As a copy of the reply would have it.
        const sealed = http.replyCookie('exhibitor-identity')?.value;
        expect(sealed === undefined).toBe(session === 'host');
        copy.cookies('127.0.0.1').set('exhibitor-identity', sealed ?? '');
        throw thrown;
      };
      sandbox.signInAs('olga.one');
      const reply = await visitor.follow(`${host.url}/auth/login?returnTo=/landed`);
      expect([reply.status, bodyOf(reply)['message']]).toEqual([status, message]);
      expect((await visitor.visit(`${host.url}/me`)).status).toBe(401);
      const sent = reply.setCookies.filter((one) => one.startsWith('exhibitor-identity='));
      expect(sent.every((one) => one.startsWith('exhibitor-identity=;'))).toBe(true);
      expect((await copy.visit(`${host.url}/me`)).status).toBe(401);
      expect(failures.map(({ code, cause }) => ({ code, cause }))).toEqual([
        { code: 'service_unavailable', cause: thrown },
      ]);
      expect(log.errors.join('\n')).toMatch(/WelcomingGuard\.onLoggedIn: the function of the host failed/);
    },
  );

  it('of the callback, redirectToLogin leads to a new login for what the failed one was for', async () => {
    const retried = closing(await start('retried/callback'));
    const visitor = new Visitor();
    const toProvider = await visitor.visit(`${retried.url}/auth/login?eventId=world-2026&returnTo=/landed`);
    const state = new URL(toProvider.location ?? '').searchParams.get('state');
    const failed = (of: string) =>
      visitor.visit(`${retried.url}/retried/callback?error=access_denied&state=${of}`, { headers: HTML });
    const again = `${retried.url}/auth/login`;
    expect((await failed(String(state))).location).toBe(`${again}?eventId=world-2026&returnTo=%2Flanded`);
    expect((await failed('none')).location).toBe(again);
  });
});

interface Examples {
  FairGuard: Type<CanActivate>;
  PortalLoginGuard: Type<CanActivate>;
  UserRowGuard: Type<CanActivate>;
  Users: Type<{ rows: Map<string, ExhibitorIdentity> }>;
}

describe('the subclasses of docs/guards.md', () => {
  /** A host with those of the page. */
  async function startExamples() {
    const examples = await loadSnippets<Examples>('guards.md', 'tenant and event', 'row of the user');

    @Controller()
    class PortalController {
      @Get('portals/:portal/login')
      @UseGuards(examples.PortalLoginGuard)
      login(): void {}

      @Get('portals/:portal/fairs/:fair/booth')
      @UseGuards(examples.FairGuard)
      booth(@CurrentExhibitor() { id }: Exhibitor): object {
        return { id };
      }

      @Get('auth/callback')
      @UseGuards(examples.UserRowGuard)
      @Redirect('/', 303)
      callback(): void {}
    }

    const host = await startHost({
      controllers: [PortalController],
      providers: [examples.Users],
      options: tenantsOptions(sandbox, ['acme', 'globex']),
    });
    return { ...closing(host), examples };
  }

  const landed = ({ pathname }: URL): boolean => pathname === '/';

  it('find another tenant and another event, and keep a row for each user', async () => {
    const { url, app, examples } = await startExamples();
    const visitor = new Visitor();
    sandbox.signInAs('olga.one');
    await visitor.follow(`${url}/portals/acme/login`, landed);
    const booth = (portal: string) => visitor.visit(`${url}/portals/${portal}/fairs/world-2026/booth`);
    const [id] = idsOf(sandbox, 'world-2026', 'olga.one');
    expect(answerOf(await booth('acme'))).toEqual([200, { id }]);
    for (const portal of ['globex', 'none']) {
      expect(answerOf(await booth(portal))).toEqual(refused(401, 'unauthenticated'));
    }
    expect(answerOf(await visitor.visit(`${url}/portals/none/login`))).toEqual(
      refused(404, 'unknown_tenant'),
    );

    sandbox.signInAs('nora.none');
    await visitor.follow(`${url}/portals/globex/login`, landed);
    const rows = [...app.get(examples.Users).rows.values()];
    const issuer = sandbox.url;
    expect(rows).toMatchObject([
      { tenant: 'acme', issuer, subject: 'olga.one', email: 'olga.one@example.com' },
      { tenant: 'globex', issuer, subject: 'nora.none', email: 'nora.none@example.com' },
    ]);
  });
});
