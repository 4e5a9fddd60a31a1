/** A host that has other logins: docs/other-logins.md, whose snippets it runs. */
import { beforeAll, describe, expect, it } from '@jest/globals';
import {
  Body,
  Controller,
  Get,
  Injectable,
  Module,
  Param,
  ParseIntPipe,
  Post,
  Req,
  UseGuards,
  ValidationPipe,
  VersioningType,
  type CallHandler,
  type CanActivate,
  type ExceptionFilter,
  type ExecutionContext,
  type INestApplication,
  type NestInterceptor,
  type Type,
} from '@nestjs/common';
import { APP_FILTER, APP_GUARD } from '@nestjs/core';
import { AuthGuard, PassportStrategy } from '@nestjs/passport';
import { DocumentBuilder, SwaggerModule } from '@nestjs/swagger';
import { Throttle, ThrottlerGuard, ThrottlerModule } from '@nestjs/throttler';
import { IsString } from 'class-validator';
import session from 'express-session';
import helmet from 'helmet';
import passport from 'passport';
import { Strategy } from 'passport-local';
import { map, type Observable } from 'rxjs';
import {
  CurrentExhibitors,
  CurrentIdentity,
  ExhibitorExceptionFilter,
  ExhibitorGuard,
  type Exhibitor,
  type ExhibitorIdentity,
} from '../../lib/index.js';
import { bodyOf, hostUser, idsOf, logOut, signIn } from '../nest/signed-in.js';
import { acmeOptions, COOKIE_SECRET, startHost, type Host } from '../support/host.js';
import { useHost, useSandbox } from '../support/lifetimes.js';
import { loadSnippets } from '../support/snippets.js';
import { Visitor, type Reply, type VisitOptions } from '../support/visitor.js';

interface Snippets {
  AllErrorsFilter: Type<ExceptionFilter>;
  StaffGuard: Type<CanActivate>;
  readStaff(request: unknown, response: unknown, next: () => void): void;
  keepUsers(find: (staffId: string) => Promise<{ staffId: string } | undefined>): void;
}

const HTML = { accept: 'text/html' };

const sandbox = await useSandbox();
const names = ['staff', 'serializer', 'catch-all'];
const { AllErrorsFilter, StaffGuard, readStaff, keepUsers } = await loadSnippets<Snippets>(
  'other-logins.md',
  ...names,
);

interface StaffRequest {
  user?: { email?: string };
  staff?: { staffId: string };
  session: { staff?: object | undefined; destroy(done: () => void): void };
  body: Record<string, string>;
}

class Item {
  @IsString()
  name = '';
}

@Controller({ path: 'items', version: '1' })
class ItemsController {
  @Get('limited')
  @Throttle({ default: { limit: 1, ttl: 60_000 } })
  limited(): string {
    return 'limited';
  }

  @Get('broken')
  broken(): never {
    throw new Error('of the host');
  }

  @Get(':id')
  item(@Param('id', ParseIntPipe) id: number): object {
    return { id };
  }

  @Post()
  create(@Body() item: Item): object {
    return { isItem: item instanceof Item, ...item };
  }
}

/** Finds staff by passport-local. */
@Injectable()
class StaffStrategy extends PassportStrategy(Strategy) {
  validate(username: string, password: string): object | null {
    return password === 'right' ? { staffId: username } : null;
  }
}

@Injectable()
class LocalGuard extends AuthGuard('local') {
  override async canActivate(context: ExecutionContext): Promise<boolean> {
    await super.canActivate(context);
    await super.logIn(context.switchToHttp().getRequest());
    return true;
  }
}

/** Keeps staff in the session, without Passport. */
class SessionGuard implements CanActivate {
  canActivate(context: ExecutionContext): boolean {
    const { session: kept, body } = context.switchToHttp().getRequest<StaffRequest>();
    kept.staff = body['password'] === 'right' ? { staffId: body['username'] } : undefined;
    return kept.staff !== undefined;
  }
}

const findStaff = async (staffId: string) => (staffId === 'gone' ? undefined : { staffId });

function staffController(guard: Type<CanActivate>): Type {
  @Controller({ path: 'staff', version: '1' })
  class StaffController {
    @Post('login')
    @UseGuards(guard)
    login(@Req() { user }: StaffRequest): object {
      return { ...user };
    }

    @Get('me')
    @UseGuards(StaffGuard)
    me(@Req() { staff, user }: StaffRequest): object {
      return { staff, user };
    }

    @Post('logout')
    async logout(@Req() { session: kept }: StaffRequest): Promise<void> {
      await new Promise<void>((resolve) => kept.destroy(resolve));
    }
  }
  return StaffController;
}

