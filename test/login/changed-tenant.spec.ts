import { afterAll, afterEach, beforeAll, describe, expect, it } from '@jest/globals';
import { TenantRegistry } from '../../lib/index.js';
import { COOKIE_SECRET, startHost, type Host } from '../support/host.js';
import { ScriptedProvider, type LoginOverrides } from '../support/provider.js';
import { Visitor, type Reply } from '../support/visitor.js';
import { expectRefusal, identityOf, toHost, toProvider } from './journey.js';

let provider: ScriptedProvider;
let host: Host | undefined;
beforeAll(async () => {
  provider = await ScriptedProvider.start();
});
afterEach(async () => {
  await host?.close();
  host = undefined;
});
afterAll(() => provider?.stop());

/** A login of a tenant whose options change while the browser is at the provider. */
async function logInAcross(change: LoginOverrides): Promise<{ host: Host; visitor: Visitor; reply: Reply }> {
  let overrides: LoginOverrides = {};
  const started = await startHost({
    options: (callback) => ({
      tenants: { find: () => provider.tenantOptions(callback, { requireIss: false, ...overrides }) },
      allowedOrigins: 'any',
      resolveTenant: () => 'acme',
      secrets: [COOKIE_SECRET],
    }),
  });
  host = started;
  const visitor = new Visitor();
  const arrival = await toProvider(visitor, started);
  overrides = change;
  started.app.get(TenantRegistry).forget('acme');
  return { host: started, visitor, reply: await toHost(visitor, arrival) };
}

describe('a pending login', () => {
  it('is finished after its tenant was read again, or changed in another option', async () => {
    for (const change of [{}, { clockTolerance: 60 }]) {
      const { host: at, visitor, reply } = await logInAcross(change);
      expect(reply.status).toBe(303);
      expect(await identityOf(visitor, at)).toMatchObject({ tenant: 'acme' });
      await at.close();
    }
  });

  it.each<[string, LoginOverrides]>([
    ['issuer', { issuer: 'https://another.example' }],
    ['client', { clientId: 'another-web' }],
  ])('is refused by state once its tenant has another %s, and no code is redeemed', async (_, change) => {
    provider.redemptions.clear();
    const { host: at, visitor, reply } = await logInAcross(change);
    expectRefusal(reply, 'state');
    expect(provider.redemptions.size).toBe(0);
    expect(await identityOf(visitor, at)).toBeUndefined();
  });
});
