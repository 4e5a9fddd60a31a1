import { afterAll, beforeEach, describe, expect, it } from '@jest/globals';
import { firstValueFrom } from 'rxjs';
import { COOKIE_SECRET, startHost } from '../support/host.js';
import { useHost, useSandbox } from '../support/lifetimes.js';
import { startServer } from '../support/server.js';
import { bodyOf, signIn } from '../nest/signed-in.js';
import { startRestHost } from './rest-host.js';
import { traced } from '../support/traced-requests.js';

const SAM = 'sam.several@example.com';

/** Decodes until nothing is left to decode, in compatibility form: the worst that a proxy or a gateway may do. */
function decodeFully(path: string): string {
  const decoded = decodeURIComponent(path.replaceAll(/%(?![\da-f]{2})/gi, '%25')).normalize('NFKC');
  return decoded === path ? path : decodeFully(decoded);
}

const sandbox = await useSandbox();
const intermediary = await startServer(async ({ url = '', headers }, response) => {
  const [path = '', query] = url.split('?');
  const target = new URL(`${decodeFully(path)}${query === undefined ? '' : `?${query}`}`, sandbox.url);
  const { authorization = '', 'x-tenant-id': tenantId } = headers;
  const reply = await fetch(target, { headers: { authorization, 'x-tenant-id': String(tenantId) } });
  response.writeHead(reply.status, { 'content-type': String(reply.headers.get('content-type')) });
  response.end(await reply.text());
});
beforeEach(() => sandbox.clearRequests());
afterAll(() => intermediary.stop());

/** They lead to another resource there, or cannot be part of a request. */
const REFUSED = [
  `world-2026/contactEmail/${SAM}`,
  `world-2026%2FcontactEmail%2F${SAM}`,
  `world-2026／contactEmail／${SAM}`,
  `x/../world-2026`,
  'world-2026?',
  'world-2026%3F',
  'world-2026#',
  'world-2026;x',
  'a\u0000b',
  'a\nb',
  'a\u0085',
  'x'.repeat(129),
];

describe('a service behind an intermediary that decodes paths', () => {
  const host = useHost(() => {
    const tenant = { ...sandbox.tenantOptions('acme'), baseUrl: intermediary.url };
    return startRestHost({ tenant, lookupCache: false });
  });

  it.each(['...', 'a+b&c=d,e:f@g', "it's (new)!*~$", 'Messe München', '展会', '50 percent'])(
    'gets the event id %s in a list and a lookup as it is',
    async (eventId) => {
      const list = firstValueFrom(host.exhibitors.list(eventId));
      await expect(list).rejects.toMatchObject({ code: 'not_found' });
      expect(await firstValueFrom(host.exhibitors.lookup(eventId, 'zoë+fair@example.com'))).toEqual([]);
      const seen = traced(sandbox).filter(({ operation }) => operation !== 'token');
      expect(seen.map((request) => [request.operation, request.eventId, request.contactEmail])).toEqual([
        ['list', eventId, undefined],
        ['lookup', eventId, 'zoë+fair@example.com'],
      ]);
    },
  );
});

describe('a guard before such a service', () => {
  const host = useHost(() =>
    startHost({
      options: (redirectUri) => ({
        tenant: { ...sandbox.tenantOptions('acme', { redirectUri }), baseUrl: intermediary.url },
        secrets: [COOKIE_SECRET],
      }),
    }),
  );

  it('answers 400 for an event id that cannot be one, and sends nothing', async () => {
    const visitor = await signIn(sandbox, host);
    sandbox.clearRequests();
    for (const eventId of REFUSED.map(encodeURIComponent)) {
      for (const path of [
        `/events/${eventId}/mine`,
        `/mine?eventId=${eventId}`,
        `/auth/login?eventId=${eventId}`,
      ]) {
        const reply = await visitor.visit(`${host.url}${path}`);
        expect([path, reply.status, bodyOf(reply)['code']]).toEqual([path, 400, 'invalid_argument']);
      }
    }
    expect(sandbox.requests).toEqual([]);
    expect((await visitor.visit(`${host.url}/events/world-2026/mine`)).status).toBe(200);
  });
});
