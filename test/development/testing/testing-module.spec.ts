import { IncomingMessage } from 'node:http';
import { Socket } from 'node:net';
import {
  Controller,
  ForbiddenException,
  Get,
  Inject,
  Module,
  Param,
  Post,
  Redirect,
  UseGuards,
} from '@nestjs/common';
import type { ExecutionContext, INestApplication, Type } from '@nestjs/common';
import type { AbstractHttpAdapter } from '@nestjs/core';
import { ExpressAdapter } from '@nestjs/platform-express';
import { FastifyAdapter } from '@nestjs/platform-fastify';
import { Test, type TestingModule } from '@nestjs/testing';
import { afterEach, describe, expect, it, jest } from '@jest/globals';
import { firstValueFrom, toArray } from 'rxjs';
import request from 'supertest';
import {
  CurrentEvent,
  CurrentExhibitors,
  CurrentIdentity,
  CurrentTenant,
  ExhibitorBackChannelLogoutGuard,
  ExhibitorCallbackGuard,
  ExhibitorGuard,
  ExhibitorIdentityGuard,
  ExhibitorLogins,
  ExhibitorModule,
  ExhibitorsService,
  isExhibitorError,
  LoginFailedError,
  TenantRegistry,
  TokenRejectedError,
  TokenService,
  TokenValidator,
  type Exhibitor,
  type ExhibitorError,
  type ExhibitorIdentity,
  type ExhibitorModuleOptions,
  type HttpContext,
} from '../../../lib/index.js';
import {
  ExhibitorTestingBackend,
  ExhibitorTestingModule,
  type ExhibitorTestingWorld,
} from '../../../lib/development/testing/index.js';
import { BoothController } from '../../support/booth.controller.js';
import { loadSnippets } from '../../support/snippets.js';

const BOOTHS = [
  { id: 'x-1', name: 'One' },
  { id: 'x-2', name: 'Two' },
  { id: 'x-3', name: 'Three' },
];
const WORLD = {
  identity: { email: 'ann@example.com' },
  events: { fair: BOOTHS },
  contacts: { 'ann@example.com': { fair: ['x-1', 'x-2'] } },
};

let module: TestingModule;
let app: INestApplication;
afterEach(async () => {
  jest.useRealTimers();
  await app?.close();
  await module?.close();
});

/** As docs/testing.md says: requests need the others. */
function useFakeTimers(): void {
  jest.useFakeTimers({ doNotFake: ['nextTick', 'queueMicrotask', 'setImmediate', 'clearImmediate'] });
}

/** Starts the application; answers its replies. */
async function serve(adapter: AbstractHttpAdapter = new ExpressAdapter()) {
  app = module.createNestApplication(adapter, { logger: false });
  await app.listen(0, '127.0.0.1');
  const url = await app.getUrl();
  return async (path: string, init?: RequestInit) => {
    const reply = await fetch(`${url}${path}`, { redirect: 'manual', ...init });
    const isJson = reply.headers.get('content-type')?.includes('json') === true;
    const body: unknown = await (isJson ? reply.json() : reply.text());
    const cookie = reply.headers
      .getSetCookie()
      .map((one) => one.split(';')[0])
      .join('; ');
    return { status: reply.status, body, location: reply.headers.get('location'), cookie };
  };
}

async function create<T>(
  world?: ExhibitorTestingWorld<T>,
  controllers: Type[] = [BoothController],
): Promise<void> {
  module = await Test.createTestingModule({
    imports: [ExhibitorTestingModule.forRoot(world)],
    controllers,
  }).compile();
}

