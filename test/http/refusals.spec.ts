import type { ServerResponse } from 'node:http';
import { describe, expect, it } from '@jest/globals';
import { firstValueFrom, type Observable } from 'rxjs';
import { TokenService, type ExhibitorsService, type HttpOptions } from '../../lib/index.js';
import { startRestHost } from '../exhibitors/rest-host.js';
import { clockOf } from '../support/clock.js';
import { useClosing } from '../support/lifetimes.js';
import { loggedLines } from '../support/logged-lines.js';
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

/** A service that answers with this status; its token endpoint only where the path says so. */
async function refusing(status: number, [, headers, write] = HALF): Promise<TestServer> {
  return ending(
    await startServer((request, response) => {
      if (request.url === '/connect/token') {
        return sendJson(response, { access_token: 'a', token_type: 'Bearer', expires_in: 3600 });
      }
      const all = { 'content-type': 'application/json', 'retry-after': '7', ...headers };
      response.writeHead(status, all);
      write(response);
    }),
  );
}

const HTTP: HttpOptions = { attempts: 3, attemptTimeout: 4_000, deadline: 5_000 };

const ONCE = { operation: 'code', method: 'POST', body: 'a=b', isOnce: true } as const;
const BRIEF: HttpOptions = { attempts: 1, attemptTimeout: 400, deadline: 400 };
type Row = [status: number, end: object, http?: HttpOptions, request?: object];
const ROWS: readonly Row[] = [
  [401, { status: 401, body: undefined }],
  [404, { status: 404, body: undefined }],
  [400, { status: 400, body: undefined }, HTTP, ONCE],
  [404, { status: 404 }, BRIEF],
  [429, { code: 'rate_limited', status: 429, retryAfterMs: 7_000, attempts: 1 }],
  [503, { code: 'service_unavailable', status: 503, retryAfterMs: 7_000, attempts: 1 }],
];

it.each(BODIES.map((body) => ({ what: body[0], body })))(
  'an error status whose body $what is returned to the caller at once, by its head, with its Retry-After',
  async ({ body }) => {
    const send = async ([status, , http = HTTP, request = {}]: Row) => {
      const server = await refusing(status, body);
      const began = performance.now();
      const end = await ending(Sender.with(server.url, http))
        .send(request)
        .catch((error: unknown) => error);
      return { end, isLate: performance.now() - began > 3_000, requests: server.requests.length };
    };
    const ends = await Promise.all(ROWS.map(send));
    expect(ends).toEqual(
      ROWS.map(([, end]) => ({ end: expect.objectContaining(end), isLate: false, requests: 1 })),
    );
  },
);

const NOW = 'Tue, 01 Sep 2026 12:00:00 GMT';
it.each<[string, Record<string, string | string[]>, retryAfterMs: number]>([
  ['of several the longest', { 'retry-after': ['5', '30.5'] }, 30_500],
  ['a date by the clock of the service', { 'retry-after': NOW.replace(':00 ', ':40 '), date: NOW }, 40_000],
  ['several dates', { 'retry-after': [NOW, NOW.replace(':00 ', ':40 ')], date: NOW }, 40_000],
])('Retry-After: %s', async (_what, headers, retryAfterMs) => {
  const { url } = ending(
    await startServer((_request, response) => {
      response
        .setHeaders(new Map(Object.entries(headers)))
        .writeHead(429)
        .end();
    }),
  );
  const sent = ending(Sender.with(url, HTTP)).send();
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
    const server = await refusing(status);
    const tenant = tenantAt(server.url, HTTP);
    const { exhibitors } = closing(await startRestHost({ tenant }));
    expect(await call(exhibitors).catch((error: unknown) => error)).toMatchObject(Object(end));
    expect(server.requests.filter(({ url }) => url !== '/connect/token')).toHaveLength(requests);
  });

  it.each([
    [400, { code: 'token_rejected', status: 400 }],
    [429, { code: 'rate_limited', status: 429, retryAfterMs: 7_000 }],
  ])('of the token endpoint is final: %i', async (status, end) => {
    const server = await refusing(status);
    const tenant = tenantAt(`${server.url}/broken`, HTTP);
    const { context } = closing(await startRestHost({ tenant }));
    await expect(context.get(TokenService).getToken()).rejects.toMatchObject(end);
    expect(server.requests).toHaveLength(1);
  });
});

describe('a 401', () => {
  const closing = useClosing();
  const logged = loggedLines();
  const denied = () => logged.errors.filter((line) => line.includes('denied access with status 401'));

  it('to an old token that cannot be renewed names no option; to a new one it names those that may be wrong', async () => {
    let isTokenEndpointDown = false;
    const server = ending(
      await startServer((request, response) => {
        if (request.url !== '/connect/token') {
          sendJson(response, {}, 401);
        } else if (isTokenEndpointDown) {
          sendJson(response, { error: 'temporarily_unavailable' }, 503);
        } else {
          sendJson(response, { access_token: 'a', token_type: 'Bearer', expires_in: 3600 });
        }
      }),
    );
    const tenant = tenantAt(server.url, { ...HTTP, attempts: 1 });
    const { context, exhibitors } = closing(await startRestHost({ tenant }));
    const list = () => firstValueFrom(exhibitors.list('e')).catch(({ code }) => code);
    await context.get(TokenService).getToken();
    isTokenEndpointDown = true;
    clockOf(context).skip(11_000);
    expect([await list(), await list()]).toEqual(['token_unavailable', 'access_denied']);
    expect(denied()).toEqual([]);
    isTokenEndpointDown = false;
    clockOf(context).skip(11_000);
    expect(await list()).toBe('access_denied');
    expect(denied()).toEqual([expect.stringMatching(/^tenant\.tenantId, tenant\.scope: .* to a new token/)]);
  });
});
