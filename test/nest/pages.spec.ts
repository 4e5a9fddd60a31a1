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
  UseGuards,
  type ArgumentsHost,
  type CallHandler,
  type ExecutionContext,
  type NestInterceptor,
} from '@nestjs/common';
import { APP_FILTER, APP_GUARD, APP_INTERCEPTOR, BaseExceptionFilter } from '@nestjs/core';
import express from 'express';
import helmet from 'helmet';
import { map, type Observable } from 'rxjs';
import {
  CurrentExhibitor,
  CurrentExhibitors,
  escapeHtml,
  ExhibitorCallbackGuard,
  ExhibitorError,
  ExhibitorExceptionFilter,
  ExhibitorGuard,
  ExhibitorIdentityGuard,
  ExhibitorLoginGuard,
  ExhibitorModule,
  isExhibitorError,
  type Exhibitor,
  type ExhibitorIdentity,
  type HttpContext,
  type LoginRoutes,
  type PageView,
} from '../../lib/index.js';
import { clockOf } from '../support/clock.js';
import { setUser, type Host } from '../support/host.js';
import { useClosing, useHost, useSandbox } from '../support/lifetimes.js';
import { OperatorLines } from '../support/operator-lines.js';
import { formFields, Visitor, type Reply } from '../support/visitor.js';
import { browse, open, PAGE, routesHosts, SiteController, type Given } from './people.js';
import { bodyOf, idsOf } from './signed-in.js';

const HOUR = 3_600_000;
const DAY = 24 * HOUR;

const SCRIPT = { accept: '*/*', 'sec-fetch-dest': 'empty', 'sec-fetch-mode': 'cors' };

/** Of all people: hosts keep such errors in constants. */
const CLOSED = new ForbiddenException('a word of the host');

@Injectable()
class ClosedGuard extends ExhibitorGuard {
  protected override onNoExhibitor(): never {
    throw CLOSED;
  }
}

@Injectable()
class BrokenGuard extends ExhibitorIdentityGuard {
  protected override allowsAnonymous(): never {
    throw new Error('a fault of the host');
  }
}

/** Of a form that the page of a provider posts. */
const POSTED = { ...PAGE, 'sec-fetch-site': 'cross-site', origin: 'https://login.example.com' };

/** Refuses the identities that the callback accepts. */
@Injectable()
class StrictGuard extends ExhibitorIdentityGuard {
  protected override getIdentity(): undefined {
    return undefined;
  }
}

@Injectable()
class Wrapping implements NestInterceptor {
  intercept(_: ExecutionContext, next: CallHandler): Observable<unknown> {
    return next.handle().pipe(map((data: unknown) => ({ data })));
  }
}

/** The line of the documentation. */
@Catch()
class EverythingFilter extends BaseExceptionFilter {
  constructor(@Inject(ExhibitorExceptionFilter) private readonly exhibitorFilter: ExhibitorExceptionFilter) {
    super();
  }

  override catch(error: unknown, host: ArgumentsHost): unknown {
    const { cause } = Object(error) as { cause?: unknown };
    if (isExhibitorError(error) || isExhibitorError(cause)) {
      return this.exhibitorFilter.catch(error, host);
    }
    return super.catch(error, host);
  }
}

@Catch()
class SilentFilter {
  catch(_error: unknown, host: ArgumentsHost): void {
    const response = host
      .switchToHttp()
      .getResponse<{ status(code: number): { send(body: string): void } }>();
    response.status(500).send('words of the host');
  }
}

@Injectable()
class ProxiedGuard extends ExhibitorCallbackGuard {
  protected override getCallbackPath(http: HttpContext): string {
    return `/portal${http.target.pathname}`;
  }
}

@Injectable()
class FailingCallbackGuard extends ExhibitorCallbackGuard {
  protected override getCallbackPath(): never {
    throw new Error('a fault of the host');
  }
}

@Injectable()
class OwnLoginGuard extends ExhibitorLoginGuard {
  protected override getLoginParameters(): { uiLocales: string } {
    return { uiLocales: 'de' };
  }
}

@Injectable()
class RefusingCallbackGuard extends ExhibitorCallbackGuard {
  protected override onLoggedIn(_http: HttpContext, identity: ExhibitorIdentity): void {
    throw new HttpException(`${identity.subject} is blocked`, 403);
  }
}

@Controller()
class Site extends SiteController {
  @Post('events/:eventId/booth')
  @UseGuards(ExhibitorGuard)
  change(@CurrentExhibitor() { id }: Exhibitor): string {
    return `changed ${String(id)}`;
  }

  @Get('events/:eventId/all')
  @UseGuards(ExhibitorGuard)
  all(@CurrentExhibitors() exhibitors: Exhibitor[]): string {
    return `all ${exhibitors.length}`;
  }

  @Get('events/:eventId/sign-in')
  @UseGuards(OwnLoginGuard)
  signIn(): void {}

  @Post('events/:eventId/sign-in')
  @UseGuards(OwnLoginGuard)
  postedSignIn(): void {}

  @Get('unguarded')
  unguarded(@CurrentExhibitor() exhibitor: Exhibitor): unknown {
    return exhibitor;
  }

  @Get('closed/:eventId')
  @UseGuards(ClosedGuard)
  closed(): void {}

  @Get('shut')
  shut(): void {
    throw CLOSED;
  }

  @Get('broken')
  @UseGuards(BrokenGuard)
  broken(): void {}

  @Get('strict')
  @UseGuards(StrictGuard)
  strict(): void {}

  @Get('own-error')
  own(): void {
    throw new HttpException({ words: 'of the host' }, 418, {
      cause: new ExhibitorError('not_found', 'none'),
    });
  }

  @Post('profile')
  @UseGuards(ExhibitorIdentityGuard)
  update(): void {}
}

const sandbox = await useSandbox();
const closing = useClosing();
const log = new OperatorLines();
afterEach(() => log.clear());

const startSite = routesHosts(sandbox, log, Site);
const start = async (given?: Given): Promise<Host> => closing(await startSite(given));

async function signedIn(
  host: Pick<Host, 'url'>,
  person = 'olga.one',
  login = '/auth/login',
): Promise<Visitor> {
  sandbox.signInAs(`${person}@example.com`);
  const visitor = new Visitor();
  await browse(visitor, `${host.url}${login}`);
  return visitor;
}

