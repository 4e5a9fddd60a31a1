import type { ServerResponse } from 'node:http';
import { describe, expect, it } from '@jest/globals';
import { firstValueFrom, type Observable } from 'rxjs';
import { TokenService, type ExhibitorsService, type HttpOptions } from '../../lib/index.js';
import { startRestHost } from '../exhibitors/rest-host.js';
import { useClosing } from '../support/lifetimes.js';
import { sendJson, startServer, type TestServer } from '../support/server.js';
import { tenantAt } from '../support/tenant-at.js';
import { ending, Sender } from './transport-bench.js';

type Body = [what: string, headers: Record<string, string>, write: (response: ServerResponse) => void];
const HALF: Body = [
  'is cut',
  { 'content-length': '99' },
  (response) => response.write('{', () => response.socket?.end()),
];
/** Bodies that never come whole, or say nothing. */
const BODIES: readonly Body[] = [
  HALF,
  ['is reset', {}, (response) => response.write('{"a', () => response.socket?.resetAndDestroy())],
  ['never comes', {}, (response) => response.flushHeaders()],
  [
    'drips',
    {},
    (response) => {
      const timer = setInterval(() => response.write(' '), 20);
      response.on('close', () => clearInterval(timer));
    },
  ],
  ['has a broken chunk', {}, (response) => response.write('{', () => response.socket?.write('zz\r\n'))],
  ['is too large', {}, (response) => response.end(Buffer.alloc(3_000_000, ' '))],
  ['is not what its encoding says', { 'content-encoding': 'gzip' }, (response) => response.end('{}')],
];

let server: TestServer;

/** A service that answers with this status; its token endpoint only where the path says so. */
async function refusing(status: number, [, headers, write] = HALF): Promise<string> {
  server = ending(
    await startServer((request, response) => {
      if (request.url === '/connect/token') {
        return sendJson(response, { access_token: 'a', token_type: 'Bearer', expires_in: 3600 });
      }
      const all = { 'content-type': 'application/json', 'retry-after': '7', ...headers };
      response.writeHead(status, all);
      write(response);
    }),
  );
  return server.url;
}

const HTTP: HttpOptions = { attempts: 3, attemptTimeout: 4_000, deadline: 5_000 };

describe.each(BODIES.map((body) => ({ what: body[0], body })))(
  'an error status whose body $what',
  ({ body }) => {
    const send = async (status: number, http: HttpOptions, request = {}) => {
      const sender = ending(Sender.with(await refusing(status, body), http));
      const began = performance.now();
      const end = await sender.send(request).catch((error: unknown) => error);
      return { end, ms: performance.now() - began };
    };
    const once = { operation: 'code', method: 'POST', body: 'a=b', repeat: 'never' } as const;

    it.each([
      [401, {}],
      [404, {}],
      [400, once],
    ])('is returned to the caller, by its head: %i', async (status, request) => {
      const { end, ms } = await send(status, HTTP, request);
      expect(end).toMatchObject({ status, body: undefined });
      expect(ms).toBeLessThan(3_000);
      expect(server.requests).toHaveLength(1);
    });

    it.each([
      [429, 'rate_limited'],
      [503, 'service_unavailable'],
    ])('keeps its Retry-After: %i', async (status, code) => {
      const { end } = await send(status, HTTP);
      expect(end).toMatchObject({ code, status, retryAfterMs: 7_000, attempts: 1 });
    });

    it('is returned where the call has little time', async () => {
      const { end } = await send(404, { attempts: 1, attemptTimeout: 400, deadline: 400 });
      expect(end).toMatchObject({ status: 404 });
    });
  },
);

const NOW = 'Tue, 01 Sep 2026 12:00:00 GMT';
it.each<[string, Record<string, string | string[]>, retryAfterMs: number]>([
  ['of several the longest', { 'retry-after': ['5', '30.5'] }, 30_500],
  ['a date by the clock of the service', { 'retry-after': NOW.replace(':00 ', ':40 '), date: NOW }, 40_000],
  ['several dates', { 'retry-after': [NOW, NOW.replace(':00 ', ':40 ')], date: NOW }, 40_000],
])('Retry-After: %s', async (_what, headers, retryAfterMs) => {
  server = ending(
    await startServer((_request, response) => {
      response
        .setHeaders(new Map(Object.entries(headers)))
        .writeHead(429)
        .end();
    }),
  );
  const sent = ending(Sender.with(server.url, HTTP)).send();
  await expect(sent).rejects.toMatchObject({ code: 'rate_limited', retryAfterMs });
});

describe('a refusal with half a body', () => {
  const closing = useClosing();
  const first =
    <T>(of: (exhibitors: ExhibitorsService) => Observable<T>) =>
    (exhibitors: ExhibitorsService) =>
      firstValueFrom(of(exhibitors));
  const list = first((exhibitors) => exhibitors.list('e'));
  const lookup = first((exhibitors) => exhibitors.lookup('e', 'a@example.com'));

  it.each<
    [
      string,
      number,
      call: (exhibitors: ExhibitorsService) => Promise<unknown>,
      end: unknown,
      requests: number,
    ]
  >([
    ['of a lookup is no exhibitor', 404, lookup, [], 1],
    ['of a list is not_found', 404, list, { code: 'not_found', status: 404 }, 1],
    ['is access_denied', 403, list, { code: 'access_denied', status: 403 }, 1],
    ['to a new token is access_denied', 401, lookup, { code: 'access_denied', status: 401 }, 1],
    ['is request_rejected', 422, lookup, { code: 'request_rejected', status: 422 }, 1],
    ['has its Retry-After', 429, lookup, { code: 'rate_limited', status: 429, retryAfterMs: 7_000 }, 1],
  ])('%s: %i', async (_what, status, call, end, requests) => {
    const tenant = tenantAt(await refusing(status), HTTP);
    const { exhibitors } = closing(await startRestHost({ tenant }));
    expect(await call(exhibitors).catch((error: unknown) => error)).toMatchObject(Object(end));
    expect(server.requests.filter(({ url }) => url !== '/connect/token')).toHaveLength(requests);
  });

  it.each([
    [400, { code: 'token_rejected', status: 400 }],
    [429, { code: 'rate_limited', status: 429, retryAfterMs: 7_000 }],
  ])('of the token endpoint is final: %i', async (status, end) => {
    const url = `${await refusing(status)}/broken`;
    const { context } = closing(await startRestHost({ tenant: tenantAt(url, HTTP) }));
    await expect(context.get(TokenService).getToken()).rejects.toMatchObject(end);
    expect(server.requests).toHaveLength(1);
  });
});