describe('ExhibitorTestingModule', () => {
  it.each([
    ['Express', () => new ExpressAdapter()],
    ['Fastify', () => new FastifyAdapter()],
  ])('tests a guarded controller on %s', async (_name, adapter) => {
    await create(WORLD);
    const get = await serve(adapter());
    const backend = module.get(ExhibitorTestingBackend);

    expect(await get('/events/fair/mine')).toMatchObject({ status: 200, body: BOOTHS.slice(0, 2) });
    expect(await get('/events/fair/booth')).toMatchObject({ status: 409 });
    expect(await get('/events/fair/booths/x-2')).toMatchObject({ status: 200, body: BOOTHS[1] });
    expect(await get('/events/fair/booths/x-3')).toMatchObject({ status: 403 });
    expect(await get('/events/other/mine')).toMatchObject({ status: 403, body: { code: 'no_exhibitor' } });
    expect(await get('/mine')).toMatchObject({ status: 400, body: { code: 'event_required' } });
    expect(await get('/me')).toMatchObject({
      body: { identity: { email: 'ann@example.com', tenant: 'default' }, tenant: 'default' },
    });
    expect(await get('/events/fair/exhibitors?page=1')).toMatchObject({
      body: { paginationMetadata: { totalCount: 3 }, data: BOOTHS },
    });

    backend.failNext('lookup', 'service_unavailable', { retryAfterMs: 2_000 });
    expect(await get('/events/fair/mine')).toMatchObject({ status: 503 });
    expect(await get('/events/fair/mine')).toMatchObject({ status: 200 });
    backend.signIn({ email: 'bob@example.com' });
    expect(await get('/events/fair/mine')).toMatchObject({ status: 403 });
    backend.setContact('fair', 'bob@example.com', ['x-3', { id: 'own', name: 'Own' }]);
    expect(await get('/events/fair/mine')).toMatchObject({ body: [BOOTHS[2], { id: 'own', name: 'Own' }] });
    backend.setExhibitors('fair', []);
    expect(await get('/events/fair/mine')).toMatchObject({ body: [{ id: 'own', name: 'Own' }] });
    backend.signOut();
    expect(await get('/events/fair/mine')).toMatchObject({ status: 401, body: { code: 'unauthenticated' } });
    expect(backend.calls.at(0)).toEqual({
      method: 'lookup',
      tenant: 'default',
      eventId: 'fair',
      contactEmail: 'ann@example.com',
    });
  });

  it('starts with NODE_ENV=production only where the test says so', async () => {
    const before = process.env['NODE_ENV'];
    process.env['NODE_ENV'] = 'production';
    try {
      const refusal =
        'ExhibitorTestingModule is for development and tests only: it does not start with NODE_ENV=production';
      expect(() => ExhibitorTestingModule.forRoot({ allowInProduction: false })).toThrow(refusal);
      const builder = Test.createTestingModule({});
      expect(() => ExhibitorTestingModule.override(builder, WORLD)).toThrow(refusal);
      await create({ ...WORLD, allowInProduction: true });
      expect(await (await serve())('/me')).toMatchObject({ status: 200 });
      ExhibitorTestingModule.override(builder, { allowInProduction: true });
    } finally {
      process.env['NODE_ENV'] = before;
    }
  });

  it('keeps a selection until the logout or the login of another person, without cookies', async () => {
    await create(WORLD);
    const get = await serve(new FastifyAdapter());
    const select = { method: 'POST', headers: { 'content-type': 'application/json' }, body: '{"id":"x-2"}' };
    const chosen = { status: 201, body: { chosen: BOOTHS[1] } };
    expect(await get('/events/fair/select', select)).toMatchObject(chosen);
    expect(await get('/events/fair/booth')).toMatchObject({ status: 200, body: BOOTHS[1] });
    const { location, cookie } = await get('/auth/login');
    const state = new URL(location ?? '').searchParams.get('state') ?? '';
    const callback = await get(`/auth/callback?code=x&state=${state}`, { headers: { cookie } });
    expect(callback).toMatchObject({ status: 303 });
    expect(await get('/events/fair/booth')).toMatchObject({ status: 200, body: BOOTHS[1] });
    expect(await get('/auth/logout', { method: 'POST' })).toMatchObject({ status: 303 });
    expect(await get('/me')).toMatchObject({ status: 401 });
    const backend = module.get(ExhibitorTestingBackend);
    backend.signIn(WORLD.identity);
    expect(await get('/events/fair/booth')).toMatchObject({ status: 409 });
    expect(await get('/events/fair/select', select)).toMatchObject(chosen);
    backend.setContact('fair', 'bob@example.com', ['x-1', 'x-2']);
    backend.signIn({ email: 'bob@example.com' });
    expect(await get('/events/fair/booth')).toMatchObject({ status: 409 });
  });

  it('keeps a selection for its tenant, also one whose id is too long for a cookie', async () => {
    const long = 'é'.repeat(128);
    const eventId = 'fair'.repeat(32);
    const resolveTenant: ExhibitorTestingWorld['resolveTenant'] = ({ headers }) =>
      String(headers['x-tenant']);
    const events = { fair: BOOTHS, [eventId]: [{ id: long }, { id: 'x-1' }] };
    const contacts = { 'ann@example.com': { fair: ['x-1', 'x-2'], [eventId]: [long, 'x-1'] } };
    await create({ ...WORLD, events, contacts, resolveTenant });
    const get = await serve();
    const select = (id: string, tenant: string) => ({
      method: 'POST',
      headers: { 'content-type': 'application/json', 'x-tenant': tenant },
      body: JSON.stringify({ id }),
    });
    expect(await get('/events/fair/select', select('x-2', 'acme'))).toMatchObject({ status: 201 });
    const booth = (tenant: string, event = 'fair') =>
      get(`/events/${event}/booth`, { headers: { 'x-tenant': tenant } });
    expect(await booth('acme')).toMatchObject({ status: 200, body: BOOTHS[1] });
    expect(await booth('globex')).toMatchObject({ status: 409 });
    expect(await booth('acme', eventId)).toMatchObject({ status: 409 });
    expect(await get(`/events/${eventId}/select`, select(long, 'acme'))).toMatchObject({ status: 201 });
    expect(await booth('acme', eventId)).toMatchObject({ status: 200, body: { id: long } });
  });

  it.each([
    ['Express', () => new ExpressAdapter()],
    ['Fastify', () => new FastifyAdapter()],
  ])('finishes the login that the test started, as in production, on %s', async (_name, adapter) => {
    const steps: object[] = [];
    class CallbackGuard extends ExhibitorCallbackGuard {
      protected override storeIdentity(_http: HttpContext, { email, eventId, returnTo }: ExhibitorIdentity) {
        steps.push({ stored: { email, eventId, returnTo } });
      }
      protected override onLoggedIn(_http: HttpContext, { email }: ExhibitorIdentity) {
        steps.push({ loggedIn: email });
        if (email === 'eve@example.com') {
          throw new ForbiddenException('not you');
        }
      }
      protected override async onLoginFailed(http: HttpContext, error: ExhibitorError): Promise<void> {
        steps.push({ failed: error instanceof LoginFailedError && error.reason });
        const { eventId, returnTo } = (await this.getStartedLogin(http)) ?? {};
        return this.redirect(
          http,
          `/failed?${new URLSearchParams({ eventId: `${eventId}`, returnTo: `${returnTo}` })}`,
        );
      }
    }
    @Controller('account')
    class AccountController {
      @Get('callback')
      @UseGuards(CallbackGuard)
      @Redirect('/', 303)
      callback(@CurrentIdentity() { returnTo = '/' }: ExhibitorIdentity) {
        return { url: returnTo };
      }
    }
    await create({ ...WORLD, identity: null }, [BoothController, AccountController]);
    const get = await serve(adapter());
    const backend = module.get(ExhibitorTestingBackend);
    const start = async (query: string) => {
      const { location, cookie } = await get(`/auth/login?${query}`);
      const state = new URL(location ?? '').searchParams.get('state') ?? '';
      return { state, headers: { cookie } };
    };

    const login = await start('eventId=fair&returnTo=/mine');
    const denied = await get(`/account/callback?error=access_denied&state=${login.state}`, login);
    expect(denied.location).toBe('/failed?eventId=fair&returnTo=%2Fmine');
    const callback = async ({ state, headers }: typeof login) =>
      get(`/account/callback?code=x&state=${state}`, { headers });
    const none = '/failed?eventId=undefined&returnTo=undefined';
    expect(await get('/account/callback?code=x')).toMatchObject({ status: 302, location: none });
    expect(await get('/account/callback?code=x&state=y')).toMatchObject({ location: none });
    const second = await start('eventId=fair&returnTo=/mine');
    // Nobody logs in; then another browser, and a response without a code.
    await callback(second);
    backend.signIn(WORLD.identity);
    const third = await start('eventId=fair&returnTo=/mine');
    await callback({ ...third, headers: { cookie: '' } });
    await get(`/account/callback?state=${third.state}`, third);
    expect(steps.splice(0)).toEqual(
      ['denied', 'state', 'state', 'denied', 'state', 'state'].map((failed) => ({ failed })),
    );

    backend.signOut();
    const fourth = await start('eventId=fair&returnTo=/mine');
    backend.signIn(WORLD.identity);
    expect(await callback(fourth)).toMatchObject({ status: 303, location: '/mine' });
    const { email } = WORLD.identity;
    expect(steps).toEqual([{ stored: { email, eventId: 'fair', returnTo: '/mine' } }, { loggedIn: email }]);
    expect(await get('/mine')).toMatchObject({ status: 200, body: { eventId: 'fair' } });
    expect(await callback(fourth)).toMatchObject({ status: 302 });
    // A form is posted to another route.
    const fifth = await start('returnTo=/me');
    const headers = { ...fifth.headers, 'content-type': 'application/json' };
    const body = JSON.stringify({ state: fifth.state, code: 'x', id_token: 'y' });
    const posted = await get('/auth/callback', { method: 'POST', headers, body });
    expect(posted).toMatchObject({ status: 303, location: '/me' });
    backend.signIn({ email: 'eve@example.com' });
    const sixth = await start('returnTo=/me');
    expect(await callback(sixth)).toMatchObject({ location: '/failed?eventId=undefined&returnTo=%2Fme' });
    expect(await get('/me')).toMatchObject({ status: 401 });
  });

  it('ends a login by code, and after eight hours', async () => {
    await create();
    const get = await serve();
    const backend = module.get(ExhibitorTestingBackend);
    const { identity } = (await get('/me')).body as { identity: ExhibitorIdentity };
    const logins = module.get(ExhibitorLogins);
    // A handshake, which no guard sees.
    const identify = () =>
      logins.identify(Object.assign(new IncomingMessage(new Socket()), { url: '/live' }));
    expect(await identify()).toMatchObject({ id: identity.id });
    await logins.end({ id: identity.id });
    expect(await get('/me')).toMatchObject({ status: 401 });
    expect(await identify()).toBeUndefined();
    backend.signIn({});
    expect(await get('/me')).toMatchObject({ status: 200 });
    useFakeTimers();
    await jest.advanceTimersByTimeAsync(28_800_000);
    expect(await get('/me')).toMatchObject({ status: 401 });
  });

  it('has a user by default, and nobody with identity: null', async () => {
    await create();
    const user = { status: 200, body: { identity: { email: 'user@example.com' } } };
    expect(await (await serve())('/me')).toMatchObject(user);
    await app.close();
    await create({ identity: null });
    expect(await (await serve())('/me')).toMatchObject({ status: 401 });
  });

  it('uses tenant and event of the world where a request names none', async () => {
    @Controller(':tenant/halls')
    class HallController {
      @Get()
      @UseGuards(ExhibitorGuard)
      halls(@CurrentTenant() tenant: string, @CurrentEvent() eventId: string): object {
        return { tenant, eventId };
      }

      @Post()
      @UseGuards(ExhibitorGuard)
      build(@CurrentEvent() eventId: string): object {
        return { eventId };
      }

      @Get(':hall')
      @UseGuards(ExhibitorGuard)
      hall(): void {}
    }
    await create({ ...WORLD, tenant: 'acme', eventId: 'fair' }, [BoothController, HallController]);
    const get = await serve();
    expect(await get('/mine')).toMatchObject({ body: { eventId: 'fair', ids: ['x-1', 'x-2'] } });
    expect(await get('/me')).toMatchObject({ body: { tenant: 'acme' } });
    expect(await get('/globex/halls')).toMatchObject({ body: { tenant: 'globex', eventId: 'fair' } });
    // As in production: what changes something, or has another parameter, names its event.
    const post = { method: 'POST' };
    expect(await get('/globex/halls', post)).toMatchObject({ status: 400, body: { code: 'event_required' } });
    expect(await get('/globex/halls?eventId=fair', post)).toMatchObject({ body: { eventId: 'fair' } });
    expect(await get('/globex/halls/1?eventId=fair')).toMatchObject({ body: { code: 'event_required' } });
    const backend = module.get(ExhibitorTestingBackend);
    backend.signIn({ ...WORLD.identity, tenant: 'initech', eventId: 'hers' });
    expect(await get('/me')).toMatchObject({ body: { tenant: 'initech' } });
    expect(await get('/mine')).toMatchObject({ status: 403 });
    expect(await get('/globex/halls')).toMatchObject({ status: 401 });
    await firstValueFrom(module.get(ExhibitorsService).list('fair'));
    expect(backend.calls.at(-1)).toEqual({ method: 'list', tenant: 'acme', eventId: 'fair' });
  });

  it('tests a service that reads a whole event', async () => {
    const opened = new Date();
    const many = Array.from({ length: 120 }, (_, index) => ({ id: `e-${index}`, opened, inner: { index } }));
    await create({ events: { fair: many } });
    const exhibitors = module.get<ExhibitorsService<(typeof many)[number]>>(ExhibitorsService);
    const backend = module.get(ExhibitorTestingBackend);

    expect(await firstValueFrom(exhibitors.stream('fair').pipe(toArray()))).toEqual(many);
    const pages = await firstValueFrom(exhibitors.pages('fair').pipe(toArray()));
    expect(pages.map(({ data }) => data.length)).toEqual([50, 50, 20]);
    expect(await firstValueFrom(exhibitors.snapshot('fair'))).toMatchObject({ totalCount: 120 });
    const seen: object[] = [];
    for await (const one of exhibitors.forTenant('acme').iterate('fair')) {
      seen.push(one);
    }
    expect(seen).toEqual(many);
    await expect(firstValueFrom(exhibitors.list('none'))).rejects.toMatchObject({ code: 'not_found' });
    await expect(firstValueFrom(exhibitors.list('..'))).rejects.toMatchObject({ code: 'invalid_argument' });
    expect(backend.calls.map(({ method, tenant }) => `${method} ${tenant}`)).toEqual([
      'stream default',
      'pages default',
      'snapshot default',
      'iterate acme',
      'list default',
      'list default',
    ]);
    // A caller may change what it got: the next one gets the records of the test.
    const [first] = (await firstValueFrom(exhibitors.list('fair'))).data;
    Object.assign(first?.inner ?? {}, { index: -1 });
    expect((await firstValueFrom(exhibitors.list('fair'))).data[0]?.inner).toEqual({ index: 0 });
  });

  it('fails each method as the service would', async () => {
    await create(WORLD);
    const exhibitors = module.get(ExhibitorsService);
    const tokens = module.get(TokenService);
    const backend = module.get(ExhibitorTestingBackend);
    const calls = {
      list: () => firstValueFrom(exhibitors.list('fair')),
      pages: () => firstValueFrom(exhibitors.pages('fair')),
      iteratePages: () => exhibitors.iteratePages('fair').next(),
      stream: () => firstValueFrom(exhibitors.stream('fair')),
      iterate: () => exhibitors.iterate('fair').next(),
      snapshot: () => firstValueFrom(exhibitors.snapshot('fair')),
      lookup: () => firstValueFrom(exhibitors.lookup('fair', 'ann@example.com')),
      token: () => tokens.getToken(),
    };
    for (const [method, call] of Object.entries(calls)) {
      backend.failNext(method as keyof typeof calls, 'rate_limited', { retryAfterMs: 5 });
      const failure: unknown = await call().catch((error: unknown) => error);
      expect(isExhibitorError(failure)).toBe(true);
      expect(failure).toMatchObject({ code: 'rate_limited', retryAfterMs: 5, tenant: 'default' });
      await expect(call()).resolves.toBeDefined();
    }
    backend.failNext('stream', 'pagination_drift', { lastGoodPage: 3 });
    await expect(exhibitors.iterate('fair').next()).rejects.toMatchObject({ lastGoodPage: 3 });
    backend.failNext('pages', 'pagination_drift', { lastGoodPage: 4 });
    await expect(exhibitors.iteratePages('fair').next()).rejects.toMatchObject({ lastGoodPage: 4 });
    backend.failNext('list', 'token_rejected', { oauthError: 'invalid_scope' });
    backend.failNext('list', 'aborted');
    const refused: unknown = await calls.list().catch((error: unknown) => error);
    expect(refused).toBeInstanceOf(TokenRejectedError);
    expect(refused).toMatchObject({ oauthError: 'invalid_scope' });
    expect((await tokens.getToken()).accessToken).toBe('test-token');
    backend.failNext('lookup', 'login_failed', { reason: 'expired' });
    const expired: unknown = await calls.lookup().catch((error: unknown) => error);
    expect(expired).toBeInstanceOf(LoginFailedError);
    expect(expired).toMatchObject({ reason: 'expired' });
  });

  it('fails the next lookup that the cache does not answer, so that an old answer may serve', async () => {
    await create({ ...WORLD, lookupCache: { staleIfError: 3_600_000 } });
    const get = await serve();
    const backend = module.get(ExhibitorTestingBackend);
    const mine = { status: 200, body: BOOTHS.slice(0, 2) };
    expect(await get('/events/fair/mine')).toMatchObject(mine);
    useFakeTimers();
    backend.failNext('lookup', 'service_unavailable');
    expect(await get('/events/fair/mine')).toMatchObject(mine);
    await jest.advanceTimersByTimeAsync(60_000);
    // The failure is due: the old answer serves.
    expect(await get('/events/fair/mine')).toMatchObject(mine);
    backend.failNext('lookup', 'access_denied');
    await jest.advanceTimersByTimeAsync(5_000);
    expect(await get('/events/fair/mine')).toMatchObject({ status: 502 });
    expect(await get('/events/fair/mine')).toMatchObject(mine);
    expect(backend.calls.map(({ method }) => method)).toEqual(Array(5).fill('lookup'));
    backend.setContact('fair', 'ann@example.com', ['x-3']);
    expect(await get('/events/fair/mine')).toMatchObject({ body: BOOTHS.slice(2) });
  });

  it('sends nothing, also not for the keys of the provider, and leaves the records of the test alone', async () => {
    await create(WORLD);
    const mine = await firstValueFrom(module.get(ExhibitorsService).lookup('fair', 'ann@example.com'));
    expect([mine, ...mine].map((value) => Object.isFrozen(value))).toEqual([true, true, true]);
    expect(Object.isFrozen(WORLD.events.fair[0])).toBe(false);
    const token = `${Buffer.from('{"alg":"RS256","kid":"k"}').toString('base64url')}.eyJhIjoxfQ.c2ln`;
    const validating = module.get(TokenValidator).validate(token, { tenant: 'acme', use: 'id_token' });
    await expect(validating).rejects.toThrow('the keys of the provider: the reply cannot be used');
  });

  it('reports a contact with an exhibitor that the event does not have', async () => {
    const mistake = "a contact has the exhibitor 'x-9', which the event 'fair' does not have";
    const contacts = { 'ann@example.com': { fair: ['x-9'] } };
    await expect(create({ ...WORLD, contacts })).rejects.toThrow(mistake);
    await create(WORLD);
    const backend = module.get(ExhibitorTestingBackend);
    expect(() => backend.setContact('fair', 'ann@example.com', ['x-9'])).toThrow(mistake);
    expect(() => backend.setContact('later', 'ann@example.com', ['x-1'])).toThrow("which the event 'later'");
    backend.setExhibitors('later', [{ id: 'x-9' }]);
    backend.setContact('later', 'ann@example.com', ['x-9']);
    const lookUp = () => firstValueFrom(module.get(ExhibitorsService).lookup('later', 'ann@example.com'));
    expect(await lookUp()).toEqual([{ id: 'x-9' }]);
  });

  it('knows records by an id of their own', async () => {
    await create({
      events: { fair: [{ booth: 7 }, { booth: 8 }] },
      contacts: { 'user@example.com': { fair: ['8'] } },
      exhibitorId: ({ booth }) => String(booth),
    });
    expect(await (await serve())('/events/fair/booths/8')).toMatchObject({ body: { booth: 8 } });
  });
});