@Controller({ path: 'booths', version: '1' })
class BoothsController {
  @Get(':eventId')
  @UseGuards(ExhibitorGuard)
  mine(
    @CurrentExhibitors() exhibitors: Exhibitor[],
    @CurrentIdentity() { email }: ExhibitorIdentity,
    @Req() { user, staff }: StaffRequest,
  ): object {
    return { ids: exhibitors.map(({ id }) => id), email, user: user?.email, staff };
  }

  /** A guard of the host behind ours. */
  @Get(':eventId/staff')
  @UseGuards(ExhibitorGuard, StaffGuard)
  ofStaff(): string {
    return 'of staff';
  }
}

class Wrapping implements NestInterceptor {
  intercept(_: ExecutionContext, next: CallHandler): Observable<object> {
    return next.handle().pipe(map((data: unknown) => ({ data })));
  }
}

/** In place of the module. */
@Module({})
class Without {}

const KINDS = { express: LocalGuard, fastify: SessionGuard } as const;
type Kind = keyof typeof KINDS;

/** What the host has of its own; the module comes beside it, or an empty one. */
function startWith(kind: Kind, controllers: Type[], module?: Type): Promise<Host> {
  return startHost({
    kind: kind === 'fastify' ? 'fastify + @fastify/session' : 'express',
    controllers: [ItemsController, staffController(KINDS[kind]), ...controllers],
    options: acmeOptions(sandbox, { isGlobal: true, routes: 'auth', session: 'cookie' }),
    ...(module === undefined ? {} : { module: () => ({ module }) }),
    importedBefore: [ThrottlerModule.forRoot([{ ttl: 60_000, limit: 1_000 }])],
    providers: [
      ...(kind === 'express' ? [StaffStrategy] : []),
      ...(module === undefined ? [] : [{ provide: ExhibitorExceptionFilter, useValue: {} }]),
      { provide: APP_GUARD, useClass: ThrottlerGuard },
      { provide: APP_FILTER, useClass: AllErrorsFilter },
    ],
    configure: (app) => configure(app, kind),
  });
}

function configure(app: INestApplication, kind: Kind): void {
  app.enableVersioning({ type: VersioningType.URI });
  app.useGlobalPipes(new ValidationPipe({ whitelist: true, forbidNonWhitelisted: true, transform: true }));
  app.useGlobalInterceptors(new Wrapping());
  app.use(helmet());
  if (kind === 'express') {
    keepUsers(findStaff);
    app.use(session({ secret: COOKIE_SECRET, resave: false, saveUninitialized: false }));
    app.use(passport.session(), readStaff);
    return;
  }
  const fastify = app.getHttpAdapter().getInstance();
  fastify.addHook('preHandler', async (request: StaffRequest) => {
    Object.assign(request, { user: request.session.staff, staff: request.session.staff });
  });
}

const VARYING = ['date', 'set-cookie', 'x-ratelimit-reset'];

/** What a reply says that does not depend on its time. */
function contentOf({ status, headers, text, setCookies }: Reply): object {
  const cookies = setCookies.map((cookie) => cookie.split('=')[0]);
  return { status, text, cookies, headers: [...headers].filter(([name]) => !VARYING.includes(name)) };
}

