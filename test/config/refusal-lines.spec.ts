/**
 * Whatever a visitor is refused in general words, an operator reads with its cause. The reasons of tokens are in
 * `login/conformance.spec.ts`, those of addresses in `login/verified-email.spec.ts`, those of logout tokens in
 * `login/back-channel.spec.ts`, and code of the host in `host-code.spec.ts`.
 */
import { describe, expect, it } from '@jest/globals';
import {
  Controller,
  Get,
  Inject,
  Injectable,
  Module,
  Param,
  Redirect,
  UseGuards,
  type Type,
} from '@nestjs/common';
import { NestFactory } from '@nestjs/core';
import {
  ExhibitorCallbackGuard,
  ExhibitorIdentityGuard,
  ExhibitorLoginGuard,
  ExhibitorModule,
  ExhibitorsService,
  type HttpContext,
  type ExhibitorErrorCode,
  HTTP_STATUS_BY_CODE,
  type TenantOptions,
} from '../../lib/index.js';
import { BoothController } from '../support/booth.controller.js';
import { clockOf } from '../support/clock.js';
import { stall, type AnyFault } from '../support/faults.js';
import { hostUser, signIn } from '../nest/signed-in.js';
import { withProvider, type Given } from '../login/hosts.js';
import { arrive, copyOf, toHost, type Arrival } from '../login/journey.js';
import { COOKIE_SECRET, setUser, startHost, type Host, type HostKind } from '../support/host.js';
import { pemOf } from '../support/keys.js';
import { useClosing, useSandbox } from '../support/lifetimes.js';
import { loggedLines } from '../support/logged-lines.js';
import type { OtherOptions } from '../support/module-options.js';
import { freePort } from '../support/server.js';
import { Visitor, type Reply } from '../support/visitor.js';

const start = withProvider(() => undefined);
const sandbox = await useSandbox();
const closing = useClosing();
const { warnings, errors } = loggedLines();
const lines = (): string[] => [...warnings, ...errors];
const clear = (): void => {
  warnings.length = 0;
  errors.length = 0;
};

const KINDS: readonly HostKind[] = ['express', 'fastify'];

@Controller()
class OtherPathController {
  @Get('portal/callback')
  @UseGuards(ExhibitorCallbackGuard)
  callback(): void {}

  @Get('auth/login')
  @UseGuards(ExhibitorLoginGuard)
  login(): void {}
}

interface CallbackCase {
  what: string;
  given?: Given;
  /** Sends the response of the provider, changed. */
  send: (visitor: Visitor, arrival: Arrival, host: Host) => Promise<Reply>;
  line: RegExp | undefined;
}

