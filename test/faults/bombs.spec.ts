import { afterAll, beforeAll, describe, expect, it } from '@jest/globals';
import { NestFactory } from '@nestjs/core';
import type { INestApplicationContext } from '@nestjs/common';
import { firstValueFrom } from 'rxjs';
import { ExhibitorModule, ExhibitorsService, TokenService } from '../../lib/index.js';
import type { ExhibitorSandbox } from '../../lib/testing/index.js';
import { pause } from '../support/wait.js';
import { startSandbox } from '../support/sandbox.js';
import { gzipBomb, largeBody, type AnyFault } from '../support/faults.js';

const MIB = 1024 * 1024;
const LIMIT = 2 * MIB;

let sandbox: ExhibitorSandbox;
let app: INestApplicationContext;

beforeAll(async () => {
  sandbox = await startSandbox();
  const { tenantId, clientId, clientSecret } = sandbox.tenantOptions('acme');
  const tenant = { tenantId, clientId, clientSecret, baseUrl: sandbox.url, authUrl: sandbox.url };
  const http = { deadline: 30_000, attemptTimeout: 30_000 };
  app = await NestFactory.createApplicationContext(ExhibitorModule.forRoot({ tenant, http }), {
    logger: false,
  });
});
afterAll(async () => {
  await app?.close();
  await sandbox?.stop();
});

/** Bytes of array buffers, which hold the bodies. */
const outside = (): number => process.memoryUsage().arrayBuffers;

/** Makes calls that get the body; returns the peak of the memory it took. */
async function explode(fault: AnyFault, times: number): Promise<number> {
  await app.get(TokenService).getToken();
  const before = outside();
  let most = before;
  const watch = setInterval(() => {
    most = Math.max(most, outside());
  }, 2);
  for (let call = 0; call < times; call += 1) {
    sandbox.failNext('list', fault);
    const list = firstValueFrom(app.get(ExhibitorsService).list('regional-2026'));
    await expect(list).rejects.toMatchObject({ code: 'malformed_response', attempts: 1 });
  }
  clearInterval(watch);
  return most - before;
}

describe('a body far above the limit', () => {
  it.each<[string, AnyFault]>([
    ['a gzip bomb of 30 MB', gzipBomb(30e6)],
    ['50 MB', largeBody(50e6)],
  ])('is dropped at the limit, each time: %s', async (_what, fault) => {
    await explode(fault, 2);
    // Dropped chunks wait for the garbage collector; a body that is kept would be far larger.
    expect(await explode(fault, 5)).toBeLessThan(20 * LIMIT);
    await pause(100);
    expect(sandbox.openRequests).toBe(0);
  });
});