function expectPage(reply: Reply, status: number, title: string): void {
  const { headers, text } = reply;
  expect([reply.status, /<h1>(.*?)<\/h1>/.exec(text)?.[1]]).toEqual([status, title]);
  expect(Object.fromEntries(headers)).toMatchObject({
    'content-type': 'text/html; charset=utf-8',
    'cache-control': 'private, no-store',
    'referrer-policy': 'no-referrer',
    'x-robots-tag': 'noindex',
    'x-frame-options': 'DENY',
    'content-security-policy': expect.stringMatching(
      /^default-src 'none'; style-src 'sha256-[^']+'; base-uri 'none'; frame-ancestors 'none'$/,
    ),
  });
}

function expectLed(reply: Reply, status: number, location: string): void {
  expect([reply.status, reply.location]).toEqual([status, location]);
  expect(reply.headers.get('cache-control')).toBe('private, no-store');
}

const queryOf = (query: Record<string, string>): string => new URLSearchParams(query).toString();

describe.each(['express', 'fastify'] as const)('people at the routes of the module, on %s', (kind) => {
  const host = useHost(() => startSite({ kind }));

  it('are led to the login, and back to where they were', async () => {
    sandbox.signInAs('olga.one@example.com');
    const visitor = new Visitor();
    const led = await open(visitor, `${host.url}/events/world-2026/booth?a=b`);
    const query = { eventId: 'world-2026', returnTo: '/events/world-2026/booth?a=b', led: '1' };
    expectLed(led, 302, `${host.url}/auth/login?${queryOf(query)}`);
    const page = await browse(visitor, `${host.url}/events/world-2026/booth?a=b`);
    expect([page.status, page.text]).toEqual([200, `booth ${idsOf(sandbox, 'world-2026', 'olga.one')[0]}`]);
    expect(visitor.cookies().get('exhibitor-led')).toBe('1');
    expect((await browse(visitor, `${host.url}/profile`)).text).toBe('profile');
  });

  it.each<[what: string, status: number, headers: Record<string, string>, method?: string]>([
    ['a script', 401, SCRIPT],
    ['a script that says so', 401, { accept: 'text/html', 'x-requested-with': 'XMLHttpRequest' }],
    ['an image', 401, { accept: 'text/html', 'sec-fetch-dest': 'image' }],
    ['another program', 401, {}],
  ])('are no %s, which gets JSON', async (_, status, headers, method = 'GET') => {
    const reply = await new Visitor().visit(`${host.url}/profile`, { headers, method });
    expect([reply.status, bodyOf(reply)]).toMatchObject([status, { code: 'unauthenticated' }]);
  });

  it('see the page in a frame, and after a form, without being led', async () => {
    const framed = await open(new Visitor(), `${host.url}/profile`, { ...PAGE, 'sec-fetch-dest': 'iframe' });
    expectPage(framed, 401, 'You are not logged in');
    const form = { a: 'b' };
    const sent = await new Visitor().visit(`${host.url}/events/world-2026/booth`, { form, headers: PAGE });
    expectPage(sent, 401, 'You are not logged in');
    expect(sent.text).toContain('href="/auth/login?eventId=world-2026"');
  });

  it('are asked which exhibitor, and go on with the one they choose', async () => {
    const visitor = await signedIn(host, 'sam.several');
    const address = `${host.url}/events/world-2026/booth`;
    const asked = await open(visitor, address);
    const query = queryOf({ eventId: 'world-2026', returnTo: '/events/world-2026/booth' });
    expectLed(asked, 302, `${host.url}/auth/choose?${query}`);
    const page = await browse(visitor, address);
    expectPage(page, 200, 'Choose an exhibitor');
    const [id = ''] = idsOf(sandbox);
    expect(page.text).toContain(`<button name="exhibitorId" value="${id}" dir="auto">`);
    const { action, fields } = formFields(page.text);
    const form = { ...fields, exhibitorId: id };
    const chosen = await visitor.visit(`${host.url}${action}`, { form, headers: PAGE });
    expectLed(chosen, 303, address);
    expect((await open(visitor, address)).text).toBe(`booth ${id}`);
    // By a form of the host's own page, no handler runs without a choice.
    const other = await signedIn(host, 'sam.several');
    expectPage(
      await other.visit(address, { form: { a: 'b' }, headers: PAGE }),
      409,
      'Choose an exhibitor first',
    );
  });

  it('can choose each exhibitor that is offered, however long its id and that of the event', async () => {
    const eventId = 'e'.repeat(128);
    const ids = ['a', 'b'].map((letter) => letter.repeat(256));
    sandbox.setExhibitors(
      eventId,
      ids.map((id) => ({ id, contactEmails: ['sam.several@example.com'] })),
    );
    const visitor = await signedIn(host, 'sam.several');
    const url = `${host.url}/auth/choose?eventId=${eventId}`;
    for (const id of ids) {
      const { action, fields } = formFields((await open(visitor, url)).text);
      const form = { ...fields, exhibitorId: id };
      const chosen = await visitor.visit(`${host.url}${action}`, { form, headers: PAGE });
      expectLed(chosen, 303, `${host.url}/`);
      expect(bodyOf(await open(visitor, url, SCRIPT))).toMatchObject({ chosen: id });
    }
  });

  it('choose by a script as well', async () => {
    const visitor = await signedIn(host, 'sam.several');
    const url = `${host.url}/auth/choose`;
    const read = async () => bodyOf(await open(visitor, `${url}?eventId=world-2026`, SCRIPT));
    const exhibitors = idsOf(sandbox).map((id) => ({ id, label: expect.any(String) }));
    expect(await read()).toEqual({ eventId: 'world-2026', exhibitors });
    const { id = '' } = exhibitors[1] ?? {};
    const json = { eventId: 'world-2026', exhibitorId: id };
    const sent = await visitor.visit(url, { json, headers: { ...SCRIPT, 'sec-fetch-site': 'same-origin' } });
    expect([sent.status, sent.text]).toEqual([204, '']);
    expect(await read()).toEqual({ eventId: 'world-2026', chosen: id, exhibitors });
    for (const [given, status, code] of [
      [{ eventId: 'world-2026', exhibitorId: 'none' }, 400, 'invalid_argument'],
      [{ eventId: 'world-2026' }, 400, 'invalid_argument'],
      [{ exhibitorId: id }, 400, 'event_required'],
    ] as const) {
      const refused = await visitor.visit(`${url}?eventId=world-2026`, { json: given, headers: SCRIPT });
      expect([refused.status, bodyOf(refused)]).toMatchObject([status, { code }]);
    }
  });

  it('choose for no other site, and for no event of their login', async () => {
    const visitor = await signedIn(host, 'sam.several', '/auth/login?eventId=world-2026');
    const form = { eventId: 'world-2026', exhibitorId: idsOf(sandbox)[0] ?? '' };
    const headers = { ...PAGE, 'sec-fetch-site': 'cross-site', origin: 'https://evil.example' };
    expectPage(await visitor.visit(`${host.url}/auth/choose`, { form, headers }), 400, 'This does not work');
    expectPage(await open(visitor, `${host.url}/auth/choose`), 400, 'Which event?');
    // Nor by an address alone.
    const sent = await visitor.visit(`${host.url}/auth/choose?${queryOf(form)}`, {
      method: 'POST',
      headers: PAGE,
    });
    expectPage(sent, 400, 'Which event?');
    const none = await signedIn(host, 'nora.none');
    const page = await open(none, `${host.url}/auth/choose?eventId=world-2026`);
    expectPage(page, 403, 'You have no exhibitor here');
    expect(page.text).toContain('prompt=login">Use another account');
    expect(page.text).toContain('<form method="post" action="/auth/logout"><button>Log out</button></form>');
  });

  it('who sent a choice after their identity has expired log in, and choose again', async () => {
    const form = { eventId: 'world-2026', exhibitorId: 'x', returnTo: '/events/world-2026/booth' };
    const page = await new Visitor().visit(`${host.url}/auth/choose`, { form, headers: PAGE });
    expectPage(page, 401, 'You are not logged in');
    const again = `/auth/choose?${queryOf({ eventId: 'world-2026', returnTo: form.returnTo })}`;
    const login = `/auth/login?${queryOf({ eventId: 'world-2026', returnTo: again })}`;
    expect(page.text).toContain(`href="${escapeHtml(login)}"`);
  });

  it.each([
    ['/events/none-2026/booth', 'olga.one', 403, 'You have no exhibitor here'],
    ['/events/a%3Bb/booth', 'olga.one', 400, 'This does not work'],
    ['/closed/none-2026', 'olga.one', 403, 'You have no access'],
    ['/broken', 'olga.one', 500, 'Something is wrong here'],
    ['/unguarded', 'olga.one', 500, 'Something is wrong here'],
    ['/auth/logout', 'olga.one', 404, undefined],
  ])('see a page for %s', async (path, person, status, title) => {
    const reply = await open(await signedIn(host, person), `${host.url}${path}`);
    if (title === undefined) {
      // Nest's own, of an address that is not there.
      expect(reply.status).toBe(status);
      return;
    }
    expectPage(reply, status, title);
    expect(reply.text).not.toMatch(/host|Guard|tenant/);
    expect(log.errors.length).toBe(status === 500 ? 1 : 0);
  });

  it.each(['/events/a%3Bb/booth', '/auth/login?eventId=a%3Bb&returnTo=/events/a%3Bb/booth', '/auth/choose'])(
    'are led by a new login to no address that is wrong again: %s',
    async (path) => {
      const page = await open(await signedIn(host, 'olga.one'), `${host.url}${path}`);
      expect([page.status, page.text]).toEqual([
        400,
        expect.stringContaining('<a href="/auth/login">Log in'),
      ]);
    },
  );

  it('read nothing of the address of another person, although the host throws one error for all', async () => {
    const visitor = await signedIn(host, 'olga.one');
    const own = await open(visitor, `${host.url}/closed/none-2026?token=of-olga`);
    expect(own.text).toContain('of-olga');
    const others = await open(new Visitor(), `${host.url}/shut`);
    expect([others.status, others.text.includes('of-olga')]).toEqual([403, false]);
  });

  it('see a page while the service is down', async () => {
    const visitor = await signedIn(host, 'olga.one');
    sandbox.failNext('lookup', { kind: 'status', status: 403 }, Infinity);
    expectPage(
      await open(visitor, `${host.url}/events/down-2026/all`),
      502,
      'The exhibitors cannot be shown',
    );
  });

  it('who cancel see why, and can log in again, as somebody else too', async () => {
    const visitor = new Visitor();
    const begun = await open(visitor, `${host.url}/auth/login?eventId=world-2026&returnTo=/profile`);
    const state = new URL(begun.location ?? '').searchParams.get('state') ?? '';
    const back = `${host.url}/auth/callback?${queryOf({ state, error: 'access_denied' })}`;
    const led = await open(visitor, back);
    const failed = { code: 'login_failed', reason: 'denied', login: state };
    expectLed(led, 303, `${host.url}/auth/failed?${queryOf(failed)}`);
    const page = await open(visitor, led.location ?? '');
    expectPage(page, 401, 'The login was cancelled');
    const login = `/auth/login?${queryOf({ eventId: 'world-2026', returnTo: '/profile' })}`;
    const links = [...page.text.matchAll(/<a href="([^"]*)">([^<]*)/g)].map(([, url, words]) => [url, words]);
    expect(links).toEqual([
      [escapeHtml(`${login}&prompt=login`), 'Use another account'],
      [escapeHtml(login), 'Log in again'],
      ['/', 'Go to the start page'],
    ]);
    const other = await open(visitor, `${host.url}${login}&prompt=login`);
    expect(new URL(other.location ?? '').searchParams.get('prompt')).toBe('login');
    // Nothing else of a link reaches the provider.
    const silent = await open(visitor, `${host.url}${login}&prompt=none`);
    expect(new URL(silent.location ?? '').searchParams.get('prompt')).toBeNull();
  });

  it('who go back to a callback that is over are led to where their login led', async () => {
    sandbox.signInAs('olga.one@example.com');
    const visitor = new Visitor();
    const toCallback = await visitor.follow(
      `${host.url}/auth/login?returnTo=/profile`,
      (next) => next.origin === host.url,
    );
    const callback = toCallback.location ?? '';
    expectLed(await open(visitor, callback), 303, `${host.url}/profile`);
    const again = await browse(visitor, callback);
    expect([again.text, again.way]).toEqual(['profile', ['/auth/failed', '/profile']]);
    // A script, also of a neighbour origin, does not learn that somebody is logged in.
    const failed = await open(visitor, callback);
    const script = await open(visitor, failed.location ?? '', { 'sec-fetch-dest': 'empty' });
    expect([script.status, script.location]).toEqual([401, undefined]);
    // Nor does a page that shows this address in a frame: a frame that is led shows another page, one that is not shows none.
    const framed = { ...PAGE, 'sec-fetch-dest': 'iframe', 'sec-fetch-site': 'same-site' };
    expectPage(await open(visitor, failed.location ?? '', framed), 401, 'This login is over');
    // In another browser, nobody is logged in.
    const page = await browse(new Visitor(), callback);
    expectPage(page, 401, 'This login is over');
    expect([page.way, page.text]).toEqual([
      ['/auth/failed'],
      expect.stringContaining('/auth/login?returnTo=%2Fprofile'),
    ]);
    expect(log.errors).toEqual([]);
  });

  it('who take another account right after a login read why it is refused, and do not go on as who they were', async () => {
    const visitor = await signedIn(host, 'olga.one');
    sandbox.signInAs('uma.unverified');
    const page = await browse(visitor, `${host.url}/auth/login?prompt=login&returnTo=/profile`);
    expectPage(page, 401, 'Your e-mail address is not confirmed');
    // The login before goes on.
    expect((await open(visitor, `${host.url}/profile`)).text).toBe('profile');
  });

  it.each([
    ['', 401, 'The login failed'],
    ['?code=login_failed&reason=email_missing', 401, 'Your account has no e-mail address'],
    ['?code=service_unavailable', 503, 'Not available at the moment'],
    ['?code=configuration_invalid', 500, 'Something is wrong here'],
    ['?code=<b>&reason=<i>&login=<u>', 401, 'The login failed'],
    ['?code=constructor&reason=toString', 401, 'The login failed'],
    ['?code=a&code=b&login=a&login=b', 401, 'The login failed'],
    ['?login=xxx', 401, 'The login failed'],
  ])('see known words only at auth/failed%s', async (query, status, title) => {
    const page = await open(new Visitor(), `${host.url}/auth/failed${query}`);
    expectPage(page, status, title);
    expect(page.text).not.toMatch(/<[biu]>|xxx/);
  });

  it.each([
    ['denied', true],
    ['email_missing', true],
    ['email_unverified', true],
    ['not_authorized', true],
    ['login_required', false],
    ['signature', false],
    ['state', false],
  ])(
    'are offered another account and a logout only where another account may help: %s',
    async (reason, may) => {
      const { text } = await open(
        new Visitor(),
        `${host.url}/auth/failed?code=login_failed&reason=${reason}`,
      );
      const offers = ['Use another account', '<form method="post" action="/auth/logout">'];
      expect(offers.map((offer) => text.includes(offer))).toEqual([may, may]);
    },
  );

  it.each<[what: string, host: object]>([
    ['refuses our cookies', {}],
    ['keeps all but the identity', { keep: ['exhibitor-led', 'exhibitor-login-'] }],
  ])('are led to the login once where a browser %s', async (_, { keep = [] }: { keep?: string[] }) => {
    sandbox.signInAs('olga.one@example.com');
    const visitor = new Visitor();
    const own = visitor.cookies();
    const { way, ...page } = await browse(visitor, `${host.url}/profile`, () =>
      [...own.keys()]
        .filter((name) => !keep.some((one) => name.startsWith(one)))
        .forEach((name) => own.delete(name)),
    );
    expectPage(page, 401, keep.length === 0 ? 'This login is over' : 'You are not logged in');
    expect(way.filter((path) => path === '/auth/login')).toEqual(['/auth/login']);
    expect(log.warnings.join()).toMatch(/no login cookie|sends no identity cookie/);
    // After that, they are led again.
    expect((await open(visitor, `${host.url}/profile`)).status).toBe(302);
  });

  it('who were led to the login bring a cookie of 30 s from it, which tells so', async () => {
    sandbox.signInAs('olga.one@example.com');
    const visitor = new Visitor();
    const isBack = (next: URL): boolean => next.pathname === '/auth/callback';
    const { location = '' } = await visitor.follow(`${host.url}/profile`, isBack, PAGE);
    const { setCookies } = await open(visitor, location);
    expect(setCookies).toContain('exhibitor-led=1; Max-Age=30; Path=/; HttpOnly; SameSite=Lax');
  });

  it('log out to where they are to go, on this site', async () => {
    const visitor = await signedIn(host, 'olga.one');
    for (const [target, form, location] of [
      ['', {}, '/'],
      ['', { returnTo: '/bye?a=ä' }, '/bye?a=%C3%A4'],
      ['?returnTo=/bye', {}, '/bye'],
      ['', { returnTo: 'https://evil.example' }, '/'],
      ['?returnTo=//evil.example', {}, '/'],
      ['', { returnTo: '/..//evil.example' }, '/'],
    ] as const) {
      const reply = await visitor.visit(`${host.url}/auth/logout${target}`, {
        form: { ...form, other: '' },
        headers: PAGE,
      });
      expectLed(reply, 303, `${host.url}${location}`);
    }
    expect((await open(visitor, `${host.url}/profile`)).status).toBe(302);
  });
});

