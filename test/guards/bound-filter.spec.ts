import { afterAll, afterEach, beforeAll, describe, expect, it } from '@jest/globals';
import {
  Body,
  Catch,
  Controller,
  Get,
  HttpException,
  Inject,
  Module,
  Param,
  Post,
  Req,
  Res,
  UseGuards,
  type ArgumentsHost,
  type ExceptionFilter,
} from '@nestjs/common';
import { APP_FILTER, HttpAdapterHost } from '@nestjs/core';
import {
  ExhibitorExceptionFilter,
  ExhibitorGuard,
  ExhibitorSelection,
  ExhibitorsService,
  isExhibitorError,
} from '../../lib/index.js';
import type { ExhibitorSandbox } from '../../lib/testing/index.js';
import { BoothController } from '../support/booth.controller.js';
import { COOKIE_SECRET, startHost, type Host, type HostOptions } from '../support/host.js';
import { startSandbox } from '../support/sandbox.js';
import { bodyOf, signIn } from './signed-in.js';

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

let sandbox: ExhibitorSandbox;
beforeAll(async () => {
  sandbox = await startSandbox();
});
afterAll(() => sandbox?.stop());

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
