import { afterAll, afterEach, beforeAll, describe, expect, it } from '@jest/globals';
import {
  Controller,
  Get,
  HttpException,
  Inject,
  Param,
  Res,
  UseFilters,
  type Provider,
  Body,
  Catch,
  Module,
  Post,
  Req,
  UseGuards,
  type ArgumentsHost,
  type ExceptionFilter,
} from '@nestjs/common';
import { APP_FILTER, HttpAdapterHost } from '@nestjs/core';
import {
  ExhibitorError,
  ExhibitorExceptionFilter,
  ExhibitorsService,
  HTTP_STATUS_BY_CODE,
  LoginFailedError,
  PaginationDriftError,
  type ExhibitorErrorCode,
  ExhibitorGuard,
  ExhibitorSelection,
  isExhibitorError,
} from '../../lib/index.js';
import type { ExhibitorSandbox } from '../../lib/testing/index.js';
import { COOKIE_SECRET, startHost, type Host, type HostOptions } from '../support/host.js';
import { pause } from '../support/wait.js';
import { startSandbox } from '../support/sandbox.js';
import { BoothController } from '../support/booth.controller.js';
import { bodyOf, signIn } from './signed-in.js';

interface RawResponse {
  raw?: RawResponse;
  hijack?: () => void;
  writeHead: (status: number, headers: Record<string, string>) => void;
  write: (text: string) => void;
}

function throwFailure(code: string): never {
  if (code === 'login_failed') {
    throw new LoginFailedError('nonce', 'the login is refused: nonce');
  }
  if (code === 'pagination_drift') {
    throw new PaginationDriftError({ field: 'totalCount', expected: 3, seen: 4, page: 2 }, 1);
  }
  throw new ExhibitorError(code as ExhibitorErrorCode, `it was ${code}`, { retryAfterMs: 1_200 });
}

@Controller()
class UnboundController {
  @Get('fail/:code')
  fail(@Param('code') code: string): never {
    return throwFailure(code);
  }

  @Get('teapot')
  teapot(): never {
    throw new HttpException('I am a teapot', 418);
  }

  /** A response that has started when the service fails. */
  @Get('stream')
  async stream(@Res() response: RawResponse): Promise<void> {
    const raw = response.raw ?? response;
    raw.writeHead(200, { 'Content-Type': 'text/plain' });
    raw.write('the first page\n');
    await pause(20);
    throw new ExhibitorError('service_unavailable', 'the service went away', { retryAfterMs: 1_000 });
  }
}

@Controller('bound')
@UseFilters(ExhibitorExceptionFilter)
class BoundController extends UnboundController {
  constructor(@Inject(ExhibitorsService) private readonly exhibitors: ExhibitorsService) {
    super();
  }

  @Get('events/:eventId')
  list(@Param('eventId') eventId: string): unknown {
    return this.exhibitors.list(eventId);
  }
}

const CODES = Object.keys(HTTP_STATUS_BY_CODE) as ExhibitorErrorCode[];

let sandbox: ExhibitorSandbox;
beforeAll(async () => {
  sandbox = await startSandbox();
});
afterAll(() => sandbox?.stop());
afterEach(() => sandbox?.clearFaults());

