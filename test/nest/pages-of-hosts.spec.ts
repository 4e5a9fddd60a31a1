import { afterEach, describe, expect, it } from '@jest/globals';
import { ApolloDriver, type ApolloDriverConfig } from '@nestjs/apollo';
import {
  Catch,
  Controller,
  Get,
  HttpException,
  Inject,
  Injectable,
  Post,
  UseGuards,
  type ArgumentsHost,
  type CallHandler,
  type ExecutionContext,
  type INestApplication,
  type NestInterceptor,
} from '@nestjs/common';
import { APP_FILTER, APP_GUARD, APP_INTERCEPTOR, BaseExceptionFilter } from '@nestjs/core';
import { GraphQLModule, Query, Resolver } from '@nestjs/graphql';
import express from 'express';
import helmet from 'helmet';
import { map, type Observable } from 'rxjs';
import {
  ExhibitorCallbackGuard,
  ExhibitorError,
  ExhibitorExceptionFilter,
  ExhibitorGuard,
  ExhibitorIdentityGuard,
  ExhibitorModule,
  isExhibitorError,
  type ExhibitorIdentity,
  type ExhibitorModuleOptions,
  type HttpContext,
  type LoginRoutes,
} from '../../lib/index.js';
import { COOKIE_SECRET, setUser, startHost, type Host, type HostOptions } from '../support/host.js';
import { useClosing, useSandbox } from '../support/lifetimes.js';
import { OperatorLines } from '../support/operator-lines.js';
import { formFields, Visitor, type Reply } from '../support/visitor.js';
import { open, PAGE, SiteController } from './people.js';
import { bodyOf, idsOf } from './signed-in.js';

/** Of a form that the page of a provider posts. */
const POSTED = { ...PAGE, 'sec-fetch-site': 'cross-site', origin: 'https://login.example.com' };

/** Refuses the identities that the callback accepts. */
@Injectable()
class StrictGuard extends ExhibitorIdentityGuard {
  protected override getIdentity(): undefined {
    return undefined;
  }
}

@Controller()
class HostSite extends SiteController {
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
  change(): void {}
}

@Resolver()
class ProfileResolver {
  @Query(() => String)
  @UseGuards(ExhibitorIdentityGuard)
  profile(): string {
    return 'profile';
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
class RefusingCallbackGuard extends ExhibitorCallbackGuard {
  protected override onLoggedIn(_http: HttpContext, identity: ExhibitorIdentity): void {
    throw new HttpException(`${identity.subject} is blocked`, 403);
  }
}

const sandbox = await useSandbox();
const closing = useClosing();
const log = new OperatorLines();
afterEach(() => log.clear());

interface Given extends Partial<Omit<HostOptions, 'options'>> {
  routes?: string | LoginRoutes;
  callback?: string;
  responseType?: 'code' | 'code id_token';
  options?: (url: string) => Partial<ExhibitorModuleOptions>;
}

async function start({
  routes = 'auth',
  callback = '/auth/callback',
  responseType,
  options,
  configure,
  ...others
}: Given = {}): Promise<Host> {
  const host = await startHost({
    controllers: [HostSite],
    options: (_, url) => ({
      tenant: sandbox.tenantOptions('acme', { redirectUri: `${url}${callback}`, responseType }),
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
  return closing(host);
}

/** Opens an address and follows each redirect; `at` may change the browser on the way. Answers the page and the paths. */
async function browse(visitor: Visitor, url: string, at = (_path: string): void => undefined) {
  const way: string[] = [];
  const { origin } = new URL(url);
  const stopAt = (next: URL): boolean => {
    way.push(`${next.origin === origin ? '' : '*'}${next.pathname}`);
    at(next.pathname);
    return false;
  };
  return { ...(await visitor.follow(url, stopAt, PAGE)), way };
}

const titleOf = ({ status, text }: Reply): [number, string | undefined] => [
  status,
  /<h1>(.*?)<\/h1>/.exec(text)?.[1],
];

async function signedIn(url: string, person = 'olga.one', login = '/auth/login'): Promise<Visitor> {
  sandbox.signInAs(`${person}@example.com`);
  const visitor = new Visitor();
  await browse(visitor, `${url}${login}`);
  return visitor;
}

describe.each(['express', 'fastify'] as const)('pages in a host on %s', (kind) => {
  it('have a policy of their own under helmet, and are wrapped by no interceptor', async () => {
    const { url } = await start({
      kind,
      configure: (app) => app.use(helmet()),
      providers: [{ provide: APP_INTERCEPTOR, useClass: Wrapping }],
    });
    const sam = await signedIn(url, 'sam.several');
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
    const olga = await signedIn(handing.url);
    const down = await open(olga, `${handing.url}/events/none-2026/booth`);
    expect(titleOf(down)).toEqual([403, 'You have no exhibitor here']);
    // What the host has said in words of its own stays JSON for a script, and is a page for a person.
    const own = await open(olga, `${handing.url}/own-error`, {});
    expect([own.status, bodyOf(own)]).toEqual([418, { words: 'of the host' }]);
    expect(titleOf(await open(olga, `${handing.url}/own-error`))[0]).toBe(418);

    const silent = await start({ kind, providers: [{ provide: APP_FILTER, useClass: SilentFilter }] });
    expect((await open(new Visitor(), `${silent.url}/profile`)).status).toBe(302);
    const sam = await signedIn(silent.url, 'sam.several');
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
    const visitor = await signedIn(url, 'olga.one', '/portal/api/auth/login');
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
    ['a fault of the host', FailingCallbackGuard],
    ['a refusal of the host', RefusingCallbackGuard],
  ])('stand at no address with a code after %s', async (_, callback) => {
    const { url } = await start({ kind, routes: { path: 'auth', guards: { callback } } });
    sandbox.signInAs('olga.one@example.com');
    const visitor = new Visitor();
    const page = await browse(visitor, `${url}/auth/login`);
    expect(new URL(page.url).search).toMatch(/^\?code=configuration_invalid&login=[\w.-]+$/);
    expect(titleOf(page)).toEqual([500, 'Something is wrong here']);
    expect(log.errors.join()).toMatch(/the function of the host failed/);
    expect(visitor.cookies().has('exhibitor-identity')).toBe(false);
  });

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

  it('end at a page after one round where lookups answer this and that in turns', async () => {
    const { url } = await start({ kind, options: () => ({ lookupCache: false }) });
    const visitor = await signedIn(url, 'sam.several');
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

it('pages are none for GraphQL', async () => {
  const { url } = await start({
    providers: [ProfileResolver],
    importedBefore: [
      GraphQLModule.forRoot<ApolloDriverConfig>({ driver: ApolloDriver, autoSchemaFile: true }),
    ],
  });
  const reply = await new Visitor().visit(`${url}/graphql`, {
    json: { query: '{ profile }' },
    headers: { ...PAGE, accept: 'text/html, application/json' },
  });
  expect(bodyOf(reply)).toMatchObject({
    errors: [{ extensions: { originalError: { code: 'unauthenticated' } } }],
  });
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
  const sam = await signedIn(url, 'sam.several');
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