it('the page of the host is shown in place of ours, and ours where that one fails', async () => {
  const views: PageView[] = [];
  const render = async (view: PageView): Promise<string> => {
    views.push(view);
    if (view.status === 403) {
      throw new Error('no layout');
    }
    return `<title>${escapeHtml(view.title)}</title>`;
  };
  const host = closing(
    await start({ routes: { path: 'auth', render, afterLogin: '/in', afterLogout: '/out' } }),
  );
  const visitor = await signedIn(host, 'sam.several');
  const page = await browse(visitor, `${host.url}/events/world-2026/booth`);
  expect([page.status, page.text]).toEqual([200, '<title>Choose an exhibitor</title>']);
  expect(page.headers.get('content-security-policy')).toBeNull();
  expect(page.headers.get('x-frame-options')).toBe('DENY');
  const failed = await open(visitor, `${host.url}/auth/failed?code=login_failed&reason=denied`);
  expect(failed.status).toBe(401);
  expectPage(await open(visitor, `${host.url}/events/none-2026/booth`), 403, 'You have no exhibitor here');
  expect(log.errors.join()).toMatch(
    /routes\.render: the function of the host failed \(Error\)\n +Error: no layout/,
  );
  const words = { title: expect.any(String), text: expect.any(String) };
  expect(views).toEqual([
    {
      kind: 'choose',
      status: 200,
      code: 'exhibitor_not_selected',
      ...words,
      homeUrl: '/in',
      exhibitors: idsOf(sandbox).map((id) => ({ id, label: expect.any(String) })),
      form: {
        action: '/auth/choose',
        fields: { eventId: 'world-2026', returnTo: '/events/world-2026/booth' },
      },
    },
    {
      kind: 'failed',
      status: 401,
      code: 'login_failed',
      reason: 'denied',
      ...words,
      loginUrl: '/auth/login',
      accountUrl: '/auth/login?prompt=login',
      logout: { action: '/auth/logout', fields: {} },
      homeUrl: '/out',
    },
    expect.objectContaining({ kind: 'failed', status: 403, code: 'no_exhibitor', homeUrl: '/in' }),
  ]);
});

