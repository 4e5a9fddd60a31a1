import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it } from '@jest/globals';
import type { INestApplicationContext } from '@nestjs/common';
import { NestFactory } from '@nestjs/core';
import { firstValueFrom } from 'rxjs';
import { ExhibitorModule, ExhibitorsService, TokenService } from '../../lib/index.js';
import type { ExhibitorSandbox } from '../../lib/testing/index.js';
import { clockOf } from '../support/clock.js';
import { startSandbox } from '../support/sandbox.js';

let sandbox: ExhibitorSandbox;
let app: INestApplicationContext;
let exhibitors: ExhibitorsService;
beforeAll(async () => {
  sandbox = await startSandbox();
});
afterAll(() => sandbox?.stop());
beforeEach(async () => {
  const { login: _, ...tenant } = sandbox.tenantOptions('acme');
  app = await NestFactory.createApplicationContext(
    // A busy machine needs seconds for 1,000 requests: none may be sent again.
    ExhibitorModule.forRoot({ tenant, http: { deadline: 28_000, attemptTimeout: 28_000 } }),
    { logger: false, abortOnError: false },
  );
  exhibitors = app.get(ExhibitorsService);
});
afterEach(async () => {
  sandbox.tokenLifetime = 3600;
  await app?.close();
});

const tokenRequests = (): number => sandbox.requests.filter(({ operation }) => operation === 'token').length;

describe('1,000 callers at once', () => {
  it('with an expired token cause one token request', async () => {
    sandbox.tokenLifetime = 1;
    await firstValueFrom(exhibitors.list('boutique-2026'));
    sandbox.tokenLifetime = 3600;
    clockOf(app).skip(1_100);
    sandbox.clearRequests();
    const pages = await Promise.all(
      Array.from({ length: 1_000 }, () => firstValueFrom(exhibitors.list('boutique-2026'))),
    );
    expect(pages.every(({ data }) => data.length === 7)).toBe(true);
    expect(tokenRequests()).toBe(1);
    expect(sandbox.requests.filter(({ operation }) => operation === 'list')).toHaveLength(1_000);
  });

  it('with a revoked token cause one more, and all succeed', async () => {
    await firstValueFrom(exhibitors.list('boutique-2026'));
    sandbox.revokeTokens('acme');
    sandbox.clearRequests();
    const pages = await Promise.all(
      Array.from({ length: 1_000 }, () => firstValueFrom(exhibitors.list('boutique-2026'))),
    );
    expect(pages.every(({ data }) => data.length === 7)).toBe(true);
    expect(tokenRequests()).toBe(1);
  });

  it('of the same lookup cause one lookup request', async () => {
    sandbox.clearRequests();
    const found = await Promise.all(
      Array.from({ length: 1_000 }, () =>
        firstValueFrom(exhibitors.lookup('world-2026', 'sam.several@example.com')),
      ),
    );
    expect(found.every((records) => records.length === 3)).toBe(true);
    expect(sandbox.requests.filter(({ operation }) => operation === 'lookup')).toHaveLength(1);
  });
});

describe('a token the service refuses', () => {
  it('is replaced, and the call succeeds', async () => {
    const tokens = app.get(TokenService);
    await firstValueFrom(exhibitors.list('boutique-2026'));
    const { accessToken } = await tokens.getToken();
    sandbox.revokeTokens();
    sandbox.clearRequests();
    expect((await firstValueFrom(exhibitors.list('boutique-2026'))).data).toHaveLength(7);
    expect(sandbox.requests.map(({ operation, status }) => `${operation} ${status}`)).toEqual([
      'list 401',
      'token 200',
      'list 200',
    ]);
    expect((await tokens.getToken()).accessToken).not.toBe(accessToken);
  });
});