@Controller()
class MineController {
  constructor(@Inject(ExhibitorsService) private readonly exhibitors: ExhibitorsService) {}

  @Get('events/:eventId/mine')
  @UseGuards(ExhibitorGuard)
  mine(@CurrentExhibitors() exhibitors: Exhibitor[]): Exhibitor[] {
    return exhibitors;
  }

  @Get('events/:eventId')
  list(@Param('eventId') eventId: string): unknown {
    return this.exhibitors.list(eventId);
  }
}

describe('ExhibitorTestingModule.override', () => {
  @Module({
    imports: [
      ExhibitorModule.forRootAsync({
        useFactory: () => {
          throw new Error('the options of the host were read');
        },
      }),
    ],
    controllers: [MineController],
  })
  class BoothModule {}
  @Module({ imports: [BoothModule] })
  class AppModule {}

  it('replaces the service of an application that imports ExhibitorModule itself', async () => {
    const builder = Test.createTestingModule({ imports: [AppModule] });
    expect(ExhibitorTestingModule.override(builder, WORLD)).toBe(builder);
    module = await builder.compile();
    const get = await serve();
    const backend = module.get(ExhibitorTestingBackend);
    expect(await get('/events/fair/mine')).toMatchObject({ status: 200, body: BOOTHS.slice(0, 2) });
    expect(await get('/events/fair')).toMatchObject({ status: 200, body: { data: BOOTHS } });
    backend.failNext('list', 'deadline_exceeded');
    // The filter of the module answers what the controller lets through.
    expect(await get('/events/fair')).toMatchObject({ status: 504, body: { code: 'deadline_exceeded' } });
    backend.signOut();
    expect(await get('/events/fair/mine')).toMatchObject({ status: 401 });
    expect(await module.get(TenantRegistry, { strict: false }).get('acme')).toMatchObject({ key: 'acme' });
  });

  it('reads what the application says of a request, unless the world says so', async () => {
    @Module({ providers: [{ provide: 'header', useValue: 'x-hall' }], exports: ['header'] })
    class HeaderModule {}
    @Module({
      imports: [
        ExhibitorModule.forRootAsync({
          imports: [HeaderModule],
          inject: ['header', { token: 'absent', optional: true }],
          useFactory: async (header: string, absent?: string): Promise<ExhibitorModuleOptions> => ({
            tenants: {},
            resolveEvent: ({ headers }) => String(headers[header] ?? absent ?? 'fair'),
            resolveExhibitor: () => 'x-2',
            lookupCache: { ttl: 60_000 },
          }),
        }),
      ],
      controllers: [BoothController],
    })
    class EventModule {}
    const started = async (world: object) => {
      await app?.close();
      const builder = Test.createTestingModule({ imports: [EventModule] });
      module = await ExhibitorTestingModule.override(builder, { ...WORLD, ...world }).compile();
      return serve();
    };
    const get = await started({});
    expect(await get('/mine')).toMatchObject({ body: { eventId: 'fair' } });
    expect(await get('/mine', { headers: { 'x-hall': 'other' } })).toMatchObject({ status: 403 });
    expect(await get('/events/fair/booth')).toMatchObject({ body: BOOTHS[1] });
    const own = await started({ resolveExhibitor: () => 'x-1', resolveTenant: () => 'acme' });
    expect(await own('/events/fair/booth')).toMatchObject({ body: BOOTHS[0] });
    expect(await own('/me')).toMatchObject({ body: { tenant: 'acme' } });
    module.get(ExhibitorTestingBackend).failNext('lookup', 'service_unavailable');
    expect(await own('/events/fair/booth')).toMatchObject({ status: 200 });
  });

  it("stores no selection with session 'bearer', as the application", async () => {
    @Module({
      imports: [ExhibitorModule.forRoot({ tenants: {}, session: 'bearer' })],
      controllers: [BoothController],
    })
    class BearerModule {}
    const builder = Test.createTestingModule({ imports: [BearerModule] });
    module = await ExhibitorTestingModule.override(builder, WORLD).compile();
    const get = await serve();
    const headers = { 'content-type': 'application/json' };
    expect(await get('/events/fair/select', { method: 'POST', headers, body: '{"id":"x-2"}' })).toMatchObject(
      { status: 400, body: { code: 'invalid_argument' } },
    );
    expect(await get('/me')).toMatchObject({ status: 200, body: { identity: { email: 'ann@example.com' } } });
  });

  describe('of an application with several tenants', () => {
    const started = async (options: ExhibitorModuleOptions, world: object = {}) => {
      const controllers = [BoothController, MineController];
      @Module({ imports: [ExhibitorModule.forRoot({ isGlobal: true, ...options })], controllers })
      class TenantsModule {}
      const builder = Test.createTestingModule({ imports: [TenantsModule] });
      module = await ExhibitorTestingModule.override(builder, { ...WORLD, ...world }).compile();
      const codeOf = async (read: Promise<unknown>) => {
        const error: unknown = await read.then(() => undefined, Object);
        return isExhibitorError(error) ? error.code : error;
      };
      const exhibitors = module.get(ExhibitorsService, { strict: false });
      const list = (tenant?: string) => codeOf(firstValueFrom(exhibitors.list('fair', { tenant })));
      const token = (tenant?: string) =>
        codeOf(module.get(TokenService, { strict: false }).getToken({ tenant }));
      return { list, token, get: await serve() };
    };
    const resolveTenant: ExhibitorModuleOptions['resolveTenant'] = ({ headers }) =>
      headers['x-tenant']?.toString();
    const named = (tenant: string) => ({ headers: { 'x-tenant': tenant } });
    // Only the keys are read: the rest may be what a test cannot have.
    const tenants: never = { acme: {}, globex: {} } as never;

    it('requires calls to name a known tenant, as in production', async () => {
      const { list, token } = await started({ tenants, resolveTenant }, { tenant: 'acme' });
      expect([await list(), await list('nobody'), await list('globex')]).toEqual([
        'tenant_required',
        'unknown_tenant',
        undefined,
      ]);
      expect([await token(), await token('nobody'), await token('acme')]).toEqual([
        'tenant_required',
        'unknown_tenant',
        undefined,
      ]);
      const { calls } = module.get(ExhibitorTestingBackend);
      expect(calls.map(({ tenant }) => tenant)).toEqual(['', 'nobody', 'globex', '', 'nobody', 'acme']);
    });

    it('requires requests to name a known tenant, unless the login has one', async () => {
      const { get } = await started({ tenants, resolveTenant });
      const backend = module.get(ExhibitorTestingBackend);
      const mine = '/events/fair/mine';
      const required = { status: 500, body: { code: 'tenant_required' } };
      expect(await get(mine)).toMatchObject(required);
      expect(await get(mine, named('nobody'))).toMatchObject({
        status: 404,
        body: { code: 'unknown_tenant' },
      });
      expect(await get(mine, named('globex'))).toMatchObject({ status: 200 });
      expect(await get('/auth/login', named('acme'))).toMatchObject({ status: 302 });
      backend.signIn({ ...WORLD.identity, tenant: 'acme' });
      expect(await get('/me')).toMatchObject({ status: 200, body: { tenant: 'acme' } });
      expect(await get(mine, named('globex'))).toMatchObject({ status: 401 });
      // The handler names no tenant; neither does the login.
      expect(await get('/events/fair')).toMatchObject(required);
      expect(await get('/auth/login')).toMatchObject(required);
      backend.signOut();
      expect(await get(mine)).toMatchObject({ status: 401 });
    });

    it('has the tenant of the world as that of the login', async () => {
      const { get, list } = await started({ tenants }, { tenant: 'globex' });
      expect(await get('/me')).toMatchObject({ status: 200, body: { tenant: 'globex' } });
      expect(await list()).toBe('tenant_required');
    });

    it('knows every key with a tenant source, and requires calls to name one', async () => {
      const { list } = await started({ tenants: { find: () => undefined } });
      expect([await list(), await list('any')]).toEqual(['tenant_required', undefined]);
    });

    it.each([{ tenant: {} as never }, { tenants: { acme: {} } as never }])(
      'requires nothing where there is one: %j',
      async (options) => {
        const { list, get } = await started(options);
        expect([await list(), await list('any')]).toEqual([undefined, undefined]);
        expect(await get('/me')).toMatchObject({ status: 200, body: { tenant: 'default' } });
      },
    );
  });
});