const titleOf = ({ status, text }: Reply): [number, string | undefined] => [
  status,
  /<h1>(.*?)<\/h1>/.exec(text)?.[1],
];

describe.each(['express', 'fastify'] as const)('pages in a host on %s', (kind) => {
  it('have a policy of their own under helmet, and are wrapped by no interceptor', async () => {
    const { url } = await start({
      kind,
      configure: (app) => app.use(helmet()),
      providers: [{ provide: APP_INTERCEPTOR, useClass: Wrapping }],
    });
    const sam = await signedIn({ url }, 'sam.several');
    const choice = await open(sam, `${url}/auth/choose?eventId=world-2026`);
    for (const reply of [choice, await open(new Visitor(), `${url}/auth/failed`)]) {
      expect(reply.text).toMatch(/^<!doctype html>/);
      expect(reply.headers.get('content-security-policy')).toMatch(
        /^default-src 'none'; style-src 'sha256-[^']+'; base-uri 'none'; frame-ancestors 'none'$/,
      );
      expect(reply.headers.get('x-frame-options')).toBe('DENY');
      expect(reply.headers.get('referrer-policy')).toBe('no-referrer');
    }
    const script = { headers: { 'sec-fetch-dest': 'empty' } };
    const read = await sam.visit(`${url}/auth/choose?eventId=world-2026`, script);
    expect(bodyOf(read)).toMatchObject({ eventId: 'world-2026' });
  });

  it('come by the filter of the host for all errors, where it hands over', async () => {
    const handing = await start({ kind, providers: [{ provide: APP_FILTER, useClass: EverythingFilter }] });
    expect(titleOf(await open(new Visitor(), `${handing.url}/events/a%3Bb/booth?`))).toEqual([
      302,
      undefined,
    ]);
    const olga = await signedIn(handing);
    const down = await open(olga, `${handing.url}/events/none-2026/booth`);
    expect(titleOf(down)).toEqual([403, 'You have no exhibitor here']);
    // What the host has said in words of its own stays JSON for a script, and is a page for a person.
    const own = await open(olga, `${handing.url}/own-error`, {});
    expect([own.status, bodyOf(own)]).toEqual([418, { words: 'of the host' }]);
    expect(titleOf(await open(olga, `${handing.url}/own-error`))[0]).toBe(418);

    const silent = await start({ kind, providers: [{ provide: APP_FILTER, useClass: SilentFilter }] });
    expect((await open(new Visitor(), `${silent.url}/profile`)).status).toBe(302);
    const sam = await signedIn(silent, 'sam.several');
    expect((await open(sam, `${silent.url}/events/world-2026/booth`)).status).toBe(302);
    expect((await open(sam, `${silent.url}/events/none-2026/booth`)).text).toBe('words of the host');
  });

  it('lead browsers to the login under a global guard, which leaves the routes open', async () => {
    const { url } = await start({
      kind,
      providers: [{ provide: APP_GUARD, useClass: ExhibitorIdentityGuard }],
    });
    expect((await open(new Visitor(), url)).status).toBe(200);
    expect(titleOf(await open(new Visitor(), `${url}/auth/failed`))).toEqual([401, 'The login failed']);
    sandbox.signInAs('olga.one@example.com');
    expect((await browse(new Visitor(), `${url}/profile`)).text).toBe('profile');
  });

  it('have the addresses that a proxy shows, which removes a prefix', async () => {
    const routes = { path: 'auth', guards: { callback: ProxiedGuard } };
    const { url } = await start({ kind, routes, callback: '/portal/auth/callback' });
    const led = await open(new Visitor(), `${url}/events/world-2026/booth?a=b`);
    expect(led.location).toBe(
      `${url}/portal/auth/login?eventId=world-2026&returnTo=%2Fportal%2Fevents%2Fworld-2026%2Fbooth%3Fa%3Db&led=1`,
    );
    const visitor = new Visitor();
    sandbox.signInAs('sam.several@example.com');
    const toCallback = await visitor.follow(`${url}/auth/login`, (next) => next.origin === url, PAGE);
    const back = new URL(toCallback.location ?? '');
    expect(back.pathname).toBe('/portal/auth/callback');
    const done = await open(visitor, `${url}/auth/callback${back.search}`);
    expect([done.status, done.location]).toEqual([303, `${url}/portal/`]);
    const page = await open(visitor, `${url}/auth/choose?eventId=world-2026&returnTo=/portal/x`);
    expect(formFields(page.text).action).toBe('/portal/auth/choose');
    const failed = await open(visitor, `${url}/auth/callback`);
    expect(failed.location).toBe(`${url}/portal/auth/failed?code=login_failed&reason=state`);
    expect((await visitor.visit(`${url}/auth/logout`, { method: 'POST' })).location).toBe(`${url}/portal/`);
  });

  it('have the addresses of a sub-path that a proxy leaves, and those of a global prefix', async () => {
    const { url } = await start({
      kind,
      callback: '/portal/api/auth/callback',
      configure: (app) => app.setGlobalPrefix('portal/api'),
    });
    const led = await open(new Visitor(), `${url}/portal/api/profile`);
    expect(led.location).toBe(`${url}/portal/api/auth/login?returnTo=%2Fportal%2Fapi%2Fprofile&led=1`);
    const visitor = await signedIn({ url }, 'olga.one', '/portal/api/auth/login');
    expect((await open(visitor, `${url}/portal/api/profile`)).text).toBe('profile');
    const out = await visitor.visit(`${url}/portal/api/auth/logout`, { method: 'POST' });
    expect([out.status, out.location]).toEqual([303, `${url}/portal/api`]);
  });

  it('follow a form_post that fails, at an address without a code', async () => {
    const { url } = await start({ kind, responseType: 'code id_token' });
    const visitor = new Visitor();
    sandbox.signInAs('olga.one@example.com');
    const arrived = await visitor.follow(`${url}/auth/login?returnTo=/profile`);
    const { action, fields } = formFields(arrived.text);
    const wrong = await visitor.visit(action, { form: { ...fields, code: 'x' }, headers: POSTED });
    expect([wrong.status, wrong.location]).toEqual([
      303,
      expect.stringMatching(/\/auth\/failed\?code=login_failed&reason=\w+&login=[\w.-]+$/),
    ]);
    expect(titleOf(await open(visitor, wrong.location ?? ''))).toEqual([401, 'The login failed']);
    const bare = await visitor.visit(`${url}/auth/callback`, { form: { a: 'b' }, headers: POSTED });
    expect(bare.location).toBe(`${url}/auth/failed?code=login_failed&reason=state`);
    // A form that was sent before, once the person is logged in.
    const again = await visitor.follow(`${url}/auth/login?returnTo=/profile`);
    const form = formFields(again.text);
    expect((await visitor.visit(form.action, { form: form.fields, headers: POSTED })).status).toBe(303);
    const spent = await visitor.visit(form.action, { form: form.fields, headers: POSTED });
    expect((await browse(visitor, spent.location ?? '')).text).toBe('profile');
  });

  it.each([
    {
      what: 'a fault',
      callback: FailingCallbackGuard,
      told: 'code=configuration_invalid',
      page: [500, 'Something is wrong here'],
      toScript: 500,
    },
    {
      what: 'a refusal',
      callback: RefusingCallbackGuard,
      told: 'code=login_failed&reason=not_authorized',
      page: [401, 'This account has no access'],
      toScript: 403,
    },
  ])(
    'stand at no address with a code after $what of the host',
    async ({ callback, told, page, toScript }) => {
      const { url } = await start({ kind, routes: { path: 'auth', guards: { callback } } });
      sandbox.signInAs('olga.one@example.com');
      const visitor = new Visitor();
      const shown = await browse(visitor, `${url}/auth/login`);
      const [query, login] = new URL(shown.url).search.split('&login=');
      expect([query, login]).toEqual([`?${told}`, expect.stringMatching(/^[\w.-]+$/)]);
      expect(titleOf(shown)).toEqual(page);
      expect(shown.text).not.toContain('blocked');
      expect(log.errors.join()).toMatch(/the function of the host failed/);
      expect(visitor.cookies().has('exhibitor-identity')).toBe(false);
      const callbackUrl = await visitor.follow(`${url}/auth/login`, (next) => next.origin === url);
      const reply = await visitor.visit(callbackUrl.location ?? '', { headers: SCRIPT });
      expect(reply.status).toBe(toScript);
    },
  );

  it('end after one round for an identity that the guard refuses and the callback accepts', async () => {
    const { url } = await start({ kind });
    sandbox.signInAs('olga.one@example.com');
    const visitor = new Visitor();
    const page = await browse(visitor, `${url}/strict`);
    expect(titleOf(page)).toEqual([401, 'You are not logged in']);
    expect(page.way.filter((path) => path === '/auth/login')).toHaveLength(1);
    expect(log.warnings.join()).toContain('its identity cookie is not accepted');
    // A callback that is over leads back to the page that refuses: once, too.
    const callback = await visitor.follow(
      `${url}/auth/login?returnTo=/strict`,
      (next) => next.origin === url,
    );
    await open(visitor, callback.location ?? '');
    visitor.cookies().delete('exhibitor-led');
    const over = await browse(visitor, callback.location ?? '');
    expect([titleOf(over), over.way]).toEqual([
      [401, 'You are not logged in'],
      ['/auth/failed', '/strict'],
    ]);
  });

  it('end after one round for a login whose time is over when it comes back', async () => {
    const { url } = await start({ kind, options: () => ({ cookies: { identityTtl: 1, absoluteTtl: 1 } }) });
    sandbox.signInAs('olga.one@example.com');
    const page = await browse(new Visitor(), `${url}/profile`);
    expect(titleOf(page)).toEqual([401, 'You are not logged in']);
    expect(page.way.filter((path) => path === '/auth/login')).toHaveLength(1);
    expect(log.warnings.join()).toContain('a browser comes back from its login');
  });

  it('end after one round at a tenant whose redirectUri has the path of another tenant', async () => {
    const { url } = await start({
      kind,
      configure: (app) => app.setGlobalPrefix(':tenant'),
      options: (own) => {
        const at = (key: string) => sandbox.tenantOptions(key, { redirectUri: `${own}/acme/auth/callback` });
        return {
          tenant: undefined,
          tenants: { acme: at('acme'), globex: at('globex') },
          resolveTenant: ({ params }) => params?.['tenant'],
        };
      },
    });
    sandbox.signInAs('olga.one@example.com');
    const page = await browse(new Visitor(), `${url}/globex/profile`);
    expect(titleOf(page)).toEqual([401, 'You are not logged in']);
    expect(page.way.filter((path) => path.endsWith('/login'))).toEqual(['/acme/auth/login']);
    expect(log.warnings.join()).toMatch(/^tenants\.globex: .* login\.redirectUri names its tenant\)/);
  });

  it('end at a page after one round where lookups answer this and that in turns', async () => {
    const { url } = await start({ kind, options: () => ({ lookupCache: false }) });
    const visitor = await signedIn({ url }, 'sam.several');
    const answers = (...lists: string[][]): void => {
      for (const ids of lists) {
        const body = JSON.stringify(ids.map((id) => ({ id })));
        sandbox.failNext('lookup', { kind: 'body', body });
      }
    };
    const booth = `${url}/events/world-2026/booth`;
    const choices = ({ text }: Reply): string[] =>
      [...text.matchAll(/value="(.)"/g)].map(([, id = '']) => id);
    // Several for the guard, then another one for the page, which shows it, and sends nobody back.
    answers(['a', 'b'], ['c']);
    const choice = await browse(visitor, booth);
    expect([choice.status, choice.way, choices(choice)]).toEqual([200, ['/auth/choose'], ['c']]);
    const form = { eventId: 'world-2026', returnTo: '/events/world-2026/booth' };
    const choose = (exhibitorId: string) =>
      visitor.visit(`${url}/auth/choose`, { form: { ...form, exhibitorId }, headers: PAGE });
    answers(['a', 'b']);
    expect((await choose('c')).status).toBe(400);
    // Chosen, and gone when the browser comes back.
    answers(['a', 'b'], ['c', 'd'], []);
    expect((await choose('a')).location).toBe(booth);
    const again = await browse(visitor, booth);
    expect([titleOf(again), again.way]).toEqual([[403, 'You have no exhibitor here'], ['/auth/choose']]);
  });

  it('lead a login at another name of the host to that of redirectUri, once', async () => {
    const { url } = await start({ kind });
    const { port } = new URL(url);
    const query = 'eventId=world-2026&returnTo=%2Fprofile%3Fa%3Db&led=1';
    const moved = await open(new Visitor(), `http://localhost:${port}/auth/login?${query}`);
    expect([moved.status, moved.location]).toEqual([302, `${url}/auth/login?${query}&moved=1`]);
    expect(moved.setCookies).toEqual([]);
    for (const host of ['localhost', 'evil.example', 'x:y:z', '[::1']) {
      const headers = { ...PAGE, host };
      const once = await open(new Visitor(), `${url}/auth/login?moved=1`, headers);
      expect(new URL(once.location ?? '').pathname).not.toBe('/auth/login');
      const elsewhere = await open(new Visitor(), `${url}/auth/login`, headers);
      expect(elsewhere.location).not.toContain('//evil.example');
    }
  });

  it('lead a login at a route of the host to that route, where the event and the steps of its guard are', async () => {
    const { url } = await start({ kind });
    const { port } = new URL(url);
    const path = '/events/world-2026/sign-in?a=b&a=c';
    const moved = await open(new Visitor(), `http://localhost:${port}${path}`);
    expect([moved.status, moved.location]).toEqual([302, `${url}${path}&moved=1`]);
    const started = await open(new Visitor(), moved.location ?? '');
    expect(new URL(started.location ?? '').searchParams.get('ui_locales')).toBe('de');
    // A form cannot be sent on: its route may take no GET.
    const form = await new Visitor().visit(`http://localhost:${port}${path}`, { form: {}, headers: PAGE });
    expect([form.status, form.location]).toEqual([303, `${url}/auth/login?a=c&moved=1`]);
  });
});

