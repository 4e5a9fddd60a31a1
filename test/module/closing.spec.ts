import { afterAll, afterEach, beforeAll, describe, expect, it } from '@jest/globals';
import { NestFactory } from '@nestjs/core';
import type { INestApplicationContext } from '@nestjs/common';
import { firstValueFrom, toArray } from 'rxjs';
import { ExhibitorModule, ExhibitorsService, isExhibitorError, TokenService } from '../../lib/index.js';
import type { ExhibitorSandbox } from '../../lib/testing/index.js';
import { eventually } from '../support/wait.js';
import { startSandbox } from '../support/sandbox.js';

let sandbox: ExhibitorSandbox;
beforeAll(async () => {
  sandbox = await startSandbox();
});
afterAll(() => sandbox?.stop());
afterEach(() => sandbox?.clearFaults());

function boot(): Promise<INestApplicationContext> {
  const { login: _, ...tenant } = sandbox.tenantOptions('acme');
  return NestFactory.createApplicationContext(ExhibitorModule.forRoot({ tenant }), {
    logger: false,
    abortOnError: false,
  });
}

/** Code and message of the error of a call. */
async function codeOf(call: Promise<unknown>): Promise<string> {
  try {
    await call;
    return 'a value';
  } catch (error) {
    return isExhibitorError(error) ? `${error.code}: ${error.message}` : String(error);
  }
}

describe('a closed application', () => {
  it('ends running calls at once, with a message', async () => {
    const app = await boot();
    const exhibitors = app.get(ExhibitorsService);
    await firstValueFrom(exhibitors.list('boutique-2026'));
    sandbox.failNext('list', { kind: 'stall', at: 'before-headers' }, Infinity);
    sandbox.failNext('lookup', { kind: 'stall', at: 'mid-body' }, Infinity);
    const calls = [
      codeOf(firstValueFrom(exhibitors.list('world-2026'))),
      codeOf(firstValueFrom(exhibitors.stream('world-2026').pipe(toArray()))),
      codeOf(firstValueFrom(exhibitors.lookup('world-2026', 'sam.several@example.com'))),
    ];
    await eventually(() => sandbox.openRequests === 3);
    const began = performance.now();
    await app.close();
    expect(await Promise.all(calls)).toEqual(
      Array.from({ length: 3 }, () => 'service_unavailable: the module was closed'),
    );
    expect(performance.now() - began).toBeLessThan(3_000);
    await eventually(() => sandbox.openConnections === 0);
  });

  it('ends a wait for a retry', async () => {
    const app = await boot();
    const exhibitors = app.get(ExhibitorsService);
    await firstValueFrom(exhibitors.list('boutique-2026'));
    sandbox.failNext('list', { kind: 'status', status: 503, headers: { 'retry-after': '5' } }, Infinity);
    const answered = sandbox.requests.length + 1;
    const call = codeOf(firstValueFrom(exhibitors.list('world-2026')));
    await eventually(() => sandbox.requests.length === answered && sandbox.openRequests === 0);
    const began = performance.now();
    await app.close();
    expect(await call).toBe('service_unavailable: the module was closed');
    expect(performance.now() - began).toBeLessThan(3_000);
  });

  it('refuses later calls and sends nothing', async () => {
    const app = await boot();
    const exhibitors = app.get(ExhibitorsService);
    const tokens = app.get(TokenService);
    await app.close();
    sandbox.clearRequests();
    expect(await codeOf(firstValueFrom(exhibitors.list('boutique-2026')))).toMatch(/the module was closed$/);
    expect(
      await codeOf(firstValueFrom(exhibitors.lookup('boutique-2026', 'sam.several@example.com'))),
    ).toMatch(/the module was closed$/);
    expect(await codeOf(firstValueFrom(exhibitors.snapshot('boutique-2026')))).toMatch(
      /the module was closed$/,
    );
    expect(await codeOf(tokens.getToken())).toMatch(/^token_unavailable: .*the module was closed$/);
    expect(sandbox.requests).toHaveLength(0);
  });

  it('may be closed twice', async () => {
    const app = await boot();
    await app.close();
    await app.close();
    expect(sandbox.openConnections).toBe(0);
  });
});
