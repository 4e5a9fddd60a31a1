import { afterAll, beforeAll, describe, expect, it } from '@jest/globals';
import * as fc from 'fast-check';
import { ScriptedProvider } from '../support/provider.js';
import { COOKIE_SECRET, startHost, type Host } from '../support/host.js';
import { Visitor } from '../support/visitor.js';
import { fuzzedCallback, type CallbackRequest } from './fuzzed-callback.js';
import { expectAccepted, toProvider } from './journey.js';

/** Together with the other framework, and the two flows of each, 2,000. */
const RUNS = 500;

let provider: ScriptedProvider;
beforeAll(async () => {
  provider = await ScriptedProvider.start();
});
afterAll(() => provider?.stop());

const CASES = (['express', 'fastify'] as const).flatMap((kind) =>
  (['code', 'code token id_token'] as const).map((flow) => [kind, flow] as const),
);

describe.each(CASES)(`${RUNS} fuzzed callbacks on %s by %s`, (kind, responseType) => {
  let host: Host;
  const crashes: unknown[] = [];
  const note = (error: unknown): void => void crashes.push(error);
  beforeAll(async () => {
    process.on('uncaughtException', note);
    process.on('unhandledRejection', note);
    host = await startHost({
      kind,
      options: (callback) => ({
        tenant: provider.tenantOptions(callback, { responseType }),
        secrets: [COOKIE_SECRET],
      }),
    });
  });
  afterAll(async () => {
    await host?.close();
    process.off('uncaughtException', note);
    process.off('unhandledRejection', note);
  });

  async function send({ method, query, headers, body }: CallbackRequest): Promise<Response> {
    const address = `${host.callback}${query === '' ? '' : `?${query}`}`;
    return fetch(address, { method, headers, body: body ?? null, redirect: 'manual' });
  }

  it('end in 4xx or a valid login, and identify nobody without one', async () => {
    const ends = { refused: 0, accepted: 0 };
    await fc.assert(
      fc.asyncProperty(fuzzedCallback, async (recipe) => {
        const visitor = new Visitor();
        const arrival = await toProvider(visitor, host);
        const code = arrival.parameters.get('code') ?? '';
        const reply = await send(recipe({ arrival, cookies: visitor.cookies('127.0.0.1') }));
        await reply.text();
        const cookies = reply.headers.getSetCookie();
        const identity = cookies.find((cookie) => cookie.startsWith('exhibitor-identity='));
        if (identity === undefined) {
          ends.refused++;
          expect(Math.trunc(reply.status / 100)).toBe(4);
          return;
        }
        ends.accepted++;
        expect(reply.status).toBe(303);
        // The provider gave its tokens for the very code it issued to this browser, held against its PKCE verifier.
        expect([provider.redeemed.has(code), provider.redemptions.get(code)]).toEqual([true, 1]);
        const [pair = ''] = identity.split(';');
        const me = await fetch(`${host.url}/me`, { headers: { cookie: pair } });
        expect([me.status, await me.json()]).toEqual([
          200,
          expect.objectContaining({ identity: expect.objectContaining({ subject: 'pat' }) }),
        ]);
      }),
      { numRuns: RUNS },
    );
    // Both ends are met, so neither the fuzzing nor the check is blind.
    expect(ends.refused).toBeGreaterThan(RUNS / 4);
    expect(ends.accepted).toBeGreaterThan(5);
    expect(crashes).toEqual([]);
    await expectAccepted(host);
  }, 120_000);
});
