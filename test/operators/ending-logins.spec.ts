/** The recipes of docs/ending-logins.md, as they are. */
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { basename, join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from '@jest/globals';
import type { Type } from '@nestjs/common';
import type { TenantOptions } from '../../lib/index.js';
import type { ExhibitorSandbox } from '../../lib/testing/index.js';
import { signIn } from '../guards/signed-in.js';
import { identityOf } from '../login/journey.js';
import { filesOf, namedSnippets, ROOT } from '../structure/readme.js';
import { BoothController } from '../support/booth.controller.js';
import { COOKIE_SECRET, startHost, type Host } from '../support/host.js';
import { describeWithRedis, RedisServer } from '../support/redis.js';
import { startSandbox } from '../support/sandbox.js';
import { loadSnippets } from '../support/snippets.js';
import { eventually } from '../support/wait.js';

let sandbox: ExhibitorSandbox;
beforeAll(async () => {
  sandbox = await startSandbox();
});
afterAll(() => sandbox?.stop());

describe.each(['express', 'fastify'] as const)('an administrator on %s', (kind) => {
  it('ends every login of a user, and nobody else does', async () => {
    const folder = mkdtempSync(join(ROOT, 'test', '.readme-'));
    mkdirSync(folder, { recursive: true });
    for (const [path, code] of filesOf('docs/ending-logins.md')) {
      writeFileSync(join(folder, basename(path)), code);
    }
    writeFileSync(join(folder, 'people.ts'), namedSnippets('docs/ending-logins.md', 'stolen')[0]);
    const { PeopleController } = (await import(join(folder, 'people.ts'))) as { PeopleController: Type };
    rmSync(folder, { recursive: true });
    const host = await startHost({
      kind,
      controllers: [BoothController, PeopleController],
      options: (redirectUri) => ({
        tenant: sandbox.tenantOptions('acme', { redirectUri }),
        secrets: [COOKIE_SECRET],
      }),
    });
    process.env['ADMINISTRATORS'] = 'olga.one@example.com';
    const [stolen, nora] = [await signIn(sandbox, host), await signIn(sandbox, host, 'nora.none')];
    const olga = await signIn(sandbox, host, 'olga.one');
    const path = `${host.url}/people/sam.several/end-logins`;
    expect((await nora.visit(path, { method: 'POST' })).status).toBe(403);
    expect(await identityOf(stolen, host)).toBeDefined();
    expect((await olga.visit(path, { method: 'POST' })).status).toBe(201);
    expect(await identityOf(stolen, host)).toBeUndefined();
    expect(await identityOf(olga, host)).toBeDefined();
    delete process.env['ADMINISTRATORS'];
    await host.close();
  });
});

describeWithRedis('a blocked customer', (path) => {
  let redis: RedisServer;
  beforeAll(async () => {
    redis = await RedisServer.start(path);
    process.env['REDIS_URL'] = redis.url;
  });
  afterAll(async () => {
    delete process.env['REDIS_URL'];
    await redis?.stop();
  });

  it('is forgotten by every process at once', async () => {
    interface Blocked {
      block(tenant: string): Promise<void>;
    }
    const { BlockedTenants } = await loadSnippets<{ BlockedTenants: Type<Blocked> }>(
      'ending-logins.md',
      'forget',
    );
    const tenants = new Map<string, TenantOptions>();
    const start = (callback?: string): Promise<Host> =>
      startHost({
        providers: [BlockedTenants],
        options: (own) => ({
          tenants: {
            find: (key) => {
              const redirectUri = callback ?? own;
              tenants.set('acme', tenants.get('acme') ?? sandbox.tenantOptions('acme', { redirectUri }));
              return isBlocked ? undefined : tenants.get(key);
            },
          },
          allowedOrigins: () => true,
          resolveTenant: () => 'acme',
          secrets: [COOKIE_SECRET],
        }),
      });
    let isBlocked = false;
    const one = await start();
    const two = await start(one.callback);
    const visitor = await signIn(sandbox, one);
    expect(await Promise.all([identityOf(visitor, one), identityOf(visitor, two)])).not.toContain(undefined);
    isBlocked = true;
    const statuses = () =>
      Promise.all([one, two].map(async ({ url }) => (await visitor.visit(`${url}/me`)).status));
    expect(await statuses()).toEqual([200, 200]);
    await one.app.get(BlockedTenants).block('acme');
    await eventually(async () => (await statuses()).every((status) => status === 404));
    await Promise.all([one.close(), two.close()]);
  });
});
