import { afterEach, describe, expect, it } from '@jest/globals';
import {
  Controller,
  ForbiddenException,
  Get,
  Injectable,
  Post,
  UseGuards,
  type INestApplication,
} from '@nestjs/common';
import {
  CurrentExhibitor,
  CurrentExhibitors,
  escapeHtml,
  ExhibitorGuard,
  ExhibitorIdentityGuard,
  type Exhibitor,
  type ExhibitorModuleOptions,
  type LoginRoutes,
  type PageView,
} from '../../lib/index.js';
import { COOKIE_SECRET, startHost, type Host, type HostOptions } from '../support/host.js';
import { useClosing, useHost, useSandbox } from '../support/lifetimes.js';
import { OperatorLines } from '../support/operator-lines.js';
import { formFields, Visitor, type Reply } from '../support/visitor.js';
import { open, PAGE, SiteController } from './people.js';
import { bodyOf, idsOf } from './signed-in.js';

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

@Controller()
class BoothSite extends SiteController {
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
}

const sandbox = await useSandbox();
const closing = useClosing();
const log = new OperatorLines();
afterEach(() => log.clear());

interface Given extends Partial<Omit<HostOptions, 'options'>> {
  routes?: string | LoginRoutes;
  callback?: string;
  options?: (url: string) => Partial<ExhibitorModuleOptions>;
}

const start = ({ routes = 'auth', callback = '/auth/callback', options, configure, ...others }: Given = {}) =>
  startHost({
    controllers: [BoothSite],
    options: (_, url) => ({
      tenant: sandbox.tenantOptions('acme', { redirectUri: `${url}${callback}` }),
      secrets: [COOKIE_SECRET],
      isGlobal: true,
      routes,
      ...(options?.(url) as object),
    }),
    ...others,
    configure: (app: INestApplication) => {
      app.useLogger(log);
      return configure?.(app);
    },
  });

/** Opens an address and follows each redirect, as a browser does. Answers the page, and the paths on the way. */
async function browse(visitor: Visitor, url: string): Promise<Reply & { url: string; way: string[] }> {
  const way: string[] = [];
  const reply = await visitor.follow(
    url,
    ({ pathname }) => {
      way.push(pathname);
      return false;
    },
    PAGE,
  );
  return { ...reply, way };
}

async function signedIn(host: Host, person: string, query = ''): Promise<Visitor> {
  sandbox.signInAs(`${person}@example.com`);
  const visitor = new Visitor();
  await browse(visitor, `${host.url}/auth/login${query}`);
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
  const host = useHost(() => start({ kind }));

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
    const visitor = await signedIn(host, 'sam.several', '?eventId=world-2026');
    const form = { eventId: 'world-2026', exhibitorId: idsOf(sandbox)[0] ?? '' };
    const headers = { ...PAGE, 'sec-fetch-site': 'cross-site', origin: 'https://evil.example' };
    expectPage(await visitor.visit(`${host.url}/auth/choose`, { form, headers }), 400, 'This does not work');
    expectPage(await open(visitor, `${host.url}/auth/choose`), 400, 'Which event?');
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
    // In another browser, nobody is logged in.
    const page = await browse(new Visitor(), callback);
    expectPage(page, 401, 'This login is over');
    expect([page.way, page.text]).toEqual([
      ['/auth/failed'],
      expect.stringContaining('/auth/login?returnTo=%2Fprofile'),
    ]);
    expect(log.errors).toEqual([]);
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

  it.each<[what: string, host: object]>([
    ['refuses our cookies', {}],
    ['keeps all but the identity', { keep: ['exhibitor-led', 'exhibitor-login-'] }],
  ])('are led to the login once where a browser %s', async (_, { keep = [] }: { keep?: string[] }) => {
    sandbox.signInAs('olga.one@example.com');
    const visitor = new Visitor();
    const own = visitor.cookies();
    const way: string[] = [];
    const page = await visitor.follow(
      `${host.url}/profile`,
      ({ pathname }) => {
        way.push(pathname);
        [...own.keys()]
          .filter((name) => !keep.some((one) => name.startsWith(one)))
          .forEach((name) => own.delete(name));
        return false;
      },
      PAGE,
    );
    expectPage(page, 401, keep.length === 0 ? 'This login is over' : 'You are not logged in');
    expect(way.filter((path) => path === '/auth/login')).toEqual(['/auth/login']);
    expect(log.warnings.join()).toMatch(/no login cookie|sends no identity cookie/);
    // After that, they are led again.
    expect((await open(visitor, `${host.url}/profile`)).status).toBe(302);
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
