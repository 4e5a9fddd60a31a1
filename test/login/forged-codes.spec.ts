/** An attacker can make up codes, for which a provider may fail or take long. Others must still be able to log in. */
import { afterAll, afterEach, beforeAll, describe, expect, it } from '@jest/globals';
import { COOKIE_SECRET, startHost, type Host } from '../support/host.js';
import { ScriptedProvider } from '../support/provider.js';
import { sends, type WireReply } from '../support/provider-script.js';
import { Visitor } from '../support/visitor.js';
import { logIn, toHost, toProvider } from './journey.js';

let provider: ScriptedProvider;
let host: Host | undefined;
beforeAll(async () => {
  provider = await ScriptedProvider.start();
});
afterEach(async () => {
  provider.script = {};
  await host?.close();
});
afterAll(() => provider?.stop());

/** Logs in with a code that the provider never issued. */
async function forge(at: Host): Promise<number> {
  const visitor = new Visitor();
  const arrival = await toProvider(visitor, at);
  arrival.parameters.set('code', 'forged');
  return (await toHost(visitor, arrival)).status;
}

describe('forged codes', () => {
  it.each<[string, Partial<WireReply>, number]>([
    ['500', { status: 500 }, 503],
    ['a reset', { fault: 'reset' }, 503],
    ['silence', { fault: 'silence' }, 504],
  ])('to which the token endpoint answers with %s stop nobody else', async (_what, answer, status) => {
    host = await startHost({
      options: (callback) => ({
        // Silence lasts until the deadline; the others need time on a busy machine.
        tenant: { ...provider.tenantOptions(callback), http: { deadline: status === 504 ? 1_500 : 10_000 } },
        secrets: [COOKIE_SECRET],
      }),
    });
    // The provider refuses a code that it does not know with 400.
    provider.script = { token: (reply) => (reply.status === 400 ? sends(answer)(reply) : reply) };
    const at = host;
    const forged = Array.from({ length: 50 }, () => forge(at));
    expect(new Set(await Promise.all(forged))).toEqual(new Set([status]));
    expect((await logIn(new Visitor(), host)).status).toBe(303);
  });
});
