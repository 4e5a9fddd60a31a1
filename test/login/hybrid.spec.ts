import { afterAll, beforeAll, describe, expect, it } from '@jest/globals';
import { Module, type LoggerService } from '@nestjs/common';
import { NestFactory } from '@nestjs/core';
import { ExhibitorModule, type TenantOptions } from '../../lib/index.js';
import type { ExhibitorSandbox } from '../../lib/testing/index.js';
import { ScriptedProvider } from '../support/provider.js';
import { COOKIE_SECRET, HOST_KINDS, startHost } from '../support/host.js';
import { formFields, Visitor } from '../support/visitor.js';
import { HYBRID } from './flows.js';
import { expectRefusal, identityOf, logIn, toHost, toProvider } from './journey.js';
import { startSandbox } from '../support/sandbox.js';

class Warnings implements LoggerService {
  readonly lines: string[] = [];
  warn(line: string): void {
    this.lines.push(line);
  }
  log(): void {}
  error(): void {}
}

async function warningsAtBoot(tenants: Record<string, TenantOptions>): Promise<string[]> {
  @Module({ imports: [ExhibitorModule.forRoot({ tenants, secrets: [COOKIE_SECRET] })] })
  class AppModule {}
  const logger = new Warnings();
  const app = await NestFactory.createApplicationContext(AppModule, { logger, abortOnError: false });
  await app.close();
  return logger.lines;
}

let sandbox: ExhibitorSandbox;
let provider: ScriptedProvider;
beforeAll(async () => {
  sandbox = await startSandbox();
  provider = await ScriptedProvider.start();
});
afterAll(async () => {
  await sandbox?.stop();
  await provider?.stop();
});

describe.each(HOST_KINDS)('a hybrid login at the certified provider, on %s', (kind) => {
  it.each(HYBRID)('completes %s by form_post with 303', async (responseType) => {
    const host = await startHost({
      kind,
      options: (redirectUri) => ({
        tenant: sandbox.tenantOptions('acme', { redirectUri, responseType }),
        secrets: [COOKIE_SECRET],
      }),
    });
    sandbox.signInAs('olga.one@example.com');
    const visitor = new Visitor();
    // The sandbox redirects between its own pages, which the visitor follows.
    const page = await visitor.follow(`${host.url}/auth/login?returnTo=/mine`);
    const { action, fields } = formFields(page.text);
    expect(Object.keys(fields)).toEqual(expect.arrayContaining(['code', 'id_token', 'state']));
    expect('access_token' in fields).toBe(responseType === 'code token id_token');
    const reply = await visitor.visit(action, { form: fields });
    expect([reply.status, reply.location]).toEqual([303, `${host.url}/mine`]);
    expect(reply.headers.get('cache-control')).toBe('no-store');
    expect(await identityOf(visitor, host)).toMatchObject({ subject: 'olga.one' });
    await host.close();
  });
});

describe('a hybrid login', () => {
  it('drops the front-channel access token: userinfo is requested with the one of the token endpoint', async () => {
    const host = await startHost({
      options: (callback) => ({
        tenant: provider.tenantOptions(callback, { responseType: 'code token id_token' }),
        secrets: [COOKIE_SECRET],
      }),
    });
    provider.script = { email: 'userinfo' };
    const visitor = new Visitor();
    const arrival = await toProvider(visitor, host);
    expect((await toHost(visitor, arrival)).status).toBe(303);
    const sent = provider.last('/connect/userinfo').headers.authorization;
    expect(sent).toMatch(/^Bearer \S+$/);
    expect(sent).not.toBe(`Bearer ${arrival.parameters.get('access_token')}`);
    provider.script = {};
    await host.close();
  });

  it('redeems no code whose front-channel ID token is refused', async () => {
    const host = await startHost({
      options: (callback) => ({
        tenant: provider.tenantOptions(callback, { responseType: 'code id_token' }),
        secrets: [COOKIE_SECRET],
      }),
    });
    provider.script = { frontToken: { claims: (claims) => void (claims['nonce'] = 'of-another-login') } };
    const before = provider.count('/connect/token');
    expectRefusal(await logIn(new Visitor(), host), 'nonce');
    expect(provider.count('/connect/token')).toBe(before);
    provider.script = {};
    await host.close();
  });

  it('is advised against at startup, once for each tenant', async () => {
    const callback = 'http://127.0.0.1:3000/auth/callback';
    expect(
      await warningsAtBoot({
        plain: provider.tenantOptions(callback),
        one: provider.tenantOptions(callback, { responseType: 'code id_token' }),
        two: provider.tenantOptions(callback, { responseType: 'code token id_token' }),
      }),
    ).toEqual([
      expect.stringMatching(/^tenant one: .*'code id_token'.*'code' is recommended$/),
      expect.stringMatching(/^tenant two: .*'code token id_token'.*'code' is recommended$/),
    ]);
    expect(await warningsAtBoot({ plain: provider.tenantOptions(callback) })).toEqual([]);
  });

  it.each(['token', 'id_token', 'id_token token', 'code token', 'none'])(
    'excludes other response types: %s is refused at startup',
    async (responseType) => {
      const tenant = provider.tenantOptions('http://127.0.0.1:3000/auth/callback');
      Object.assign(tenant.login ?? {}, { responseType });
      await expect(warningsAtBoot({ tenant })).rejects.toMatchObject({ code: 'configuration_invalid' });
    },
  );
});