it.each(['express + express-session', 'fastify + @fastify/session'] as const)(
  'people are led once where the session of %s keeps an id only',
  async (kind) => {
    const { url } = await start({
      kind,
      configure: (app) => setUser(app, kind, ({ user }) => user && { id: (user as ExhibitorIdentity).id }),
    });
    sandbox.signInAs('olga.one@example.com');
    const page = await browse(new Visitor(), `${url}/profile`);
    expect(titleOf(page)).toEqual([401, 'You are not logged in']);
    expect(page.way.filter((path) => path === '/auth/login')).toHaveLength(1);
    expect(log.warnings.join()).toContain('the session of the host must keep all of its members');
  },
);

it('addresses are those of an application that Express mounts in another one', async () => {
  const outer = express();
  const host = await start({ callback: '/portal/auth/callback' });
  const inner = host.app.getHttpAdapter().getInstance() as express.Express;
  outer.use('/portal', inner);
  const server = outer.listen(0, '127.0.0.1');
  await new Promise((resolve) => server.once('listening', resolve));
  try {
    const { port } = server.address() as { port: number };
    const led = await open(new Visitor(), `http://127.0.0.1:${port}/portal/profile`);
    expect(led.headers.get('location')).toBe('/portal/auth/login?returnTo=%2Fportal%2Fprofile&led=1');
  } finally {
    await new Promise((resolve) => server.close(resolve));
  }
});

