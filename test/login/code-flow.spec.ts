import { afterAll, beforeAll, describe, expect, it } from '@jest/globals';
import type { ExhibitorSandbox } from '../../lib/testing/index.js';
import { COOKIE_SECRET, HOST_KINDS, startHost, type Host } from '../support/host.js';
import { Visitor } from '../support/visitor.js';
import { startSandbox } from '../support/sandbox.js';

let sandbox: ExhibitorSandbox;
beforeAll(async () => {
  sandbox = await startSandbox();
});
afterAll(() => sandbox?.stop());

describe.each(HOST_KINDS)('a login by code on %s', (kind) => {
  let host: Host;
  beforeAll(async () => {
    host = await startHost({
      kind,
      options: (redirectUri) => ({
        tenant: sandbox.tenantOptions('acme', { redirectUri }),
        secrets: [COOKIE_SECRET],
      }),
    });
  });
  afterAll(() => host?.close());

  it('leads from the login route to the exhibitors of the event, and ends with the logout', async () => {
    const visitor = new Visitor();
    sandbox.signInAs('sam.several@example.com');
    const before = await visitor.visit(`${host.url}/events/world-2026/mine`);
    expect(before.status).toBe(401);
    expect(JSON.parse(before.text)).toEqual({
      statusCode: 401,
      message: 'nobody is logged in',
      error: 'Unauthorized',
      code: 'unauthenticated',
    });

    const callback = await visitor.follow(
      `${host.url}/auth/login?eventId=world-2026&returnTo=/events/world-2026/mine`,
      (url) => url.pathname === '/events/world-2026/mine',
    );
    expect(callback.status).toBe(303);
    expect(callback.headers.get('cache-control')).toBe('no-store');
    expect(callback.headers.get('referrer-policy')).toBe('no-referrer');

    const mine = await visitor.visit(`${host.url}/events/world-2026/mine`);
    expect(mine.status).toBe(200);
    expect(JSON.parse(mine.text)).toHaveLength(3);
    expect(mine.headers.get('cache-control')).toBe('private, no-store');

    const me = JSON.parse((await visitor.visit(`${host.url}/me`)).text) as {
      identity: object;
      tenant: string;
    };
    expect(me).toMatchObject({
      tenant: 'default',
      identity: { email: 'sam.several@example.com', eventId: 'world-2026', subject: 'sam.several' },
    });

    const logout = await visitor.visit(`${host.url}/auth/logout`, { method: 'POST' });
    expect(logout.status).toBe(303);
    expect((await visitor.visit(`${host.url}/events/world-2026/mine`)).status).toBe(401);
  });
});