describe.each(['express', 'fastify'] as const)('ExhibitorExceptionFilter on %s', (kind) => {
  const withFilter: Provider = { provide: APP_FILTER, useClass: ExhibitorExceptionFilter };
  const startWith = (providers: Provider[], extras: { bindFilter?: boolean } = {}): Promise<Host> =>
    startHost({
      kind,
      controllers: [BoundController, UnboundController],
      providers,
      options: () => ({
        tenant: sandbox.tenantOptions('acme'),
        secrets: [COOKIE_SECRET],
        http: { attempts: 1, deadline: 600 },
        ...extras,
      }),
    });

  const expected = (code: ExhibitorErrorCode): object => {
    const statusCode = HTTP_STATUS_BY_CODE[code];
    return {
      statusCode,
      message: expect.any(String),
      error: expect.any(String),
      code,
      ...(code === 'login_failed' ? { reason: 'nonce' } : {}),
    };
  };

  it.each([
    ['by @UseFilters', '/bound', []],
    ['by APP_FILTER', '', [withFilter]],
    ['by both', '/bound', [withFilter]],
  ] as [string, string, Provider[]][])(
    'bound %s answers each code by its status',
    async (_, path, providers) => {
      const host = await startWith(providers);
      try {
        for (const code of CODES) {
          const reply = await fetch(`${host.url}${path}/fail/${code}`);
          expect([code, reply.status]).toEqual([code, HTTP_STATUS_BY_CODE[code]]);
          expect(await reply.json()).toEqual(expected(code));
          const waits = code !== 'login_failed' && HTTP_STATUS_BY_CODE[code] === 503;
          expect(reply.headers.get('retry-after')).toBe(waits ? '2' : null);
        }
      } finally {
        await host.close();
      }
    },
  );

  describe('bound by @UseFilters', () => {
    let host: Host;
    beforeAll(async () => {
      host = await startWith([]);
    });
    afterAll(() => host?.close());

    it('sends the whole documented body', async () => {
      const body = async (path: string): Promise<unknown> => (await fetch(`${host.url}${path}`)).json();
      expect(await body('/bound/fail/login_failed')).toEqual({
        statusCode: 401,
        message: 'the login is refused: nonce',
        error: 'Unauthorized',
        code: 'login_failed',
        reason: 'nonce',
      });
      expect(await body('/bound/fail/aborted')).toEqual({
        statusCode: 499,
        message: 'it was aborted',
        error: 'Client Closed Request',
        code: 'aborted',
      });
      expect(await body('/bound/fail/pagination_drift')).toEqual({
        statusCode: 502,
        message: 'Bad Gateway',
        error: 'Bad Gateway',
        code: 'pagination_drift',
      });
    });

    it('shows no problems of the configuration', async () => {
      const reply = await fetch(`${host.url}/bound/fail/configuration_invalid`);
      expect(await reply.json()).toEqual({
        statusCode: 500,
        message: 'The server is not configured for this',
        error: 'Internal Server Error',
        code: 'configuration_invalid',
      });
    });

    it('answers errors that a handler gets from the services', async () => {
      sandbox.failNext('list', { kind: 'status', status: 429, headers: { 'retry-after': '3' } });
      const limited = await fetch(`${host.url}/bound/events/world-2026`);
      expect([limited.status, limited.headers.get('retry-after')]).toEqual([503, '3']);
      expect(await limited.json()).toMatchObject({ code: 'rate_limited' });
      const unknown = await fetch(`${host.url}/bound/events/no-such-event`);
      expect(unknown.status).toBe(404);
      expect(await unknown.json()).toMatchObject({ code: 'not_found' });
    });

    it('ignores other exceptions', async () => {
      const reply = await fetch(`${host.url}/bound/teapot`);
      expect([reply.status, await reply.json()]).toEqual([
        418,
        { statusCode: 418, message: 'I am a teapot' },
      ]);
    });

    it('ends a response that has started, and the host continues', async () => {
      const reply = await fetch(`${host.url}/bound/stream`);
      expect(reply.status).toBe(200);
      expect(await reply.text()).toBe('the first page\n');
      expect((await fetch(`${host.url}/bound/teapot`)).status).toBe(418);
    });
  });

  it('is required: without it an error of a service is a plain 500', async () => {
    const host = await startWith([], { bindFilter: false });
    try {
      const reply = await fetch(`${host.url}/fail/rate_limited`);
      expect([reply.status, await reply.json()]).toEqual([
        500,
        { statusCode: 500, message: 'Internal server error' },
      ]);
    } finally {
      await host.close();
    }
  });
});

/** A host that binds no filter. */
@Controller('plain')
class PlainController {
  constructor(
    @Inject(ExhibitorsService) private readonly exhibitors: ExhibitorsService,
    @Inject(ExhibitorSelection) private readonly selection: ExhibitorSelection,
  ) {}

  @Get('events/:eventId/exhibitors')
  list(@Param('eventId') eventId: string): unknown {
    return this.exhibitors.list(eventId);
  }

  @Post('events/:eventId/select')
  @UseGuards(ExhibitorGuard)
  async select(
    @Req() request: object,
    @Res({ passthrough: true }) response: object,
    @Body('id') id: string,
  ): Promise<object> {
    return { chosen: await this.selection.select({ request, response }, id) };
  }