const CALLBACKS: readonly CallbackCase[] = [
  {
    what: 'on another path',
    given: { controllers: [OtherPathController] },
    send: (visitor, { parameters }, { url }) => visitor.visit(`${url}/portal/callback?${parameters}`),
    line: /^tenant\.login\.redirectUri: the callback is refused \(state\): .*expected 'GET \/auth\/callback', received 'GET \/portal\/callback' \(unverified/,
  },
  {
    what: 'by another method',
    send: (visitor, { callback, parameters }) => visitor.visit(callback, { form: parameters }),
    line: /^tenant\.login\.redirectUri: .*expected 'GET \/auth\/callback', received 'POST \/auth\/callback'/,
  },
  {
    what: 'by another method, hybrid',
    given: { login: { responseType: 'code id_token' } },
    send: (visitor, { callback, parameters }) => visitor.visit(`${callback}?${parameters}`),
    line: /^tenant\.login\.redirectUri: .*expected 'POST \/auth\/callback', received 'GET \/auth\/callback'/,
  },
  {
    what: 'without a code',
    send: (visitor, { callback, parameters }) => {
      parameters.delete('code');
      return visitor.visit(`${callback}?${parameters}`);
    },
    line: /^tenant\.login\.responseType: .*the parameters are not those.*expected 'code', received 'state/,
  },
  {
    what: 'without its login cookie',
    send: (_visitor, { callback, parameters }) => new Visitor().visit(`${callback}?${parameters}`),
    line: /^tenant\.login\.redirectUri: the callback is refused \(state\): it brought no login cookie/,
  },
  {
    what: 'with an error and no state',
    send: (visitor, { callback }) => visitor.visit(`${callback}?error=invalid_scope`),
    line: /^tenant: the callback is refused \(state\): it has no state, or a parameter more than once; received 'error invalid_scope' \(unverified/,
  },
  {
    what: 'as a form without a state',
    send: (visitor, { callback }) => visitor.visit(callback, { form: { code: 'x' } }),
    line: /^tenant: the callback is refused \(state\): it has no state, or a parameter more than once \(unverified/,
  },
  { what: 'without parameters', send: (visitor, { callback }) => visitor.visit(callback), line: undefined },
  {
    what: 'with a state that does not open',
    send: (visitor, { callback, parameters }) => {
      parameters.set('state', `${parameters.get('state') ?? ''}x`);
      return visitor.visit(`${callback}?${parameters}`);
    },
    line: undefined,
  },
  {
    what: 'with a state that is spent',
    send: async (visitor, arrival) => {
      expect((await toHost(visitor, arrival)).status).toBe(303);
      return toHost(visitor, arrival);
    },
    line: undefined,
  },
  {
    what: 'with a state that is spent, in a browser that still has its cookie',
    send: async (visitor, arrival, host) => {
      const copy = copyOf(visitor, host);
      expect((await toHost(visitor, arrival)).status).toBe(303);
      return toHost(copy, arrival);
    },
    line: undefined,
  },
  {
    what: 'with a state that is expired',
    send: (visitor, arrival, { app }) => {
      clockOf(app).skip(3_600_001);
      return toHost(visitor, arrival);
    },
    line: undefined,
  },
  {
    what: 'with a state of another client of this host name',
    send: async (visitor, arrival, { callback }) => {
      const sibling = await start({ login: { clientId: 'another' }, redirectUri: callback });
      return toHost(visitor, { ...arrival, callback: sibling.callback });
    },
    line: /^tenant: the callback is refused \(state\): this login was started with another provider, client or host/,
  },
];

describe.each(KINDS)('on %s, a callback', (kind) => {
  let usual: Promise<Host> | undefined;

  it.each(CALLBACKS)('$what is 401, with its line', async ({ given, send, line }) => {
    const host = await (given === undefined ? (usual ??= start({ kind })) : start({ kind, ...given }));
    const { visitor, arrival } = await arrive(host);
    // A line of the same cause is logged once a minute.
    clockOf(host.app).skip(60_000, ['now']);
    clear();
    const reply = await send(visitor, arrival, host);
    expect([reply.status, JSON.parse(reply.text)]).toEqual([
      401,
      expect.objectContaining({ reason: 'state' }),
    ]);
    expect(lines()).toEqual(line === undefined ? [] : [expect.stringMatching(line)]);
    expect(reply.text).not.toMatch(/redirectUri|responseType|getCallbackPath/);
  });

  it('behind an overridden onLoginFailed is logged before, also a mistake in the options', async () => {
    @Injectable()
    class FailedPageGuard extends ExhibitorCallbackGuard {
      protected override onLoginFailed(http: HttpContext): Promise<never> {
        return this.redirect(http, '/sorry');
      }
    }
    @Controller('auth')
    class OwnController {
      @Get('login') @UseGuards(ExhibitorLoginGuard) login(): void {}
      @Get('callback') @UseGuards(FailedPageGuard) @Redirect('/') callback(): void {}
    }
    // Without a session of Passport.
    const host = await start({ kind, session: 'host', controllers: [OwnController] });
    const { visitor, arrival } = await arrive(host);
    clear();
    expect((await toHost(visitor, arrival)).location).toBe(`${host.url}/sorry`);
    expect(lines()).toEqual([expect.stringMatching(/'host' needs request\.logIn/)]);
  });
});

describe('a form that no body parser has read', () => {
  it.each([
    ['a callback', '/auth/callback', { state: 'x', code: 'y' }, 401],
    ['a back-channel logout', '/auth/backchannel-logout', { logout_token: 'x' }, 400],
    ['a choice', '/auth/choose', { eventId: 'world-2026', exhibitorId: 'x' }, 400],
  ])('is told of %s', async (_what, path, form, status) => {
    const port = await freePort();
    const url = `http://127.0.0.1:${port}`;
    const tenant = sandbox.tenantOptions('acme', { redirectUri: `${url}/auth/callback` });
    @Module({
      imports: [
        ExhibitorModule.forRoot({
          isGlobal: true,
          routes: { path: 'auth', backChannelLogout: true },
          tenant,
          secrets: [COOKIE_SECRET],
          logoutCheck: { provider: true },
        }),
      ],
    })
    class AppModule {}
    const app = closing(await NestFactory.create(AppModule as Type, { bodyParser: false, logger: false }));
    await app.listen(port, '127.0.0.1');
    const visitor = await signIn(sandbox, { url });
    clear();
    expect((await visitor.visit(`${url}${path}`, { form })).status).toBe(status);
    expect(lines()).toEqual([expect.stringMatching(/no body parser has read its form: .*bodyParser/)]);
  });
});

describe.each(KINDS)("on %s, session: 'host' whose session keeps only an id", (kind) => {
  it('is nobody, and the line names the members that came', async () => {
    @Controller()
    class MeController {
      @Get('me') @UseGuards(ExhibitorIdentityGuard) me(): string {
        return 'me';
      }
    }
    let user: unknown = { id: 'login-1' };
    const host = closing(
      await startHost({
        kind,
        controllers: [MeController],
        configure: (app) => setUser(app, kind, () => user),
        options: (redirectUri) => ({
          tenant: sandbox.tenantOptions('acme', { redirectUri }),
          secrets: [COOKIE_SECRET],
          session: 'host',
        }),
      }),
    );
    clear();
    for (let visit = 0; visit < 3; visit++) {
      expect((await new Visitor().visit(`${host.url}/me`)).status).toBe(401);
    }
    expect(lines()).toEqual([
      expect.stringMatching(/^session: .*all members of ExhibitorIdentity.* has: id$/),
    ]);
    user = hostUser(sandbox.tenantOptions('acme', { redirectUri: host.callback }));
    expect((await new Visitor().visit(`${host.url}/me`)).status).toBe(200);
    user = undefined;
    expect((await new Visitor().visit(`${host.url}/me`)).status).toBe(401);
    expect(lines()).toHaveLength(1);
  });
});

/** A person alone can cause it, or the caller is told it in full. */
const NO_LINE = 'no line';

interface CodeCase {
  options?: OtherOptions & { tenants?: readonly string[] };
  tenant?: Partial<TenantOptions>;
  fault?: [operation: 'token' | 'list' | 'lookup', fault: AnyFault];
  /** Default: the exhibitors of the user. */
  path?: string;
  method?: string;
  line: RegExp;
}

/** The first page of two, whatever page is asked for. */
const SAME_PAGE: AnyFault = {
  kind: 'body',
  body: JSON.stringify({
    paginationMetadata: { currentPage: 1, totalCount: 2, totalPages: 2, itemsPerPage: 1, hasNextPage: true },
    data: [{ id: 'one' }],
  }),
};

/** A code without a row does not compile. */
const CODES: Record<ExhibitorErrorCode, CodeCase | readonly CodeCase[] | typeof NO_LINE> = {
  configuration_invalid: {
    options: { resolveExhibitor: (() => 7) as never },
    line: /resolveExhibitor: must answer a string or undefined, not number/,
  },
  invalid_argument: NO_LINE,
  unknown_tenant: {
    options: { resolveTenant: () => 'nobody' },
    line: /^a request names the tenant 'nobody', which does not exist$/,
  },
  tenant_required: {
    options: { tenants: ['acme', 'globex'] },
    path: '/auth/login',
    line: /tenant_required|several tenants/,
  },
  token_rejected: [
    { tenant: { clientSecret: 'wrong' }, line: /^tenant\.clientSecret, tenant\.clientId: / },
    {
      tenant: { clientSecret: undefined, clientAuth: { privateKey: pemOf('provider') } },
      line: /^tenant\.clientAuth, tenant\.clientId: /,
    },
  ],
  token_unavailable: { fault: ['token', answer(500)], line: /^tenant: token: the service answered 500$/ },
  access_denied: { fault: ['lookup', answer(403)], line: /^tenant\.tenantId, tenant\.scope: .*status 403/ },
  request_rejected: [
    {
      fault: ['lookup', answer(422, { title: 'no such hall', detail: 'of sam.several@example.com' })],
      line: /^tenant: lookup: the service rejected the request with status 422; received 'no such hall; of \[removed\]'$/,
    },
    {
      fault: ['lookup', answer(422, { detail: `not ${btoa('hall of sam.several@example.com')}` })],
      line: /^tenant: lookup: the service rejected the request with status 422; received '\[removed\]'$/,
    },
  ],
  not_found: { path: '/list/nowhere', line: /^tenant\.baseUrl: the service answered 404: / },
  rate_limited: { fault: ['lookup', answer(429)], line: /^tenant: lookup: the service limits our requests$/ },
  service_unavailable: { fault: ['lookup', answer(503)], line: /^tenant: lookup: the service answered 503$/ },
  deadline_exceeded: {
    fault: ['lookup', stall('before-headers')],
    line: /^tenant: lookup: .*(deadline|in time)/,
  },
  malformed_response: {
    fault: ['lookup', { kind: 'body', body: '7' }],
    line: /malformed_response: not the exhibitors/,
  },
  pagination_drift: { fault: ['lookup', SAME_PAGE], line: /pagination_drift: page 2: currentPage is 1/ },
  aborted: NO_LINE,
  // Its reasons have lines of their own.
  login_failed: NO_LINE,
  unauthenticated: NO_LINE,
  event_required: { path: '/mine', line: /BoothController\.mineByQuery names no event/ },
  no_exhibitor: NO_LINE,
  exhibitor_not_selected: NO_LINE,
};

function answer(status: number, body: object = {}): AnyFault {
  return {
    kind: 'status',
    status,
    body: JSON.stringify(body),
    headers: { 'content-type': 'application/json' },
  };
}

@Controller()
class ListController {
  constructor(@Inject(ExhibitorsService) private readonly exhibitors: ExhibitorsService) {}
  @Get('list/:eventId') list(@Param('eventId') eventId: string): unknown {
    return this.exhibitors.list(eventId, { tenant: 'default' });
  }
}

describe('an error by its code', () => {
  const cases = Object.entries(CODES).flatMap(([code, row]) =>
    row === NO_LINE ? [] : [row].flat().map((one) => ({ code: code as ExhibitorErrorCode, ...one })),
  );

  it.each(cases)('$code has a line', async ({ code, options, tenant, fault, path, line }) => {
    const { tenants, ...others } = options ?? {};
    const host = closing(
      await startHost({
        controllers: [BoothController, ListController],
        options: (redirectUri) => {
          const acme = { ...sandbox.tenantOptions('acme', { redirectUri }), ...tenant };
          const given = { secrets: [COOKIE_SECRET], http: { attempts: 1, deadline: 800 }, ...others };
          return tenants === undefined
            ? { tenant: acme, ...given }
            : { tenants: Object.fromEntries(tenants.map((key) => [key, { ...acme }])), ...given };
        },
      }),
    );
    const isPublic = path?.startsWith('/auth') || path?.startsWith('/list') || code === 'unknown_tenant';
    const visitor = isPublic ? new Visitor() : await signIn(sandbox, host);
    clear();
    if (fault !== undefined) {
      sandbox.failNext(fault[0], fault[1], 10);
    }
    for (let visit = 0; visit < 2; visit++) {
      const reply = await visitor.visit(`${host.url}${path ?? '/events/world-2026/mine'}`);
      expect([reply.status, JSON.parse(reply.text)]).toEqual([
        HTTP_STATUS_BY_CODE[code],
        expect.objectContaining({ code }),
      ]);
    }
    expect(lines()).toEqual([expect.stringMatching(line)]);
    expect(lines().join()).not.toContain('@');
  });
});