it('a login that began more than a day ago leads nowhere, also where its user is still logged in', async () => {
  const host = await start({ options: () => ({ cookies: { identityTtl: 3 * DAY } }) });
  sandbox.signInAs('olga.one@example.com');
  const visitor = new Visitor();
  const isBack = (next: URL): boolean => next.origin === host.url;
  const { location = '' } = await visitor.follow(`${host.url}/auth/login?returnTo=/profile`, isBack);
  expectLed(await open(visitor, location), 303, `${host.url}/profile`);
  const { skip } = clockOf(host.app);
  skip(DAY - HOUR, ['epochMs']);
  expect((await browse(visitor, location)).text).toBe('profile');
  skip(2 * HOUR, ['epochMs']);
  expectPage(await browse(visitor, location), 401, 'This login is over');
  expect((await open(visitor, `${host.url}/profile`)).text).toBe('profile');
});

it('frames show pages and are led with sameSite none, and have no policy against frames', async () => {
  const redirectUri = 'https://host.example.com/auth/callback';
  const { url } = await start({
    options: () => ({
      tenant: sandbox.tenantOptions('acme', { redirectUri }),
      cookies: { sameSite: 'none' },
    }),
  });
  const framed = { ...PAGE, 'sec-fetch-dest': 'iframe', 'sec-fetch-site': 'cross-site' };
  expect((await open(new Visitor(), `${url}/profile`, framed)).status).toBe(302);
  const { headers } = await open(new Visitor(), `${url}/auth/failed`, framed);
  expect(headers.get('content-security-policy')).not.toContain('frame-ancestors');
  expect(headers.get('x-frame-options')).toBeNull();
});

