import { inspect } from 'node:util';
import { afterAll, beforeAll, beforeEach, describe, expect, it } from '@jest/globals';
import type { INestApplicationContext } from '@nestjs/common';
import { NestFactory } from '@nestjs/core';
import { firstValueFrom } from 'rxjs';
import { ExhibitorModule, ExhibitorsService, TenantRegistry, TokenService } from '../../lib/index.js';
import { checkOptions } from '../../lib/options/check-options.js';
import type { ExhibitorSandbox } from '../../lib/testing/index.js';
import { TestClock } from '../support/clock.js';
import { COOKIE_SECRET } from '../support/host.js';
import { registryOf } from '../support/registry.js';
import { startSandbox } from '../support/sandbox.js';

let sandbox: ExhibitorSandbox;
let app: INestApplicationContext;
beforeAll(async () => {
  sandbox = await startSandbox();
  app = await NestFactory.createApplicationContext(
    ExhibitorModule.forRoot({
      tenants: { acme: sandbox.tenantOptions('acme'), globex: sandbox.tenantOptions('globex') },
      secrets: [COOKIE_SECRET],
    }),
    { logger: false, abortOnError: false },
  );
});
afterAll(async () => {
  await app?.close();
  await sandbox?.stop();
});
beforeEach(() => sandbox.clearRequests());

describe('the tenants of the options', () => {
  it('show their key and the addresses of their service', async () => {
    const tenant = await app.get(TenantRegistry).get('acme');
    expect(JSON.parse(JSON.stringify(tenant))).toEqual({
      key: 'acme',
      tenantId: sandbox.tenantOptions('acme').tenantId,
      baseUrl: sandbox.url,
      authUrl: sandbox.url,
    });
    expect(Object.isFrozen(tenant)).toBe(true);
  });

  it('show no secret in any form', async () => {
    const tenant = await app.get(TenantRegistry).get('acme');
    const { clientSecret, login } = sandbox.tenantOptions('acme');
    const looks = [
      JSON.stringify(tenant),
      String(tenant),
      inspect(tenant, { depth: Infinity }),
      inspect(tenant, { depth: Infinity, showHidden: true, getters: true }),
      inspect({ nested: [tenant] }, { depth: Infinity, showHidden: true, getters: true }),
      inspect(structuredClone({ ...tenant })),
      JSON.stringify(Object.entries(tenant)),
    ];
    for (const look of looks) {
      expect(look).not.toContain(clientSecret);
      expect(look).not.toContain(login.clientSecret);
    }
    expect(inspect(tenant)).toContain(tenant.tenantId);
  });

  it('include no other, whatever its key, which errors show in a short form', async () => {
    const names = ['nobody', '__proto__', 'constructor', 'toString', 'default', ''];
    for (const [key, shown] of [
      ...names.map((name) => [name, name] as const),
      ['a\nb', 'a b'],
      ['zoe.private@example.com', '[removed]'],
      ['n'.repeat(120), `${'n'.repeat(100)}…`],
    ] as const) {
      const failure = { code: 'unknown_tenant', tenant: shown };
      await expect(app.get(TenantRegistry).get(key)).rejects.toMatchObject(failure);
      await expect(app.get(TokenService).getToken({ tenant: key })).rejects.toMatchObject(failure);
      const call = firstValueFrom(app.get(ExhibitorsService).list('boutique-2026', { tenant: key }));
      await expect(call).rejects.toMatchObject(key === '' ? { code: 'invalid_argument' } : failure);
    }
    expect(sandbox.requests).toHaveLength(0);
  });

  it('may have any name, also that of an inherited property', async () => {
    const named = Object.fromEntries(
      ['constructor', 'toString', 'find me'].map((key) => [key, sandbox.tenantOptions('acme')]),
    );
    Object.defineProperty(named, '__proto__', { value: sandbox.tenantOptions('globex'), enumerable: true });
    const options = checkOptions({ tenants: named, secrets: [COOKIE_SECRET] });
    const registry = registryOf(options, new TestClock());
    expect(await registry.get('constructor')).toMatchObject({ key: 'constructor' });
    const { tenantId } = sandbox.tenantOptions('globex');
    expect(await registry.get('__proto__')).toMatchObject({ tenantId });
  });

  it('must be named where there are several', async () => {
    const failure = { code: 'tenant_required' };
    await expect(app.get(TokenService).getToken()).rejects.toMatchObject(failure);
    await expect(app.get(TokenService).invalidate()).rejects.toMatchObject(failure);
    const exhibitors = app.get(ExhibitorsService);
    await expect(firstValueFrom(exhibitors.list('boutique-2026'))).rejects.toMatchObject(failure);
    const lookup = firstValueFrom(exhibitors.lookup('boutique-2026', 'sam.several@example.com'));
    await expect(lookup).rejects.toMatchObject(failure);
    expect(sandbox.requests).toHaveLength(0);
  });

  it('request another token after they are forgotten, without effect on other tenants', async () => {
    const tokens = app.get(TokenService);
    const first = await tokens.getToken({ tenant: 'acme' });
    const other = await tokens.getToken({ tenant: 'globex' });
    app.get(TenantRegistry).forget('acme');
    app.get(TenantRegistry).forget('nobody');
    expect((await tokens.getToken({ tenant: 'acme' })).accessToken).not.toBe(first.accessToken);
    expect((await tokens.getToken({ tenant: 'globex' })).accessToken).toBe(other.accessToken);
  });
});
