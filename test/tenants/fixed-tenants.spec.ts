import { inspect } from 'node:util';
import { afterAll, beforeAll, beforeEach, describe, expect, it } from '@jest/globals';
import { firstValueFrom } from 'rxjs';
import { TenantRegistry, TokenService } from '../../lib/index.js';
import { checkOptions } from '../../lib/options/check-options.js';
import type { ExhibitorSandbox } from '../../lib/testing/index.js';
import { SECRETS, startRestHost, threeTenants, type RestHost } from '../exhibitors/rest-host.js';
import { TestClock } from '../support/clock.js';
import { registryOf } from '../support/registry.js';
import { startSandbox } from '../support/sandbox.js';

let sandbox: ExhibitorSandbox;
let host: RestHost;
let tokens: TokenService;
beforeAll(async () => {
  sandbox = await startSandbox();
  host = await startRestHost(threeTenants(sandbox));
  tokens = host.context.get(TokenService);
});
afterAll(async () => {
  await host?.close();
  await sandbox?.stop();
});
beforeEach(() => sandbox.clearRequests());

const list = (tenant?: string) => firstValueFrom(host.exhibitors.list('boutique-2026', { tenant }));

describe('the tenants of the options', () => {
  it('show their key and the addresses of their service, and no secret in any form', async () => {
    const tenant = await host.context.get(TenantRegistry).get('acme');
    const { tenantId, clientSecret, login } = sandbox.tenantOptions('acme');
    const shown = { key: 'acme', tenantId, baseUrl: sandbox.url, authUrl: sandbox.url };
    expect(JSON.parse(JSON.stringify(tenant))).toEqual(shown);
    expect(Object.isFrozen(tenant)).toBe(true);
    const everything = { depth: Infinity, showHidden: true, getters: true };
    for (const look of [
      JSON.stringify(tenant),
      String(tenant),
      inspect(tenant, { depth: Infinity }),
      inspect({ nested: [tenant] }, everything),
      inspect(structuredClone({ ...tenant })),
      JSON.stringify(Object.entries(tenant)),
    ]) {
      expect(look).not.toContain(clientSecret);
      expect(look).not.toContain(login.clientSecret);
    }
    expect(inspect(tenant)).toContain(tenantId);
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
      await expect(host.context.get(TenantRegistry).get(key)).rejects.toMatchObject(failure);
      await expect(tokens.getToken({ tenant: key })).rejects.toMatchObject(failure);
      await expect(list(key)).rejects.toMatchObject(key === '' ? { code: 'invalid_argument' } : failure);
    }
    expect(sandbox.requests).toHaveLength(0);
  });

  it('may have any name, also that of an inherited property', async () => {
    const named = { constructor: sandbox.tenantOptions('acme'), 'find me': sandbox.tenantOptions('acme') };
    Object.defineProperty(named, '__proto__', { value: sandbox.tenantOptions('globex'), enumerable: true });
    const registry = registryOf(checkOptions({ tenants: named, secrets: SECRETS }), new TestClock());
    expect(await registry.get('constructor')).toMatchObject({ key: 'constructor' });
    const { tenantId } = sandbox.tenantOptions('globex');
    expect(await registry.get('__proto__')).toMatchObject({ tenantId });
  });

  it('must be named where there are several', async () => {
    const lookup = host.exhibitors.lookup('boutique-2026', 'sam.several@example.com');
    for (const call of [tokens.getToken(), tokens.invalidate(), list(), firstValueFrom(lookup)]) {
      await expect(call).rejects.toMatchObject({ code: 'tenant_required' });
    }
    expect(sandbox.requests).toHaveLength(0);
  });

  it('request another token after they are forgotten, without effect on other tenants', async () => {
    const get = async (tenant: string) => (await tokens.getToken({ tenant })).accessToken;
    const [acme, globex] = [await get('acme'), await get('globex')];
    host.context.get(TenantRegistry).forget('acme');
    host.context.get(TenantRegistry).forget('nobody');
    expect(await get('acme')).not.toBe(acme);
    expect(await get('globex')).toBe(globex);
  });
});