describe('what a person sees of an application with routes', () => {
  @Module({
    imports: [
      ExhibitorModule.forRootAsync({
        isGlobal: true,
        routes: 'account',
        useFactory: () => {
          throw new Error('no environment');
        },
      }),
    ],
    controllers: [BoothController],
  })
  class PagesModule {}

  it.each([
    ['Express', () => new ExpressAdapter()],
    ['Fastify', () => new FastifyAdapter()],
  ])('is led to the login and back, and asked which exhibitor, on %s', async (_name, adapter) => {
    const builder = Test.createTestingModule({ imports: [PagesModule] });
    module = await ExhibitorTestingModule.override(builder, { ...WORLD, identity: null }).compile();
    app = module.createNestApplication(adapter(), { logger: false });
    app.setGlobalPrefix('api');
    await app.listen(0, '127.0.0.1');
    const url = await app.getUrl();
    const jar = new Map<string, string>();
    const open = async (path: string, init: RequestInit = {}) => {
      const cookie = [...jar].map((pair) => pair.join('=')).join('; ');
      const headers = { accept: 'text/html', cookie, ...init.headers };
      const reply = await fetch(new URL(path, url), { redirect: 'manual', ...init, headers });
      for (const one of reply.headers.getSetCookie()) {
        const [, name = '', value = ''] = /^([^=]+)=([^;]*)/.exec(one) ?? [];
        jar.set(name, value);
      }
      return {
        status: reply.status,
        location: reply.headers.get('location') ?? '',
        text: await reply.text(),
      };
    };

    const led = await open('/api/events/fair/booth');
    expect(led.location).toMatch(/^\/api\/account\/login\?.*led=1/);
    const started = await open(led.location);
    module.get(ExhibitorTestingBackend).signIn(WORLD.identity);
    const state = new URL(started.location).searchParams.get('state');
    const failed = await open('/api/account/callback?error=access_denied&state=x');
    expect(failed.location).toMatch(/^\/api\/account\/failed\?/);
    const ended = await open(`/api/account/callback?code=x&state=${state}`);
    expect(ended).toMatchObject({ status: 303, location: '/api/events/fair/booth' });
    const asked = await open(ended.location);
    expect(asked.location).toMatch(/^\/api\/account\/choose\?/);
    const page = await open(asked.location);
    expect([page.status, page.text.includes('Two')]).toEqual([200, true]);
    const body = JSON.stringify({ exhibitorId: 'x-2', eventId: 'fair', returnTo: '/api/events/fair/booth' });
    const post = { method: 'POST', headers: { 'content-type': 'application/json' }, body };
    expect(await open('/api/account/choose', post)).toMatchObject({ location: '/api/events/fair/booth' });
    expect(JSON.parse((await open('/api/events/fair/booth')).text)).toEqual(BOOTHS[1]);
  });
});

