import { inspect } from 'node:util';
import { beforeEach, describe, expect, it } from '@jest/globals';
import { firstValueFrom } from 'rxjs';
import { TenantRegistry, TokenService } from '../../lib/index.js';
import { startRestHost, threeTenants } from '../exhibitors/rest-host.js';
import { useHost, useSandbox } from '../support/lifetimes.js';

const sandbox = await useSandbox();
const host = useHost(() => startRestHost(threeTenants(sandbox)));
const tokens = () => host.context.get(TokenService);
const registry = () => host.context.get(TenantRegistry);
beforeEach(() => sandbox.clearRequests());

const list = (tenant?: string) => firstValueFrom(host.exhibitors.list('boutique-2026', { tenant }));

describe('the tenants of the options', () => {
  it('show their key and the addresses of their service, and no secret in any form', async () => {
    const tenant = await registry().get('acme');
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

  it('include no other, whatever its key', async () => {
    for (const key of ['nobody', '__proto__', 'constructor', 'toString', 'default', '']) {
      const failure = { code: 'unknown_tenant', tenant: key };
      await expect(registry().get(key)).rejects.toMatchObject(failure);
      await expect(tokens().getToken({ tenant: key })).rejects.toMatchObject(failure);
      await expect(list(key)).rejects.toMatchObject(key === '' ? { code: 'invalid_argument' } : failure);
    }
    expect(sandbox.requests).toHaveLength(0);
  });

  it('may have any name, also that of an inherited property', async () => {
    const tenants = { constructor: sandbox.tenantOptions('acme') };
    Object.defineProperty(tenants, '__proto__', { value: sandbox.tenantOptions('globex'), enumerable: true });
    const named = await startRestHost({ tenants });
    for (const [key, { tenantId }] of Object.entries(tenants)) {
      expect(await named.context.get(TenantRegistry).get(key)).toMatchObject({ key, tenantId });
    }
    await named.close();
  });

  it('must be named where there are several', async () => {
    const lookup = host.exhibitors.lookup('boutique-2026', 'sam.several@example.com');
    for (const call of [tokens().getToken(), tokens().invalidate(), list(), firstValueFrom(lookup)]) {
      await expect(call).rejects.toMatchObject({ code: 'tenant_required' });
    }
    expect(sandbox.requests).toHaveLength(0);
  });
});
