import { afterAll, afterEach, beforeAll, describe, expect, it } from '@jest/globals';
import type { INestApplicationContext } from '@nestjs/common';
import { NestFactory } from '@nestjs/core';
import { Agent } from 'undici';
import {
  ExhibitorModule,
  TenantRegistry,
  TokenValidator,
  type ExhibitorModuleOptions,
  type TenantOptions,
} from '../../lib/index.js';
import { OpenIdProvider } from '../../lib/oidc/openid-provider.service.js';
import { Clock } from '../../lib/time/clock.js';
import { Deadline } from '../../lib/time/deadline.js';
import { clockOf } from '../support/clock.js';
import { COOKIE_SECRET } from '../support/host.js';
import { KEYS, sign } from '../support/provider-keys.js';
import { answers, changes, sends } from '../support/provider-script.js';
import { CLIENT_ID, ScriptedProvider } from '../support/provider.js';
import type { TenantsOption } from '../support/module-options.js';

const { rs256, next, attacker } = KEYS;
const JWKS = '/connect/jwks';

let provider: ScriptedProvider;
let app: INestApplicationContext | undefined;
beforeAll(async () => {
  provider = await ScriptedProvider.start();
});
afterAll(() => provider?.stop());
afterEach(async () => {
  await app?.close();
  app = undefined;
  provider.script = {};
  provider.seen.length = 0;
  provider.jwks = { keys: [rs256.jwk] };
});

function tenant(own: Partial<TenantOptions> = {}, keys = `${provider.url}${JWKS}`): TenantOptions {
  return { ...provider.tenantOptions('https://host.example/auth/callback', { keys }), ...own };
}

async function boot(
  tenants: TenantsOption,
  http: ExhibitorModuleOptions['http'] = { attempts: 1 },
): Promise<INestApplicationContext> {
  app = await NestFactory.createApplicationContext(
    ExhibitorModule.forRoot({ tenants, allowedOrigins: () => true, http, secrets: [COOKIE_SECRET] }),
    { logger: false, abortOnError: false },
  );
  return app;
}

const token = (key = rs256): Promise<string> => {
  const now = Math.floor(Date.now() / 1000);
  const claims = { iss: provider.url, sub: 'pat', aud: CLIENT_ID, iat: now, exp: now + 300 };
  return sign(JSON.stringify(claims), key);
};

async function validate(key: string, signedBy = rs256): Promise<unknown> {
  return app?.get(TokenValidator).validate(await token(signedBy), { tenant: key, use: 'id_token' });
}

const fetches = (): number => provider.count(JWKS);

describe('the keys of a URL', () => {
  it('are fetched once for all tenants that name it', async () => {
    const keys = Array.from({ length: 20 }, (_, index) => `tenant-${index}`);
    await boot(Object.fromEntries(keys.map((key) => [key, tenant()])));
    await Promise.all(keys.map((key) => validate(key)));
    expect(fetches()).toBe(1);
    provider.jwks = { keys: [next.jwk] };
    await Promise.all(keys.map((key) => validate(key, next)));
    expect(fetches()).toBe(2);
  });

  it('are fetched twice in 30 s for forged key ids, at however many tenants', async () => {
    await boot({ acme: tenant(), globex: tenant(), initech: tenant() });
    for (let forged = 0; forged < 10; forged++) {
      for (const key of ['acme', 'globex', 'initech']) {
        const failure = { reason: 'signature' };
        await expect(validate(key, { ...attacker, kid: `forged-${forged}` })).rejects.toMatchObject(failure);
      }
    }
    expect(fetches()).toBe(2);
    await expect(validate('globex')).resolves.toMatchObject({ sub: 'pat' });
  });

  it('are fetched for each URL apart', async () => {
    await boot({ acme: tenant(), globex: tenant({}, `${provider.url}${JWKS}?tenant=globex`) });
    await Promise.all([validate('acme'), validate('globex')]);
    expect(fetches()).toBe(2);
  });

  it('are fetched for each dispatcher apart: a broken proxy of one tenant hides no keys from another', async () => {
    const shared = new Agent();
    const broken = new Agent({ connect: { socketPath: '/nonexistent/proxy.sock' } });
    try {
      await boot({
        acme: tenant({ http: { dispatcher: () => broken } }),
        globex: tenant(),
        initech: tenant({ http: { dispatcher: () => shared } }),
        umbrella: tenant({ http: { dispatcher: () => shared } }),
      });
      await expect(validate('acme')).rejects.toMatchObject({ code: 'service_unavailable', tenant: 'acme' });
      await expect(validate('globex')).resolves.toMatchObject({ sub: 'pat' });
      await Promise.all([validate('initech'), validate('umbrella')]);
      expect(fetches()).toBe(2);
    } finally {
      await Promise.all([broken.close(), shared.close()]);
    }
  });

  it('fail for each tenant by an error that names this tenant', async () => {
    await boot({ acme: tenant(), globex: tenant() });
    provider.script = { keys: answers({}, 500) };
    const failures = await Promise.allSettled([validate('acme'), validate('globex'), validate('globex')]);
    expect(failures).toMatchObject([
      { reason: { code: 'service_unavailable', status: 500, tenant: 'acme' } },
      { reason: { code: 'service_unavailable', status: 500, tenant: 'globex' } },
      { reason: { code: 'service_unavailable', status: 500, tenant: 'globex' } },
    ]);
    expect(fetches()).toBe(1);
  });

  it('and metadata are refused by an error that names the tenant that waits', async () => {
    const all = { keys: undefined, discovery: true };
    const options = provider.tenantOptions('https://host.example/auth/callback', all);
    const context = await boot({ acme: options, globex: options });
    const { registry, clock } = servicesOf(context);
    const metadata = context.get(OpenIdProvider, { strict: false });
    const read = async (key: string): Promise<unknown> => {
      const deadline = new Deadline(clock, 2_000);
      return metadata.urlOf(await registry.get(key), 'token', deadline).finally(() => deadline.clear());
    };
    for (const [change, reason] of [
      [answers({}, 404), 'provider'],
      [sends({ body: '{' }), 'provider'],
      [changes({ issuer: 'https://evil.example' }), 'issuer'],
    ] as const) {
      clockOf(context).skip(30_000, ['now']);
      provider.script = { metadata: change };
      const failures = await Promise.allSettled(['acme', 'globex', 'globex'].map(read));
      const refusal = { name: 'LoginFailedError', reason };
      expect(failures).toMatchObject([
        { reason: { ...refusal, tenant: 'acme' } },
        { reason: { ...refusal, tenant: 'globex' } },
        { reason: { ...refusal, tenant: 'globex' } },
      ]);
      await expect(validate('globex')).rejects.toMatchObject({ reason, tenant: 'globex' });
    }
  });
});

function servicesOf(context: INestApplicationContext): {
  registry: TenantRegistry;
  clock: Clock;
} {
  return {
    registry: context.get(TenantRegistry),
    clock: context.get(Clock, { strict: false }),
  };
}