describe('a guard of the host', () => {
  const setting = (exhibitorContext: object) => ({
    canActivate(context: ExecutionContext): boolean {
      Object.assign(context.switchToHttp().getRequest<object>(), { exhibitorContext });
      return true;
    },
  });

  async function overridden(exhibitorContext: object): ReturnType<typeof serve> {
    await app?.close();
    // Without any module of the package: an overridden guard is never created.
    module = await Test.createTestingModule({ controllers: [BoothController] })
      .useMocker(() => ({}))
      .overrideGuard(ExhibitorBackChannelLogoutGuard)
      .useValue({})
      .overrideGuard(ExhibitorGuard)
      .useValue(setting(exhibitorContext))
      .overrideGuard(ExhibitorIdentityGuard)
      .useValue(setting(exhibitorContext))
      .compile();
    return serve();
  }

  it('may set request.exhibitorContext, or a part of it, and the decorators read it', async () => {
    const identity = { email: 'ann@example.com' };
    const context = { identity, tenant: 'acme', eventId: 'fair', exhibitors: BOOTHS };
    const whole = await overridden({ ...context, exhibitorId: 'x-3' });
    expect((await whole('/me')).body).toEqual({ identity, tenant: 'acme' });
    expect((await whole('/mine')).body).toEqual({ eventId: 'fair', ids: ['x-1', 'x-2', 'x-3'] });
    expect((await whole('/events/fair/booth')).body).toEqual(BOOTHS[2]);
    const part = await overridden({ exhibitors: BOOTHS.slice(0, 1) });
    expect(await part('/events/fair/booth')).toMatchObject({ status: 200, body: BOOTHS[0] });
    expect(await part('/me')).toMatchObject({ status: 500 });
    for (const none of [{ exhibitors: BOOTHS }, { exhibitors: BOOTHS.slice(0, 1), exhibitorId: 'x-3' }]) {
      const get = await overridden(none);
      expect(await get('/events/fair/booth')).toMatchObject({ status: 409 });
    }
  });
});

/** The test of docs/testing.md for services, as it is: it registers its own `describe`. */
await loadSnippets('testing.md', 'service test');

it('serves a guarded controller on Fastify, by the lines of docs/testing.md', async () => {
  const { onFastify } = await loadSnippets<{ onFastify(module: TestingModule): Promise<INestApplication> }>(
    'testing.md',
    'fastify test',
  );
  module = await Test.createTestingModule({
    imports: [ExhibitorTestingModule.forRoot(WORLD)],
    controllers: [BoothController],
  }).compile();
  app = await onFastify(module);
  await request(app.getHttpServer()).get('/events/fair/mine').expect(200);
});
