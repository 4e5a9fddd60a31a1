import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it } from '@jest/globals';
import { Controller, Get, Header, Res, UseGuards } from '@nestjs/common';
import { ExhibitorGuard } from '../../lib/index.js';
import type { ExhibitorSandbox, FaultMatch } from '../../lib/testing/index.js';
import { BoothController } from '../support/booth.controller.js';
import { COOKIE_SECRET, startHost, type Host } from '../support/host.js';
import { Visitor } from '../support/visitor.js';
import { bodyOf, signIn } from './signed-in.js';
import { startSandbox } from '../support/sandbox.js';
import { stall, type AnyFault } from '../support/faults.js';
import { traced } from '../support/traced-requests.js';

interface HeaderSink {
  setHeader?: (name: string, value: string) => void;
  header?: (name: string, value: string) => void;
}

@Controller('own')
@UseGuards(ExhibitorGuard)
class OwnHeaderController {
  @Get('by-decorator')
  @Header('Cache-Control', 'private, max-age=60')
  byDecorator(): string {
    return 'cached for a minute';
  }

  @Get('by-response')
  byResponse(@Res({ passthrough: true }) response: HeaderSink): string {
    const set = response.setHeader ?? response.header;
    set?.call(response, 'Cache-Control', 'private, max-age=30');
    return 'cached for half a minute';
  }
}

let sandbox: ExhibitorSandbox;
beforeAll(async () => {
  sandbox = await startSandbox();
});
afterAll(() => sandbox?.stop());
afterEach(() => sandbox?.clearFaults());

/** Failures of the service, and the replies of the guard. */
const FAILURES: readonly [
  code: string,
  statusCode: number,
  error: string,
  message: string,
  match: FaultMatch,
  fault: AnyFault,
  times: number,
][] = [
  ['access_denied', 502, 'Bad Gateway', 'Bad Gateway', 'lookup', { kind: 'status', status: 403 }, 1],
  ['access_denied', 502, 'Bad Gateway', 'Bad Gateway', 'lookup', { kind: 'status', status: 401 }, 2],
  ['request_rejected', 502, 'Bad Gateway', 'Bad Gateway', 'lookup', { kind: 'status', status: 422 }, 1],
  [
    'malformed_response',
    502,
    'Bad Gateway',
    'Bad Gateway',
    'lookup',
    { kind: 'body', body: '<html>', contentType: 'text/html' },
    1,
  ],
  [
    'service_unavailable',
    503,
    'Service Unavailable',
    'Service Unavailable',
    'lookup',
    { kind: 'status', status: 500 },
    1,
  ],
  ['deadline_exceeded', 504, 'Gateway Timeout', 'Gateway Timeout', 'lookup', stall('before-headers'), 1],
];

/** The same for the token endpoint, requested since no token is cached. */
const TOKEN_FAILURES: typeof FAILURES = [
  [
    'token_rejected',
    502,
    'Bad Gateway',
    'Bad Gateway',
    { operation: 'token', grantType: 'client_credentials' },
    { kind: 'body', status: 401, body: '{"error":"invalid_client"}' },
    1,
  ],
  [
    'token_unavailable',
    503,
    'Service Unavailable',
    'Service Unavailable',
    { operation: 'token', grantType: 'client_credentials' },
    { kind: 'status', status: 500 },
    1,
  ],
  [
    'deadline_exceeded',
    504,
    'Gateway Timeout',
    'Gateway Timeout',
    { operation: 'token', grantType: 'client_credentials' },
    stall('before-headers'),
    1,
  ],
];

