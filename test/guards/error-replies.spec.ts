import { afterAll, afterEach, beforeAll, describe, expect, it } from '@jest/globals';
import {
  Catch,
  Controller,
  Get,
  Header,
  HttpException,
  Inject,
  Module,
  Param,
  Res,
  UseFilters,
  UseGuards,
  type ArgumentsHost,
  type ExceptionFilter,
} from '@nestjs/common';
import { APP_FILTER, HttpAdapterHost } from '@nestjs/core';
import {
  ExhibitorError,
  ExhibitorExceptionFilter,
  ExhibitorGuard,
  ExhibitorsService,
  HTTP_STATUS_BY_CODE,
  isExhibitorError,
  LoginFailedError,
  PaginationDriftError,
  TokenService,
  type ExhibitorErrorCode,
} from '../../lib/index.js';
import type { ExhibitorSandbox, FaultMatch } from '../../lib/testing/index.js';
import { BoothController } from '../support/booth.controller.js';
import { stall, type AnyFault } from '../support/faults.js';
import { COOKIE_SECRET, startHost, type Host, type HostKind, type HostOptions } from '../support/host.js';
import { startSandbox } from '../support/sandbox.js';
import { Visitor, type Reply } from '../support/visitor.js';
import { pause } from '../support/wait.js';
import { bodyOf, Members } from './signed-in.js';

/** A response of either adapter. */
interface AnyResponse {
  setHeader?: (name: string, value: string) => void;
  header?: (name: string, value: string) => void;
  raw?: AnyResponse;
  writeHead: (status: number, headers: Record<string, string>) => void;
  write: (text: string) => void;
}

@Controller('own')
@UseGuards(ExhibitorGuard)
class OwnHeaderController {
  @Get('by-decorator')
  @Header('Cache-Control', 'private, max-age=60')
  byDecorator(): void {}

  @Get('by-response')
  byResponse(@Res({ passthrough: true }) response: AnyResponse): void {
    const set = response.setHeader ?? response.header;
    set?.call(response, 'Cache-Control', 'private, max-age=30');
  }
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

@Controller('unbound')
class UnboundController {
  constructor(@Inject(ExhibitorsService) private readonly exhibitors: ExhibitorsService) {}

  @Get('fail/:code')
  fail(@Param('code') code: string): never {
    return throwFailure(code);
  }

  @Get('events/:eventId')
  list(@Param('eventId') eventId: string): unknown {
    return this.exhibitors.list(eventId);
  }

  @Get('teapot')
  teapot(): never {
    throw new HttpException('I am a teapot', 418);
  }