/** By path. */
const TWO_TENANTS: Given = {
  routes: ':tenant/auth',
  options: (own) => {
    const tenantAt = (key: string) =>
      sandbox.tenantOptions(key, { redirectUri: `${own}/${key}/auth/callback` });
    return {
      tenant: undefined,
      tenants: { acme: tenantAt('acme'), globex: tenantAt('globex') },
      resolveTenant: ({ params }) => params?.['tenant'],
    };
  },
};

it('a page of a tenant that only the user names offers another account there', async () => {
  const host = await start(TWO_TENANTS);
  const visitor = await signedIn(host, 'nora.none', '/acme/auth/login');
  const page = await open(visitor, `${host.url}/events/world-2026/booth`);
  expectPage(page, 403, 'You have no exhibitor here');
  expect(page.text).toContain('href="/acme/auth/login?');
});

it('a failed login leads back who has logged in since at its tenant, not at another one', async () => {
  const host = await start(TWO_TENANTS);
  const visitor = new Visitor();
  const loginAt = (key: string) => browse(visitor, `${host.url}/${key}/auth/login?returnTo=/`);
  sandbox.signInAs('olga.one@example.com');
  const { location = '' } = await visitor.follow(
    `${host.url}/acme/auth/login?returnTo=/`,
    (next) => next.origin === host.url,
  );
  const state = new URL(location).searchParams.get('state') ?? '';
  const failed = `${host.url}/acme/auth/failed?${queryOf({ code: 'login_failed', reason: 'state', login: state })}`;
  expect((await loginAt('globex')).text).toBe('home');
  expectPage(await open(visitor, failed), 401, 'This login is over');
  expect((await loginAt('acme')).text).toBe('home');
  expectLed(await open(visitor, failed), 303, `${host.url}/`);
});