describe.each(['express', 'fastify'] as const)('ExhibitorGuard on %s, without any filter', (kind) => {
  let host: Host;
  const start = (): Promise<Host> =>
    startHost({
      kind,
      controllers: [BoothController, OwnHeaderController],
      options: (redirectUri) => ({
        tenants: {
          acme: sandbox.tenantOptions('acme', { redirectUri }),
          globex: sandbox.tenantOptions('globex', { redirectUri }),
        },
        resolveTenant: (request) => String(request.headers['x-tenant'] ?? 'acme'),
        secrets: [COOKIE_SECRET],
        http: { attempts: 1, deadline: 600 },
        lookupCache: false,
      }),
    });
  beforeAll(async () => {
    host = await start();
  });
  afterAll(() => host?.close());

  it('answers 401 without an identity', async () => {
    const reply = await new Visitor().visit(`${host.url}/events/world-2026/mine`);
    expect(reply.status).toBe(401);
    expect(bodyOf(reply)).toEqual({
      statusCode: 401,
      message: 'nobody is logged in',
      error: 'Unauthorized',
      code: 'unauthenticated',
    });
    expect(reply.headers.get('cache-control')).toBe('private, no-store');
    expect(reply.headers.has('www-authenticate')).toBe(false);
  });

  it('answers 400 where neither the request nor the login names an event', async () => {
    const visitor = await signIn(sandbox, host);
    const reply = await visitor.visit(`${host.url}/mine`);
    expect(reply.status).toBe(400);
    expect(bodyOf(reply)).toEqual({
      statusCode: 400,
      message: 'the request names no event',
      error: 'Bad Request',
      code: 'event_required',
    });
  });

  it.each([
    ['/mine?eventId=..'],
    ['/mine?eventId=%00'],
    ['/events/a%0Ab/mine'],
    [`/mine?eventId=${'x'.repeat(129)}`],
    [`/auth/login?eventId=${'%00'.repeat(128)}`],
    ['/auth/login?eventId=..'],
    ['/auth/login?eventId=a%C2%85'],
  ])('answers 400 for an invalid event id, and sends nothing: %s', async (path) => {
    const visitor = await signIn(sandbox, host);
    sandbox.clearRequests();
    const reply = await visitor.visit(`${host.url}${path}`);
    expect(reply.status).toBe(400);
    expect(bodyOf(reply)).toMatchObject({ statusCode: 400, error: 'Bad Request', code: 'invalid_argument' });
    expect(sandbox.requests).toHaveLength(0);
  });

  it('answers 403 to a person without an exhibitor at the event', async () => {
    const visitor = await signIn(sandbox, host, 'nora.none');
    const reply = await visitor.visit(`${host.url}/events/world-2026/mine`);
    expect(reply.status).toBe(403);
    expect(bodyOf(reply)).toEqual({
      statusCode: 403,
      message: 'you have no exhibitor at this event',
      error: 'Forbidden',
      code: 'no_exhibitor',
    });
  });

  it.each([
    ['404', { kind: 'status', status: 404 }],
    ['204', { kind: 'status', status: 204, body: '' }],
    ['null', { kind: 'body', body: 'null' }],
    ['{}', { kind: 'body', body: '{}' }],
    ['[]', { kind: 'body', body: '[]' }],
  ] as const)('answers 403 where the service sends %s for no exhibitor', async (_, fault) => {
    const visitor = await signIn(sandbox, host);
    sandbox.failNext('lookup', fault);
    expect((await visitor.visit(`${host.url}/events/world-2026/mine`)).status).toBe(403);
  });

  it.each(['nowhere', '__proto__', 'constructor', 'toString'])(
    'answers 404 for the unknown tenant %s',
    async (tenant) => {
      const visitor = await signIn(sandbox, host);
      const reply = await visitor.visit(`${host.url}/events/world-2026/mine`, {
        headers: { 'x-tenant': tenant },
      });
      expect(reply.status).toBe(404);
      expect(bodyOf(reply)).toEqual({
        statusCode: 404,
        message: 'there is no such tenant',
        error: 'Not Found',
        code: 'unknown_tenant',
      });
    },
  );

  it.each(FAILURES)(
    'answers %s of the service with %i',
    async (code, statusCode, error, message, match, fault, times) => {
      const visitor = await signIn(sandbox, host);
      sandbox.failNext(match, fault, times);
      const reply = await visitor.visit(`${host.url}/events/world-2026/mine`);
      expect(reply.status).toBe(statusCode);
      expect(bodyOf(reply)).toEqual({ statusCode, message, error, code });
      expect(reply.headers.has('retry-after')).toBe(false);
      expect(reply.headers.get('cache-control')).toBe('private, no-store');
      expect((await visitor.visit(`${host.url}/events/world-2026/mine`)).status).toBe(200);
    },
  );

  it.each(['lookup', 'token'] as const)(
    'sends the Retry-After of a throttled %s endpoint',
    async (operation) => {
      const fresh = await start();
      try {
        const visitor = await signIn(sandbox, fresh);
        sandbox.failNext(operation === 'token' ? { operation, grantType: 'client_credentials' } : operation, {
          kind: 'status',
          status: 429,
          headers: { 'retry-after': '7' },
        });
        const reply = await visitor.visit(`${fresh.url}/events/world-2026/mine`);
        expect(reply.status).toBe(503);
        expect(reply.headers.get('retry-after')).toBe('7');
        expect(bodyOf(reply)).toEqual({
          statusCode: 503,
          message: 'Service Unavailable',
          error: 'Service Unavailable',
          code: 'rate_limited',
        });
      } finally {
        await fresh.close();
      }
    },
  );

  describe('before the first token was issued', () => {
    let fresh: Host;
    beforeEach(async () => {
      fresh = await start();
    });
    afterEach(() => fresh?.close());

    it.each(TOKEN_FAILURES)(
      'answers %s of the token endpoint with %i',
      async (code, statusCode, error, message, match, fault, times) => {
        const visitor = await signIn(sandbox, fresh);
        sandbox.failNext(match, fault, times);
        const reply = await visitor.visit(`${fresh.url}/events/world-2026/mine`);
        expect(reply.status).toBe(statusCode);
        expect(bodyOf(reply)).toEqual({ statusCode, message, error, code });
      },
    );
  });

  it('keeps replies out of shared caches, unless the handler sets Cache-Control', async () => {
    const visitor = await signIn(sandbox, host, 'sam.several', { eventId: 'world-2026' });
    const cacheControl = async (path: string): Promise<string | null> => {
      const reply = await visitor.visit(`${host.url}${path}`);
      expect(reply.status).toBe(200);
      return reply.headers.get('cache-control');
    };
    expect(await cacheControl('/mine')).toBe('private, no-store');
    expect(await cacheControl('/me')).toBe('private, no-store');
    expect(await cacheControl('/own/by-decorator')).toBe('private, max-age=60');
    expect(await cacheControl('/own/by-response')).toBe('private, max-age=30');
  });

  it('looks exhibitors up with the client-credentials token of the tenant, never with a token of the login', async () => {
    const fresh = await start();
    sandbox.clearRequests();
    try {
      const visitor = await signIn(sandbox, fresh);
      expect((await visitor.visit(`${fresh.url}/events/world-2026/mine`)).status).toBe(200);
    } finally {
      await fresh.close();
    }
    const [acme] = sandbox.tenants;
    const grants = traced(sandbox).filter(({ operation }) => operation === 'token');
    expect(grants.map(({ body, clientId }) => [body['grant_type'], clientId])).toEqual([
      ['authorization_code', acme?.loginClientId],
      ['client_credentials', acme?.clientId],
    ]);
    const lookups = traced(sandbox).filter(({ operation }) => operation === 'lookup');
    expect(lookups).toHaveLength(1);
    expect(lookups[0]).toMatchObject({
      contactEmail: 'sam.several@example.com',
      tenantId: acme?.tenantId,
      tokenClaims: { client_id: acme?.clientId, scope: 'idp_api' },
    });
    expect(lookups[0]?.tokenClaims).not.toHaveProperty('sub', 'sam.several');
    const withLoginToken = traced(sandbox).filter(
      ({ operation, headers, tokenClaims }) =>
        headers.authorization !== undefined && tokenClaims === undefined && operation !== 'userinfo',
    );
    expect(withLoginToken).toEqual([]);
  });
});