  @Get('teapot')
  teapot(): never {
    throw new HttpException('I am a teapot', 418);
  }
}

/** Answers everything in its own way, as the filters of many hosts do. */
@Catch()
class CatchAllFilter implements ExceptionFilter {
  constructor(@Inject(HttpAdapterHost) private readonly host: HttpAdapterHost) {}

  catch(error: unknown, host: ArgumentsHost): void {
    const status = error instanceof HttpException ? error.getStatus() : 599;
    const body = { caught: isExhibitorError(error) ? error.code : String(error) };
    this.host.httpAdapter.reply(host.switchToHttp().getResponse(), body, status);
  }
}

const CATCH_ALL = { provide: APP_FILTER, useClass: CatchAllFilter };

@Module({ providers: [CATCH_ALL] })
class FilterModule {}

describe.each(['express', 'fastify'] as const)('an error of a service on %s', (kind) => {
  let host: Host | undefined;
  afterEach(async () => {
    await host?.close();
    host = undefined;
  });

  async function start(
    options: Partial<HostOptions> = {},
    extra: { bindFilter?: boolean } = {},
  ): Promise<Host> {
    host = await startHost({
      kind,
      controllers: [BoothController, PlainController],
      options: (redirectUri) => ({
        tenant: sandbox.tenantOptions('acme', { redirectUri }),
        secrets: [COOKIE_SECRET],
        http: { attempts: 1 },
        ...extra,
      }),
      ...options,
    });
    return host;
  }

  const get = async (path: string): Promise<[status: number, body: unknown]> => {
    const reply = await fetch(`${host?.url}/plain/${path}`);
    return [reply.status, await reply.json()];
  };
  const notFound = { statusCode: 404, message: expect.any(String), error: 'Not Found', code: 'not_found' };

  it('is answered by its status where the host binds no filter', async () => {
    const visitor = await signIn(sandbox, await start());
    expect(await get('events/no-such-event/exhibitors')).toEqual([404, notFound]);
    const select = `${host?.url}/plain/events/world-2026/select`;
    const foreign = await visitor.visit(select, { form: { id: 'acme-world-2026-0001' } });
    expect([foreign.status, bodyOf(foreign)]).toEqual([
      400,
      {
        statusCode: 400,
        message: "exhibitorId: must be one of the user's own exhibitors",
        error: 'Bad Request',
        code: 'invalid_argument',
      },
    ]);
    sandbox.failNext('list', { kind: 'status', status: 429, headers: { 'retry-after': '3' } });
    const limited = await fetch(`${host?.url}/plain/events/world-2026/exhibitors`);
    expect([limited.status, limited.headers.get('retry-after')]).toEqual([503, '3']);
    expect(await get('teapot')).toEqual([418, { statusCode: 418, message: 'I am a teapot' }]);
  });

  it('is answered the same where the host binds the filter as well', async () => {
    await start({ providers: [{ provide: APP_FILTER, useClass: ExhibitorExceptionFilter }] });
    expect(await get('events/no-such-event/exhibitors')).toEqual([404, notFound]);
  });

  it('is left to the host with bindFilter: false', async () => {
    await start({}, { bindFilter: false });
    const [status, body] = await get('events/no-such-event/exhibitors');
    expect([status, body]).toEqual([500, { statusCode: 500, message: 'Internal server error' }]);
  });

  it.each<[string, Partial<HostOptions>]>([
    ['of the root module', { providers: [CATCH_ALL] }],
    ['of a module imported before', { importedBefore: [FilterModule] }],
    ['of a module imported after', { importedAfter: [FilterModule] }],
    [
      'bound by useGlobalFilters',
      { configure: (app) => app.useGlobalFilters(new CatchAllFilter(app.get(HttpAdapterHost))) },
    ],
  ])('goes to a catch-all filter %s, as every other error', async (_, options) => {
    await start(options);
    expect(await get('events/no-such-event/exhibitors')).toEqual([599, { caught: 'not_found' }]);
    expect(await get('teapot')).toEqual([418, { caught: 'HttpException: I am a teapot' }]);
    const guarded = await fetch(`${host?.url}/events/world-2026/mine`);
    expect([guarded.status, await guarded.json()]).toEqual([
      401,
      { caught: expect.stringContaining('nobody is logged in') },
    ]);
  });
});