it('several tenants have the same page after a logout, and a script gets JSON for a failed login', async () => {
  const { url } = await start({
    routes: { path: ':tenant/auth', afterLogout: '/bye' },
    options: (own) => {
      const tenantAt = (key: string) =>
        sandbox.tenantOptions(key, { redirectUri: `${own}/portal/${key}/auth/callback` });
      return {
        tenant: undefined,
        tenants: { acme: tenantAt('acme'), globex: tenantAt('globex') },
        resolveTenant: ({ params }) => params?.['tenant'],
      };
    },
  });
  const out = await new Visitor().visit(`${url}/acme/auth/logout`, { method: 'POST' });
  expect([out.status, out.location]).toEqual([303, `${url}/bye`]);
  const led = await open(new Visitor(), `${url}/globex/auth/choose?eventId=world-2026`);
  expect(new URL(led.location ?? '').pathname).toBe('/portal/globex/auth/login');
  // No page stands at an address with a code.
  const lost = await open(new Visitor(), `${url}/nobody/auth/callback?code=c&state=s`);
  expect([lost.status, lost.location]).toEqual([
    303,
    `${url}/nobody/auth/failed?code=login_failed&reason=state`,
  ]);
  const script = { 'sec-fetch-dest': 'empty' };
  const failed = await open(new Visitor(), `${url}/acme/auth/failed?code=login_failed&reason=denied`, script);
  expect([failed.status, bodyOf(failed)]).toEqual([
    401,
    {
      statusCode: 401,
      message: 'The login was cancelled',
      error: 'Unauthorized',
      code: 'login_failed',
      reason: 'denied',
    },
  ]);
});

it('redirectToLogin: false shows the page with 401', async () => {
  const { url } = await start({ routes: { path: 'auth', redirectToLogin: false } });
  expect(titleOf(await open(new Visitor(), `${url}/profile`))).toEqual([401, 'You are not logged in']);
});

it('the question is a fault of the host where no exhibitor has an id to choose it by', async () => {
  const host = await start({ options: () => ({ exhibitorId: () => undefined }) });
  const visitor = await signedIn(host, 'sam.several');
  const page = await browse(visitor, `${host.url}/events/world-2026/booth`);
  expectPage(page, 500, 'Something is wrong here');
  expect(log.errors.join()).toMatch(/exhibitorId: must answer an id/);
});

it('labels are those of the host, and the default where it fails; markup is shown as text', async () => {
  const labels = ['<b>bold</b>', undefined, ' ', '"\' onfocus=x'];
  let calls = 0;
  const { url } = await start({
    options: () => ({
      exhibitorLabel: ({ id }) => {
        calls += 1;
        if (calls > labels.length) {
          throw new Error(`no label of ${String(id)}`);
        }
        return labels[calls - 1];
      },
    }),
  });
  const sam = await signedIn({ url }, 'sam.several');
  const read = async () => (await open(sam, `${url}/auth/choose?eventId=world-2026`)).text;
  const page = await read();
  expect(page).toContain('&#60;b&#62;bold&#60;/b&#62;');
  expect(page).not.toMatch(/<b>|undefined/);
  const count = idsOf(sandbox).length;
  while (calls <= labels.length) {
    await read();
  }
  expect((await read()).match(/name="exhibitorId"/g)).toHaveLength(count);
  expect(log.errors.join()).toMatch(/exhibitorLabel: the function of the host failed/);
});

it('routes that are wrong are refused, each member by its path', () => {
  const wrong = {
    path: 'auth',
    afterLogin: '//evil.example',
    afterLogout: 'home',
    redirectToLogin: 'yes',
    render: '<p>',
    backChannelLogout: 1,
    guards: { login: ExhibitorGuard, choose: ExhibitorIdentityGuard, failed: ExhibitorGuard },
    afterlogin: '/',
  } as unknown as LoginRoutes;
  const problems = (() => {
    try {
      ExhibitorModule.forRootAsync({ routes: wrong, useFactory: () => ({}) as never });
      return [];
    } catch (error) {
      return (error as { problems: { path: string; expected: string }[] }).problems;
    }
  })();
  expect(problems.map(({ path }) => path).toSorted()).toEqual([
    'routes.afterLogin',
    'routes.afterLogout',
    'routes.afterlogin',
    'routes.backChannelLogout',
    'routes.guards.choose',
    'routes.guards.failed',
    'routes.guards.login',
    'routes.redirectToLogin',
    'routes.render',
  ]);
});
