import { afterAll, afterEach, beforeAll, describe, expect, it } from '@jest/globals';
import type { ExhibitorSandbox } from '../../lib/testing/index.js';
import { COOKIE_SECRET, startHost, type Host } from '../support/host.js';
import { startSandbox } from '../support/sandbox.js';
import type { Visitor } from '../support/visitor.js';
import { signIn } from './signed-in.js';

/** The pages of this application call the API of the host, which is on another origin. */
const APP = 'https://app.example.com';

let sandbox: ExhibitorSandbox;
beforeAll(async () => {
  sandbox = await startSandbox();
});
afterAll(() => sandbox?.stop());

describe.each(['express', 'fastify'] as const)('trustedOrigins on %s', (kind) => {
  let host: Host;
  afterEach(() => host.close());

  async function signedInWith(trustedOrigins?: string[]): Promise<Visitor> {
    host = await startHost({
      kind,
      options: (redirectUri) => ({
        tenant: sandbox.tenantOptions('acme', { redirectUri }),
        secrets: [COOKIE_SECRET],
        ...(trustedOrigins === undefined ? {} : { trustedOrigins }),
      }),
    });
    return signIn(sandbox, host);
  }

  /** Statuses of a selection and of a logout, which is the last request of the user. */
  async function sent(visitor: Visitor, headers: Record<string, string>): Promise<number[]> {
    const [own] = sandbox
      .exhibitors('world-2026', 'acme')
      .filter(({ contactEmails }) => contactEmails.includes('sam.several@example.com'));
    const select = `${host.url}/events/world-2026/select`;
    const selected = await visitor.visit(select, { form: { id: own?.id ?? '' }, headers });
    const loggedOut = await visitor.visit(`${host.url}/auth/logout`, { method: 'POST', headers });
    return [selected.status, loggedOut.status];
  }

  it.each<Record<string, string>>([
    { 'sec-fetch-site': 'same-site', origin: APP },
    { 'sec-fetch-site': 'cross-site', origin: APP },
    { origin: APP },
  ])('let their pages select and log out: %j', async (headers) => {
    expect(await sent(await signedInWith([APP]), headers)).toEqual([201, 303]);
  });

  it.each<Record<string, string>>([
    { 'sec-fetch-site': 'same-site', origin: 'https://evil.example.com' },
    { 'sec-fetch-site': 'same-site', origin: 'http://app.example.com' },
    { 'sec-fetch-site': 'same-site', origin: `${APP}:8443` },
    { 'sec-fetch-site': 'same-site' },
    { origin: `${APP}.evil.example` },
    { origin: 'null' },
  ])('let no other page do so, whatever domain it shares: %j', async (headers) => {
    expect(await sent(await signedInWith([APP]), headers)).toEqual([400, 400]);
  });

  it('are none by default, but the origin of redirectUri', async () => {
    const visitor = await signedInWith();
    expect(await sent(visitor, { 'sec-fetch-site': 'same-site', origin: APP })).toEqual([400, 400]);
    const own = { 'sec-fetch-site': 'same-site', origin: new URL(host.url).origin };
    expect(await sent(visitor, own)).toEqual([201, 303]);
  });
});
