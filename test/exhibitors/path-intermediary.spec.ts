import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it } from '@jest/globals';
import type { ServerResponse } from 'node:http';
import { firstValueFrom } from 'rxjs';
import type { ExhibitorSandbox } from '../../lib/testing/index.js';
import { COOKIE_SECRET, startHost, type Host } from '../support/host.js';
import { startSandbox } from '../support/sandbox.js';
import { startServer, type TestServer } from '../support/server.js';
import { bodyOf, signIn } from '../guards/signed-in.js';
import { startRestHost, type RestHost } from './rest-host.js';
import { traced } from '../support/traced-requests.js';

const SAM = 'sam.several@example.com';

/** Decodes until nothing is left to decode, in compatibility form: the worst that a proxy or a gateway may do. */
function decodeFully(path: string): string {
  const decoded = decodeURIComponent(path.replaceAll(/%(?![\da-f]{2})/gi, '%25')).normalize('NFKC');
  return decoded === path ? path : decodeFully(decoded);
}

async function forward(url: URL, headers: Headers, response: ServerResponse): Promise<void> {
  const reply = await fetch(url, { headers });
  response.writeHead(reply.status, { 'content-type': String(reply.headers.get('content-type')) });
  response.end(await reply.text());
}

let sandbox: ExhibitorSandbox;
let intermediary: TestServer;
beforeAll(async () => {
  sandbox = await startSandbox();
  intermediary = await startServer((request, response) => {
    const [path = '', query] = (request.url ?? '').split('?');
    const url = new URL(`${decodeFully(path)}${query === undefined ? '' : `?${query}`}`, sandbox.url);
    const headers = new Headers();
    for (const name of ['authorization', 'x-tenant-id']) {
      headers.set(name, String(request.headers[name]));
    }
    void forward(url, headers, response);
  });
});
beforeEach(() => sandbox.clearRequests());
afterAll(async () => {
  await intermediary?.stop();
  await sandbox?.stop();
});

const ANOTHER_RESOURCE = [
  `world-2026/contactEmail/${SAM}`,
  `world-2026%2FcontactEmail%2F${SAM}`,
  `world-2026／contactEmail／${SAM}`,
  `x/../world-2026`,
  'world-2026?',
  'world-2026%3F',
  'world-2026#',
  'world-2026;x',
];

describe('a service behind an intermediary that decodes paths', () => {
  let host: RestHost;
  beforeAll(async () => {
    const tenant = { ...sandbox.tenantOptions('acme'), baseUrl: intermediary.url };
    host = await startRestHost({ tenant, lookupCache: false });
  });
  afterAll(() => host?.close());

  it.each(['...', 'a+b&c=d,e:f@g', "it's (new)!*~$", 'Messe München', '展会', '50 percent'])(
    'gets the event id %s in a list and a lookup as it is',
    async (eventId) => {
      await expect(firstValueFrom(host.exhibitors.list(eventId))).rejects.toMatchObject({
        code: 'not_found',
      });
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
  let host: Host | undefined;
  afterEach(async () => {
    await host?.close();
    host = undefined;
  });

  it('answers 400 for such an event id, and sends nothing', async () => {
    host = await startHost({
      options: (redirectUri) => ({
        tenant: { ...sandbox.tenantOptions('acme', { redirectUri }), baseUrl: intermediary.url },
        secrets: [COOKIE_SECRET],
      }),
    });
    const visitor = await signIn(sandbox, host);
    sandbox.clearRequests();
    for (const eventId of ANOTHER_RESOURCE) {
      const encoded = encodeURIComponent(eventId);
      for (const path of [
        `/events/${encoded}/mine`,
        `/mine?eventId=${encoded}`,
        `/auth/login?eventId=${encoded}`,
      ]) {
        const reply = await visitor.visit(`${host.url}${path}`);
        expect([path, reply.status, bodyOf(reply)['code']]).toEqual([path, 400, 'invalid_argument']);
      }
    }
    expect(sandbox.requests).toEqual([]);
    expect((await visitor.visit(`${host.url}/events/world-2026/mine`)).status).toBe(200);
  });
});