describe.each(['express', 'fastify'] as const)('a host on %s with staff, sessions and much else', (kind) => {
  const alone = useHost(() => startWith(kind, [], Without));
  const host = useHost(() => startWith(kind, [BoothsController]));
  const staff = { username: 'sue', password: 'right' };
  const ids = () => idsOf(sandbox);

  it('answers at its own routes as it did without the module', async () => {
    const requests: [path: string, options?: VisitOptions][] = [
      ['/v1/items/7'],
      ['/v1/items/seven'],
      ['/items/7'],
      ['/v1/items', { json: { name: 'a' } }],
      ['/v1/items', { json: { name: 1, other: 2 } }],
      ['/v1/items/broken'],
      ['/v1/items/limited'],
      ['/v1/items/limited'],
      ['/v1/staff/me'],
      ['/v1/staff/login', { json: { ...staff, password: 'wrong' } }],
      ['/v1/staff/login', { json: staff }],
      ['/v1/staff/me'],
      ['/v1/staff/logout', { json: {} }],
      ['/v1/staff/me'],
    ];
    const [before, after] = [new Visitor(), new Visitor()];
    const statuses: number[] = [];
    for (const [path, options] of requests) {
      const was = await before.visit(`${alone.url}${path}`, options);
      const is = await after.visit(`${host.url}${path}`, options);
      expect([path, contentOf(is)]).toEqual([path, contentOf(was)]);
      statuses.push(is.status);
    }
    const refused = kind === 'express' ? 401 : 403;
    expect(statuses).toEqual([200, 400, 404, 201, 400, 500, 200, 429, 403, refused, 201, 200, 201, 403]);
    const documented = ({ app }: Host): string[] =>
      Object.keys(SwaggerModule.createDocument(app, new DocumentBuilder().build()).paths);
    const own = (paths: string[]) => paths.filter((path) => !/^\/(auth|v1\/booths)\b/.test(path));
    expect(own(documented(host))).toEqual(documented(alone));
  });

  describe('and a person who is staff and exhibitor', () => {
    let visitor: Visitor;
    const read = async (path: string): Promise<unknown> => bodyOf(await visitor.visit(`${host.url}${path}`));
    beforeAll(async () => {
      visitor = new Visitor();
      await visitor.visit(`${host.url}/v1/staff/login`, { json: staff });
      await signIn(sandbox, host, 'sam.several', {}, visitor);
    });

    it('has both logins at once: request.user is the exhibitor behind guards of ours alone', async () => {
      const email = 'sam.several@example.com';
      const sue = { staffId: 'sue' };
      const booth = { data: { ids: ids(), email, user: email, staff: sue } };
      expect(await read('/v1/booths/world-2026')).toEqual(booth);
      expect(await read('/v1/staff/me')).toEqual({ data: { staff: sue, user: sue } });
      expect(await read('/v1/booths/world-2026/staff')).toEqual({ data: 'of staff' });
    });

    it('is logged out of each alone', async () => {
      const exhibitor = await signIn(sandbox, host);
      expect((await exhibitor.visit(`${host.url}/v1/booths/world-2026/staff`)).status).toBe(403);
      await exhibitor.visit(`${host.url}/v1/staff/login`, { json: staff });
      await exhibitor.visit(`${host.url}/v1/staff/logout`, { json: {} });
      const booth = await exhibitor.visit(`${host.url}/v1/booths/world-2026`);
      expect(bodyOf(booth)).toEqual({
        data: { ids: ids(), email: expect.any(String), user: expect.any(String) },
      });
      expect((await logOut(visitor, host)).status).toBe(303);
      expect((await visitor.visit(`${host.url}/v1/booths/world-2026`)).status).toBe(401);
      expect((await visitor.visit(`${host.url}/v1/staff/me`)).status).toBe(200);
    });
  });

  it('counts a login, does not wrap its redirect, and leaves the errors of the module to its filter', async () => {
    const visitor = new Visitor();
    const login = await visitor.visit(`${host.url}/auth/login`);
    expect([login.status, login.text.includes('"data"')]).toEqual([302, false]);
    expect(login.headers.get('x-ratelimit-limit')).toBe('1000');
    const refused = await visitor.visit(`${host.url}/v1/booths/world-2026`);
    expect(bodyOf(refused)).toMatchObject({ statusCode: 401, code: 'unauthenticated' });
    expect(refused.headers.get('x-content-type-options')).toBe('nosniff');
    const failed = await visitor.visit(`${host.url}/auth/me`);
    expect(bodyOf(failed)).toMatchObject({ code: 'unauthenticated' });
  });

  it('leads people to the login, and shows them pages, whatever filter, interceptor and helmet do', async () => {
    const page = `${host.url}/v1/booths/world-2026`;
    const led = await new Visitor().visit(page, { headers: HTML });
    expect([led.status, new URL(String(led.location)).pathname]).toEqual([302, '/auth/login']);
    const visitor = await signIn(sandbox, host, 'nora.none');
    for (const [url, status] of [
      [page, 403],
      [`${host.url}/auth/choose?eventId=world-2026`, 403],
      [`${host.url}/auth/failed`, 401],
    ] as const) {
      const shown = await visitor.visit(url, { headers: HTML });
      expect([url, shown.status, shown.text.startsWith('<!doctype html>')]).toEqual([url, status, true]);
      expect(shown.headers.get('content-security-policy')).toMatch(/^default-src 'none'/);
      expect(shown.headers.get('x-content-type-options')).toBe('nosniff');
    }
  });
});

it('keeps staff as before, and identities as they are, in the session of Passport', async () => {
  // One Passport serves all suites of a worker: another suite has added to these lists.
  Object.assign(passport, { _serializers: [], _deserializers: [] });
  keepUsers(findStaff);
  const keep = async (user: object): Promise<unknown[]> => {
    const kept = await new Promise<object>((resolve, reject) => {
      passport.serializeUser(user, (error: unknown, all?: unknown) =>
        error ? reject(error) : resolve(Object(all)),
      );
    });
    const found = await new Promise((resolve, reject) => {
      passport.deserializeUser(kept, (error: unknown, one?: unknown) =>
        error ? reject(error) : resolve(one),
      );
    });
    return [kept, found];
  };
  const identity = hostUser(sandbox.tenantOptions('acme'));
  expect(await keep(identity)).toEqual([identity, identity]);
  expect(await keep({ staffId: 'sue', hash: 'x' })).toEqual([{ staffId: 'sue' }, { staffId: 'sue' }]);
  expect(await keep({ staffId: 'gone' })).toEqual([{ staffId: 'gone' }, false]);
});