  /** A response that has started when the service fails. */
  @Get('stream')
  async stream(@Res() response: AnyResponse): Promise<void> {
    const raw = response.raw ?? response;
    raw.writeHead(200, { 'Content-Type': 'text/plain' });
    raw.write('the first page\n');
    await pause(20);
    throw new ExhibitorError('service_unavailable', 'the service went away', { retryAfterMs: 1_000 });
  }
}

@Controller('bound')
@UseFilters(ExhibitorExceptionFilter)
class BoundController extends UnboundController {}

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
const OF_THE_HOST = { provide: APP_FILTER, useClass: ExhibitorExceptionFilter };

@Module({ providers: [CATCH_ALL] })
class FilterModule {}

let sandbox: ExhibitorSandbox;
let host: Host;
beforeAll(async () => {
  sandbox = await startSandbox();
});
afterAll(() => sandbox?.stop());
afterEach(() => sandbox?.clearFaults());

function start(
  kind: HostKind,
  options: Partial<HostOptions> = {},
  extras: { bindFilter?: boolean } = {},
): Promise<Host> {
  return startHost({
    kind,
    controllers: [BoothController, OwnHeaderController, BoundController, UnboundController],
    options: (redirectUri) => ({
      tenants: { acme: sandbox.tenantOptions('acme', { redirectUri }) },
      resolveTenant: ({ headers }) => String(headers['x-tenant'] ?? 'acme'),
      secrets: [COOKIE_SECRET],
      http: { attempts: 1, deadline: 600 },
      lookupCache: false,
      ...extras,
    }),
    ...options,
  });
}

const answerOf = ({ status, text }: Reply): [status: number, body: unknown] => [status, JSON.parse(text)];
const get = async (path: string): Promise<[status: number, body: unknown]> =>
  answerOf(await new Visitor().visit(`${host.url}/${path}`));
const bodyWith = (statusCode: number, error: string, code: string, message = error): object => ({
  statusCode,
  message,
  error,
  code,
});
const PLAIN = [500, { statusCode: 500, message: 'Internal server error' }];
const TEAPOT = [418, { statusCode: 418, message: 'I am a teapot' }];

describe.each(['express', 'fastify'] as const)('ExhibitorGuard on %s, without any filter', (kind) => {
  let members: Members;
  beforeAll(async () => {
    host = await start(kind, {}, { bindFilter: false });
    members = new Members(sandbox, host);
  });
  afterAll(() => host?.close());

  const mine = async (visitor: Visitor, tenant = 'acme'): Promise<Reply> =>
    visitor.visit(`${host.url}/events/world-2026/mine`, { headers: { 'x-tenant': tenant } });

  it('answers 401 without an identity, 400 without an event and 403 without an exhibitor', async () => {
    const nobody = await mine(new Visitor());
    expect(answerOf(nobody)).toEqual([
      401,
      bodyWith(401, 'Unauthorized', 'unauthenticated', 'nobody is logged in'),
    ]);
    expect(nobody.headers.get('cache-control')).toBe('private, no-store');
    expect(nobody.headers.has('www-authenticate')).toBe(false);
    const sam = await members.enter();
    expect(answerOf(await sam.visit(`${host.url}/mine`))).toEqual([
      400,
      bodyWith(400, 'Bad Request', 'event_required', 'the request names no event'),
    ]);
    expect(answerOf(await mine(await members.enter('nora.none')))).toEqual([
      403,
      bodyWith(403, 'Forbidden', 'no_exhibitor', 'you have no exhibitor at this event'),
    ]);
  });

  it.each(['nowhere', '__proto__', 'constructor', 'toString'])(
    'answers 404 for the unknown tenant %s',
    async (key) => {
      expect(answerOf(await mine(await members.enter(), key))).toEqual([
        404,
        bodyWith(404, 'Not Found', 'unknown_tenant', 'there is no such tenant'),
      ]);
    },
  );

  it.each(['lookup', 'token'] as const)(
    'sends the Retry-After of a throttled %s endpoint',
    async (operation) => {
      const visitor = await members.enter();
      await host.app.get(TokenService).invalidate({ tenant: 'acme' });
      const match =
        operation === 'token' ? ({ operation, grantType: 'client_credentials' } as const) : operation;
      sandbox.failNext(match, { kind: 'status', status: 429, headers: { 'retry-after': '7' } });
      const reply = await mine(visitor);
      expect(answerOf(reply)).toEqual([503, bodyWith(503, 'Service Unavailable', 'rate_limited')]);
      expect(reply.headers.get('retry-after')).toBe('7');
    },
  );

  it('keeps replies out of shared caches, unless the handler sets Cache-Control', async () => {
    const visitor = await members.enter('sam.several', { eventId: 'world-2026' });
    const cacheControl = async (path: string): Promise<unknown> => {
      const reply = await visitor.visit(`${host.url}${path}`);
      return [reply.status, reply.headers.get('cache-control')];
    };
    expect(await cacheControl('/mine')).toEqual([200, 'private, no-store']);
    expect(await cacheControl('/me')).toEqual([200, 'private, no-store']);
    expect(await cacheControl('/own/by-decorator')).toEqual([200, 'private, max-age=60']);
    expect(await cacheControl('/own/by-response')).toEqual([200, 'private, max-age=30']);
  });
});

describe('ExhibitorGuard, where the service fails', () => {
  let visitor: Visitor;
  beforeAll(async () => {
    host = await start('fastify', {}, { bindFilter: false });
    visitor = await new Members(sandbox, host).enter();
  });
  afterAll(() => host?.close());

  const mine = (): Promise<Reply> => visitor.visit(`${host.url}/events/world-2026/mine`);
  const token = { operation: 'token', grantType: 'client_credentials' } as const;

  it.each<[code: string, status: number, error: string, match: FaultMatch, fault: AnyFault, times?: number]>([
    ['access_denied', 502, 'Bad Gateway', 'lookup', { kind: 'status', status: 403 }],
    ['access_denied', 502, 'Bad Gateway', 'lookup', { kind: 'status', status: 401 }, 2],
    ['request_rejected', 502, 'Bad Gateway', 'lookup', { kind: 'status', status: 422 }],
    [
      'malformed_response',
      502,
      'Bad Gateway',
      'lookup',
      { kind: 'body', body: '<html>', contentType: 'text/html' },
    ],
    ['service_unavailable', 503, 'Service Unavailable', 'lookup', { kind: 'status', status: 500 }],
    ['deadline_exceeded', 504, 'Gateway Timeout', 'lookup', stall('before-headers')],
    [
      'token_rejected',
      502,
      'Bad Gateway',
      token,
      { kind: 'body', status: 401, body: '{"error":"invalid_client"}' },
    ],
    ['token_unavailable', 503, 'Service Unavailable', token, { kind: 'status', status: 500 }],
    ['deadline_exceeded', 504, 'Gateway Timeout', token, stall('before-headers')],
  ])('answers %s with %i', async (code, status, error, match, fault, times = 1) => {
    await host.app.get(TokenService).invalidate({ tenant: 'acme' });
    sandbox.failNext(match, fault, times);
    const reply = await mine();
    expect(answerOf(reply)).toEqual([status, bodyWith(status, error, code)]);
    expect(reply.headers.has('retry-after')).toBe(false);
    expect(reply.headers.get('cache-control')).toBe('private, no-store');
    await host.app.get(TokenService).invalidate({ tenant: 'acme' });
    expect((await mine()).status).toBe(200);
  });

  it.each([
    ['404', { kind: 'status', status: 404 }],
    ['204', { kind: 'status', status: 204, body: '' }],
    ['null', { kind: 'body', body: 'null' }],
    ['{}', { kind: 'body', body: '{}' }],
    ['[]', { kind: 'body', body: '[]' }],
  ] as const)('answers 403 where it sends %s for no exhibitor', async (_, fault) => {
    sandbox.failNext('lookup', fault);
    expect((await mine()).status).toBe(403);
  });
});

const CODES = Object.keys(HTTP_STATUS_BY_CODE) as ExhibitorErrorCode[];

/** Every code, thrown by a handler below a path. */
async function expectEachCode(path: string): Promise<void> {
  for (const code of CODES) {
    const reply = await new Visitor().visit(`${host.url}/${path}/fail/${code}`);
    const status = HTTP_STATUS_BY_CODE[code];
    const reason = code === 'login_failed' ? { reason: 'nonce' } : {};
    const body = {
      statusCode: status,
      message: expect.any(String),
      error: expect.any(String),
      code,
      ...reason,
    };
    expect([code, ...answerOf(reply)]).toEqual([code, status, body]);
    const waits = code !== 'login_failed' && status === 503;
    expect(reply.headers.get('retry-after')).toBe(waits ? '2' : null);
  }
}

describe.each(['express', 'fastify'] as const)('an error that a handler throws on %s', (kind) => {
  describe('by default', () => {
    beforeAll(async () => {
      host = await start(kind);
    });
    afterAll(() => host?.close());

    it('is answered by its status, also where a controller binds the filter a second time', async () => {
      await expectEachCode('unbound');
      await expectEachCode('bound');
    });

    it('has the whole documented body, without problems of the configuration', async () => {
      expect(await get('unbound/fail/login_failed')).toEqual([
        401,
        { ...bodyWith(401, 'Unauthorized', 'login_failed', 'the login is refused: nonce'), reason: 'nonce' },
      ]);
      expect(await get('unbound/fail/aborted')).toEqual([
        499,
        bodyWith(499, 'Client Closed Request', 'aborted', 'it was aborted'),
      ]);
      expect(await get('unbound/fail/pagination_drift')).toEqual([
        502,
        bodyWith(502, 'Bad Gateway', 'pagination_drift'),
      ]);
      const message = 'The server is not configured for this';
      expect(await get('unbound/fail/configuration_invalid')).toEqual([
        500,
        bodyWith(500, 'Internal Server Error', 'configuration_invalid', message),
      ]);
    });

    it('may come from a service', async () => {
      sandbox.failNext('list', { kind: 'status', status: 429, headers: { 'retry-after': '3' } });
      const limited = await new Visitor().visit(`${host.url}/unbound/events/world-2026`);
      expect([limited.status, limited.headers.get('retry-after')]).toEqual([503, '3']);
      expect(bodyOf(limited)).toMatchObject({ code: 'rate_limited' });
      expect(await get('unbound/events/no-such-event')).toEqual([
        404,
        bodyWith(404, 'Not Found', 'not_found', expect.any(String) as unknown as string),
      ]);
    });

    it('ends a response that has started, and the host continues', async () => {
      const reply = await new Visitor().visit(`${host.url}/unbound/stream`);
      expect([reply.status, reply.text]).toEqual([200, 'the first page\n']);
      expect(await get('unbound/teapot')).toEqual(TEAPOT);
    });
  });

  it('is left to the host with bindFilter: false: a plain 500, unless a controller binds the filter', async () => {
    host = await start(kind, {}, { bindFilter: false });
    try {
      expect(await get('unbound/events/no-such-event')).toEqual(PLAIN);
      expect(await get('unbound/fail/rate_limited')).toEqual(PLAIN);
      await expectEachCode('bound');
      expect(await get('bound/teapot')).toEqual(TEAPOT);
    } finally {
      await host.close();
    }
  });
});

it.each([true, false])(
  'is answered alike where the host binds the filter by APP_FILTER (bindFilter: %s)',
  async (bindFilter) => {
    host = await start('express', { providers: [OF_THE_HOST] }, { bindFilter });
    try {
      await expectEachCode('unbound');
      await expectEachCode('bound');
    } finally {
      await host.close();
    }
  },
);

it.each<[where: string, kind: HostKind, options: Partial<HostOptions>]>([
  ['of the root module', 'express', { providers: [CATCH_ALL] }],
  ['of a module imported before', 'fastify', { importedBefore: [FilterModule] }],
  ['of a module imported after', 'express', { importedAfter: [FilterModule] }],
  [
    'bound by useGlobalFilters',
    'fastify',
    { configure: (app) => app.useGlobalFilters(new CatchAllFilter(app.get(HttpAdapterHost))) },
  ],
])('goes to a catch-all filter %s, as every other error, on %s', async (_where, kind, options) => {
  host = await start(kind, options);
  try {
    expect(await get('unbound/events/no-such-event')).toEqual([599, { caught: 'not_found' }]);
    expect(await get('unbound/teapot')).toEqual([418, { caught: 'HttpException: I am a teapot' }]);
    expect(await get('events/world-2026/mine')).toEqual([
      401,
      { caught: expect.stringContaining('nobody is logged in') },
    ]);
  } finally {
    await host.close();
  }
});
