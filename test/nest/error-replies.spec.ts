import { STATUS_CODES } from 'node:http';
import { describe, expect, it } from '@jest/globals';
import {
  Catch,
  Controller,
  Get,
  HttpException,
  Inject,
  Module,
  Param,
  Res,
  UseFilters,
  type ArgumentsHost,
  type ExceptionFilter,
} from '@nestjs/common';
import { APP_FILTER, HttpAdapterHost } from '@nestjs/core';
import {
  ExhibitorError,
  ExhibitorExceptionFilter,
  ExhibitorsService,
  HTTP_STATUS_BY_CODE,
  isExhibitorError,
  LoginFailedError,
  PaginationDriftError,
  TokenService,
  type ExhibitorErrorCode,
} from '../../lib/index.js';
import type { FaultMatch } from '../../lib/development/testing/index.js';
import { BoothController } from '../support/booth.controller.js';
import { stall, type AnyFault } from '../support/faults.js';
import { startHost, tenantsOptions, type Host, type HostKind, type HostOptions } from '../support/host.js';
import { useClosing, useHost, useSandbox } from '../support/lifetimes.js';
import { Visitor, type Reply } from '../support/visitor.js';
import { pause } from '../support/wait.js';
import { answerOf, Members } from './signed-in.js';

/** A response of either adapter. */
interface AnyResponse {
  raw?: AnyResponse;
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

const sandbox = await useSandbox();

function start(kind: HostKind, bindFilter?: boolean, options: Partial<HostOptions> = {}): Promise<Host> {
  return startHost({
    kind,
    controllers: [BoothController, BoundController, UnboundController],
    options: tenantsOptions(sandbox, ['acme'], {
      resolveTenant: ({ headers }) => String(headers['x-tenant'] ?? 'acme'),
      http: { attempts: 1, deadline: 600 },
      lookupCache: false,
      ...(bindFilter !== undefined && { bindFilter }),
    }),
    ...options,
  });
}

/** An answer with the whole body of an error. */
function errorBody(code: ExhibitorErrorCode, message?: unknown): [status: number, body: object] {
  const statusCode = HTTP_STATUS_BY_CODE[code];
  const error = statusCode === 499 ? 'Client Closed Request' : STATUS_CODES[statusCode];
  return [statusCode, { statusCode, message: message ?? error, error, code }];
}
const PLAIN = [500, { statusCode: 500, message: 'Internal server error' }];
const TEAPOT = [418, { statusCode: 418, message: 'I am a teapot' }];

describe.each(['express', 'fastify'] as const)('ExhibitorGuard on %s, without any filter', (kind) => {
  const host = useHost(() => start(kind, false));
  const members = new Members(sandbox, host);
  const mine = async (visitor: Visitor, tenant = 'acme'): Promise<Reply> =>
    visitor.visit(`${host.url}/events/world-2026/mine`, { headers: { 'x-tenant': tenant } });

  it('answers 401 without an identity, 400 without an event, 403 without an exhibitor, 404 without a tenant', async () => {
    const nobody = await mine(new Visitor());
    expect(answerOf(nobody)).toEqual(errorBody('unauthenticated', 'nobody is logged in'));
    expect(nobody.headers.get('cache-control')).toBe('private, no-store');
    expect(nobody.headers.has('www-authenticate')).toBe(false);
    const sam = await members.enter();
    expect(answerOf(await sam.visit(`${host.url}/mine`))).toEqual(
      errorBody('event_required', 'the request names no event'),
    );
    expect(answerOf(await mine(await members.enter('nora.none')))).toEqual(
      errorBody('no_exhibitor', 'you have no exhibitor at this event'),
    );
    for (const key of ['nowhere', '__proto__', 'constructor', 'toString']) {
      expect(answerOf(await mine(sam, key))).toEqual(errorBody('unknown_tenant', 'there is no such tenant'));
    }
  });

  it.each<FaultMatch>(['lookup', { operation: 'token', grantType: 'client_credentials' }])(
    'sends the Retry-After of a throttled endpoint: %j',
    async (match) => {
      const visitor = await members.enter();
      await host.app.get(TokenService).invalidate({ tenant: 'acme' });
      sandbox.failNext(match, { kind: 'status', status: 429, headers: { 'retry-after': '7' } });
      const reply = await mine(visitor);
      expect(answerOf(reply)).toEqual(errorBody('rate_limited'));
      expect(reply.headers.get('retry-after')).toBe('7');
    },
  );
});

const status = (code: number): AnyFault => ({ kind: 'status', status: code });
const body = (text: string, more: object = {}): AnyFault => ({ kind: 'body', body: text, ...more });

describe('ExhibitorGuard, where the service fails', () => {
  const host = useHost(() => start('fastify', false));
  const members = new Members(sandbox, host);
  const mine = async (): Promise<Reply> =>
    (await members.enter()).visit(`${host.url}/events/world-2026/mine`);
  const token = { operation: 'token', grantType: 'client_credentials' } as const;

  /** One of each code: test/config/refusal-lines.spec.ts. */
  it.each<[code: ExhibitorErrorCode, match: FaultMatch, fault: AnyFault]>([
    ['access_denied', 'lookup', status(401)],
    ['malformed_response', 'lookup', body('<html>', { contentType: 'text/html' })],
    ['deadline_exceeded', token, stall('before-headers')],
  ])('answers %s by its status (%j)', async (code, match, fault) => {
    await members.enter();
    await host.app.get(TokenService).invalidate({ tenant: 'acme' });
    sandbox.failNext(match, fault, 1);
    const reply = await mine();
    expect(answerOf(reply)).toEqual(errorBody(code));
    expect(reply.headers.has('retry-after')).toBe(false);
    expect(reply.headers.get('cache-control')).toBe('private, no-store');
    await host.app.get(TokenService).invalidate({ tenant: 'acme' });
    expect((await mine()).status).toBe(200);
  });
});

const get = async (host: Host, path: string): Promise<[status: number, body: unknown]> =>
  answerOf(await new Visitor().visit(`${host.url}/${path}`));

/** Every code, thrown by a handler below a path. */
async function expectEachCode(host: Host, path: string): Promise<void> {
  for (const code of Object.keys(HTTP_STATUS_BY_CODE) as ExhibitorErrorCode[]) {
    const reply = await new Visitor().visit(`${host.url}/${path}/fail/${code}`);
    const [statusCode, documented] = errorBody(code, expect.any(String));
    const reason = code === 'login_failed' ? { reason: 'nonce' } : {};
    expect([code, ...answerOf(reply)]).toEqual([code, statusCode, { ...documented, ...reason }]);
    expect(reply.headers.get('retry-after')).toBe(statusCode === 503 ? '2' : null);
  }
}

describe.each(['express', 'fastify'] as const)('an error that a handler throws on %s', (kind) => {
  const closing = useClosing();

  describe('by default', () => {
    const host = useHost(() => start(kind));

    it('is answered by its status, also where a controller binds the filter a second time', async () => {
      await expectEachCode(host, 'unbound');
      await expectEachCode(host, 'bound');
    });

    it.each<[ExhibitorErrorCode, string | undefined]>([
      ['aborted', 'it was aborted'],
      ['pagination_drift', undefined],
      ['configuration_invalid', 'The server is not configured for this'],
    ])('has a message for visitors, without what only operators may read: %s', async (code, message) => {
      expect(await get(host, `unbound/fail/${code}`)).toEqual(errorBody(code, message));
    });

    it('may come from a service', async () => {
      expect(await get(host, 'unbound/events/no-such-event')).toEqual(
        errorBody('not_found', expect.any(String)),
      );
      sandbox.failNext('list', { kind: 'status', status: 429, headers: { 'retry-after': '3' } });
      const limited = await new Visitor().visit(`${host.url}/unbound/events/world-2026`);
      expect(answerOf(limited)).toEqual(errorBody('rate_limited'));
      expect(limited.headers.get('retry-after')).toBe('3');
    });

    it('ends a response that has started, and the host continues', async () => {
      const reply = await new Visitor().visit(`${host.url}/unbound/stream`);
      expect([reply.status, reply.text]).toEqual([200, 'the first page\n']);
      expect(await get(host, 'unbound/teapot')).toEqual(TEAPOT);
    });
  });

  it('is left to the host with bindFilter: false: a plain 500, unless a controller binds the filter', async () => {
    const host = closing(await start(kind, false));
    expect(await get(host, 'unbound/events/no-such-event')).toEqual(PLAIN);
    expect(await get(host, 'unbound/fail/rate_limited')).toEqual(PLAIN);
    await expectEachCode(host, 'bound');
    expect(await get(host, 'bound/teapot')).toEqual(TEAPOT);
  });
});

describe('a filter of the host', () => {
  const closing = useClosing();

  it.each([true, false])('may be this one, by APP_FILTER (bindFilter: %s)', async (bindFilter) => {
    const host = closing(await start('express', bindFilter, { providers: [OF_THE_HOST] }));
    await expectEachCode(host, 'unbound');
    await expectEachCode(host, 'bound');
  });

  it.each<[where: string, kind: HostKind, options: Partial<HostOptions>]>([
    ['of the root module', 'express', { providers: [CATCH_ALL] }],
    ['of a module imported before', 'fastify', { importedBefore: [FilterModule] }],
    ['of a module imported after', 'express', { importedAfter: [FilterModule] }],
    [
      'bound by useGlobalFilters',
      'fastify',
      { configure: (app) => app.useGlobalFilters(new CatchAllFilter(app.get(HttpAdapterHost))) },
    ],
  ])('that catches all errors, %s, catches these too, on %s', async (_where, kind, options) => {
    const host = closing(await start(kind, undefined, options));
    expect(await get(host, 'unbound/events/no-such-event')).toEqual([599, { caught: 'not_found' }]);
    expect(await get(host, 'unbound/teapot')).toEqual([418, { caught: 'HttpException: I am a teapot' }]);
    expect(await get(host, 'events/world-2026/mine')).toEqual([
      401,
      { caught: expect.stringContaining('nobody is logged in') },
    ]);
  });
});
