import { afterAll, beforeAll, describe, expect, it } from '@jest/globals';
import * as fc from 'fast-check';
import type { Host } from '../support/host.js';
import type { ScriptedProvider } from '../support/provider.js';
import { fuzzedCallback, type CallbackRequest, type GoodCallback } from './fuzzed-callback.js';
import { withProvider } from './hosts.js';
import { arrive, expectAccepted } from './journey.js';

/** Requests for each framework and flow. `npm run test:fuzz` sets 5,000; `FUZZ_SEED` repeats a run. */
const RUNS = Number(process.env['FUZZ_RUNS'] ?? 120);
const SEED = process.env['FUZZ_SEED'];

let provider: ScriptedProvider;
const start = withProvider((started) => (provider = started));

const CASES = [
  ['express', 'code'],
  ['fastify', 'code token id_token'],
] as const;

describe.each(CASES)(`${RUNS} fuzzed callbacks on %s by %s`, (kind, responseType) => {
  let host: Host;
  const crashes: unknown[] = [];
  const note = (error: unknown): void => void crashes.push(error);
  beforeAll(async () => {
    process.on('uncaughtException', note);
    process.on('unhandledRejection', note);
    host = await start({ kind, login: { responseType } });
  });
  afterAll(() => {
    process.off('uncaughtException', note);
    process.off('unhandledRejection', note);
  });

  async function send({ method, query, headers, body }: CallbackRequest): Promise<Response> {
    const address = `${host.callback}${query === '' ? '' : `?${query}`}`;
    return fetch(address, { method, headers, body: body ?? null, redirect: 'manual' });
  }

  /** A login that waits for its callback. It serves until a reply sets a cookie: then its state is spent. */
  let pending: GoodCallback | undefined;
  async function pendingLogin(): Promise<GoodCallback> {
    const { visitor, arrival } = await arrive(host);
    return { arrival, cookies: visitor.cookies() };
  }

  it('end in 4xx (HEAD: 204) or in a valid login, and set no identity without one', async () => {
    const ends = { refused: 0, accepted: 0 };
    await fc.assert(
      fc.asyncProperty(fuzzedCallback, async (recipe) => {
        pending ??= await pendingLogin();
        const code = pending.arrival.parameters.get('code') ?? '';
        const request = recipe(pending);
        const reply = await send(request);
        await reply.text();
        const cookies = reply.headers.getSetCookie();
        if (cookies.length > 0) {
          pending = undefined;
        }
        const identity = cookies.find((cookie) => cookie.startsWith('exhibitor-identity='));
        if (identity === undefined) {
          ends.refused++;
          // HEAD finishes nothing. Node itself refuses headers that are too large (431).
          const isRefused = Math.trunc(reply.status / 100) === 4;
          expect([request.method, reply.status, isRefused || request.method === 'HEAD']).toEqual([
            request.method,
            isRefused ? reply.status : 204,
            true,
          ]);
          return;
        }
        ends.accepted++;
        expect(reply.status).toBe(303);
        // The provider gave its tokens for the code it issued to this browser, checked against its PKCE verifier.
        expect([provider.redeemed.has(code), provider.redemptions.get(code)]).toEqual([true, 1]);
        const [pair = ''] = identity.split(';');
        const me = await fetch(`${host.url}/me`, { headers: { cookie: pair } });
        expect([me.status, await me.json()]).toEqual([
          200,
          expect.objectContaining({ identity: expect.objectContaining({ subject: 'pat' }) }),
        ]);
      }),
      { numRuns: RUNS, seed: SEED === undefined ? undefined : Number(SEED) },
    );
    // Both ends occur, so neither the fuzzing nor the check is blind.
    expect(ends.refused).toBeGreaterThan(RUNS / 4);
    expect(ends.accepted).toBeGreaterThan(0);
    expect(crashes).toEqual([]);
    await expectAccepted(host);
  }, 1_200_000);
});
