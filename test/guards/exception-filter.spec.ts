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
} from '@nestjs/common';
import { APP_FILTER } from '@nestjs/core';
import {
  ExhibitorError,
  ExhibitorExceptionFilter,
  ExhibitorsService,
  HTTP_STATUS_BY_CODE,
  LoginFailedError,
  PaginationDriftError,
  type ExhibitorErrorCode,
} from '../../lib/index.js';
import type { ExhibitorSandbox } from '../../lib/testing/index.js';
import { COOKIE_SECRET, startHost, type Host } from '../support/host.js';
import { pause } from '../support/wait.js';
import { startSandbox } from '../support/sandbox.js';

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

  it('may be bound by useGlobalFilters with the HTTP adapter, without injection', async () => {
    const host = await startHost({
      kind,
      controllers: [UnboundController],
      configure: (app) => app.useGlobalFilters(new ExhibitorExceptionFilter(app.getHttpAdapter())),
      options: () => ({ tenant: sandbox.tenantOptions('acme'), secrets: [COOKIE_SECRET] }),
    });
    try {
      const reply = await fetch(`${host.url}/fail/not_found`);
      expect(reply.status).toBe(404);
      expect(await reply.json()).toEqual(expected('not_found'));
    } finally {
      await host.close();
    }
  });

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
        message: 'page 2: totalCount is 4, expected 3',
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
