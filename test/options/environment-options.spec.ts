import { Logger } from '@nestjs/common';
import { Test } from '@nestjs/testing';
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it, jest } from '@jest/globals';
import fc from 'fast-check';
import { firstValueFrom } from 'rxjs';
import {
  ConfigurationError,
  exhibitorOptionsFrom,
  ExhibitorModule,
  ExhibitorsService,
  type ExhibitorModuleOptions,
} from '../../lib/index.js';
import { HOST_VARIABLES, SECRET_VARIABLE } from '../../lib/model/host-variables.js';
import { help as doctorHelp } from '../../lib/doctor/doctor.command.js';
import type { ExhibitorSandbox } from '../../lib/testing/index.js';
import { PAGES, readPage } from '../structure/readme.js';
import { startSandbox } from '../support/sandbox.js';

const NAMES = Object.values(HOST_VARIABLES);
const LOADED = 'no variable of these is set: is the file loaded? Node reads it by node --env-file=FILE';

describe('exhibitorOptionsFrom', () => {
  let sandbox: ExhibitorSandbox;
  let warned: string[];
  beforeAll(async () => {
    sandbox = await startSandbox();
  });
  beforeEach(() => {
    warned = [];
    jest.spyOn(Logger.prototype, 'warn').mockImplementation((line) => void warned.push(String(line)));
  });
  afterEach(() => void jest.restoreAllMocks());
  afterAll(() => sandbox?.stop());

  /** The wrong variables, and what is wrong with them. */
  function problemsOf(read: () => unknown): string[] {
    try {
      read();
    } catch (error) {
      if (error instanceof ConfigurationError) {
        const hints = error.message.endsWith(LOADED) ? [LOADED] : [];
        return [...hints, ...error.problems.map(({ path, expected }) => `${path} ${expected}`.trim())];
      }
      throw error;
    }
    return [];
  }

  async function readPageWith(options: ExhibitorModuleOptions, tenant?: string): Promise<number> {
    const imports = [ExhibitorModule.forRootAsync({ useFactory: () => options })];
    const module = await Test.createTestingModule({ imports }).compile();
    const page = await firstValueFrom(module.get(ExhibitorsService).list('world-2026', { tenant }));
    await module.close();
    return page.paginationMetadata.totalCount;
  }

  it('reads a tenant with a login and secrets, as the module takes them', async () => {
    const env = sandbox.environment('acme');
    const options = exhibitorOptionsFrom(env);
    const { responseType: _, ...login } = sandbox.tenantOptions('acme', { keys: 'url' }).login;
    expect(options).toEqual({
      tenant: { ...sandbox.tenantOptions('acme'), login },
      secrets: [env['COOKIE_SECRET']],
    });
    expect(await readPageWith({ ...options })).toBe(1234);
    expect(warned).toEqual([]);
  });

  it('reads several tenants by prefix, with one COOKIE_SECRET or one with the prefix', async () => {
    const env = {
      ...sandbox.environment('acme', { prefix: 'ACME_' }),
      ...sandbox.environment('globex', { prefix: 'GLOBEX_' }),
    };
    const { tenant: acme, secrets } = exhibitorOptionsFrom(env, { prefix: 'ACME_' });
    const { tenant: globex } = exhibitorOptionsFrom(env, { prefix: 'GLOBEX_' });
    expect([acme.clientId, globex.clientId, secrets]).toEqual([
      'acme-api',
      'globex-api',
      [env['COOKIE_SECRET']],
    ]);
    expect(await readPageWith({ tenants: { acme, globex }, secrets }, 'globex')).toBe(1234);
    const own = { ...env, ACME_COOKIE_SECRET: 'own' };
    expect(exhibitorOptionsFrom(own, { prefix: 'ACME_' }).secrets).toEqual(['own']);
    expect(warned).toEqual([]);
  });

  it('takes a PEM in one line, and a login client without a secret', async () => {
    const env = {
      ...sandbox.environment('acme', { publicClient: true }),
      IDP_PUBLIC_KEY: sandbox.publicKeyPem.replaceAll('\n', String.raw`\n`),
    };
    const options = exhibitorOptionsFrom(env);
    expect(options.tenant.login).toMatchObject({ clientId: 'acme-app', clientSecret: undefined });
    expect(await readPageWith(options)).toBe(1234);
  });

  it('names missing and empty variables together', () => {
    const { TENANT_ID: _, ...env } = sandbox.environment('acme');
    const broken = { ...env, BASE_URL: '', LOGIN_CLIENT_SECRET: '', ISSUER: ' \n', COOKIE_SECRET: undefined };
    expect(problemsOf(() => exhibitorOptionsFrom(broken))).toEqual([
      'TENANT_ID is not set',
      'BASE_URL is empty',
      'LOGIN_CLIENT_SECRET is empty',
      'ISSUER is empty',
      'COOKIE_SECRET is not set',
    ]);
  });

  it('warns about values in quotes, which readers of env files other than that of Node.js keep', () => {
    const env = sandbox.environment('acme', { prefix: 'ACME_' });
    const quoted = { ...env, ACME_TENANT_ID: '"guid"', ACME_API_CLIENT_SECRET: "'s'", COOKIE_SECRET: '`x`' };
    exhibitorOptionsFrom(quoted, { prefix: 'ACME_' });
    const suffix = 'begins and ends with a quote, which is part of its value: docker --env-file keeps quotes';
    expect(warned).toEqual(
      ['ACME_TENANT_ID', 'ACME_API_CLIENT_SECRET', 'COOKIE_SECRET'].map((name) => `${name} ${suffix}`),
    );
    warned = [];
    const others = { ACME_TENANT_ID: '"', ACME_API_CLIENT_SECRET: `"it's'`, COOKIE_SECRET: 'a"b"' };
    exhibitorOptionsFrom({ ...env, ...others }, { prefix: 'ACME_' });
    expect(warned).toEqual([]);
  });

  it.each(['', 'ACME_'] as const)(
    'asks whether the file is loaded where no variable with %j is set',
    (prefix) => {
      const required = NAMES.filter((name) => name !== 'LOGIN_CLIENT_SECRET');
      for (const env of [{}, { PATH: '/bin', COOKIE_SECRET: 'x' }, undefined as never]) {
        const missing = required.map((name) => `${prefix}${name} is not set`);
        const secret = env?.['COOKIE_SECRET'] ? [] : ['COOKIE_SECRET is not set'];
        expect(problemsOf(() => exhibitorOptionsFrom(env, { prefix }))).toEqual([
          LOADED,
          ...missing,
          ...secret,
        ]);
      }
    },
  );

  it('warns about unknown names with the prefix, and says the known one that is near', () => {
    const env = sandbox.environment('acme', { prefix: 'ACME_' });
    const { ACME_LOGIN_CLIENT_SECRET: secret, ...others } = env;
    const typos = {
      ACME_LOGIN_CLIENTID: 'x',
      ACME_LOGIN_CLIENTSECRET: secret,
      ACME_LOGIN_ISSUER: 'x',
      ACME_login_redirect_uri: 'x',
      ACME_CLIENT_ID: 'x',
      ACME_DATABASE_URL: 'x',
      ACME_REPORTS: 'x',
      ACME_: 'x',
      LOGIN_CLIENTID: 'x',
    };
    exhibitorOptionsFrom({ ...others, ...typos }, { prefix: 'ACME_' });
    expect(warned).toEqual([
      'ACME_LOGIN_CLIENTID is not read: is ACME_LOGIN_CLIENT_ID meant?',
      'ACME_LOGIN_CLIENTSECRET is not read: is ACME_LOGIN_CLIENT_SECRET meant?',
      'ACME_LOGIN_ISSUER is not read: is ACME_ISSUER meant?',
      'ACME_login_redirect_uri is not read: is ACME_REDIRECT_URI meant?',
      'ACME_CLIENT_ID is not read',
      'ACME_DATABASE_URL is not read',
      'ACME_REPORTS is not read',
      'ACME_ is not read',
    ]);
  });

  it('does not warn about what Kubernetes sets for a service whose name begins with the prefix', () => {
    const links = [
      'ACME_PORT',
      'ACME_PORT_80_TCP',
      'ACME_PORT_80_TCP_ADDR',
      'ACME_SERVICE_HOST',
      'ACME_SERVICE_PORT',
      'ACME_SERVICE_PORT_HTTP',
      'ACME_WEB_PORT',
      'ACME_WEB_PORT_443_TCP_PROTO',
      'ACME_WEB_SERVICE_HOST',
    ];
    const env = sandbox.environment('acme', { prefix: 'ACME_' });
    exhibitorOptionsFrom(
      { ...env, ...Object.fromEntries(links.map((name) => [name, 'x'])) },
      { prefix: 'ACME_' },
    );
    expect(warned).toEqual([]);
  });

  it('warns without a prefix only about what is nearly the name of a variable that is not set', () => {
    const others = {
      PATH: '/bin',
      DATABASE_URL: 'x',
      TENANT_NAME: 'x',
      LOGIN_PATH: 'x',
      USER: 'x',
      BASE_URI: 'x',
    };
    const env = { ...sandbox.environment('acme'), ...others };
    exhibitorOptionsFrom(env);
    expect(warned).toEqual([]);
    exhibitorOptionsFrom({ ...env, LOGIN_CLIENT_SECRET: undefined, LOGIN_CLIENTSECRET: 'x' });
    expect(warned).toEqual(['LOGIN_CLIENTSECRET is not read: is LOGIN_CLIENT_SECRET meant?']);
    warned = [];
    expect(problemsOf(() => exhibitorOptionsFrom({ ...env, BASE_URL: undefined }))).toEqual([
      'BASE_URL is not set',
    ]);
    expect(warned).toEqual(['BASE_URI is not read: is BASE_URL meant?']);
  });

  it('neither crashes on an environment of rubbish nor shows a value of it', () => {
    const name = fc.oneof(
      fc.constantFrom(...NAMES, SECRET_VARIABLE, '__proto__', 'constructor', 'toString'),
      fc.string({ unit: 'binary' }),
    );
    const value = fc.oneof(fc.constant(undefined), fc.string({ unit: 'binary' }), fc.anything());
    const environment = fc.tuple(
      fc.constantFrom('' as const, 'A_' as const, '_' as const),
      fc.dictionary(name, value),
    );
    fc.assert(
      fc.property(environment, ([prefix, variables]) => {
        const secret = 'eyJzZWNyZXQ of someone';
        const env = Object.fromEntries(
          Object.entries({ ...variables, ISSUER: secret }).map(([key, one]) => [prefix + key, one]),
        );
        warned = [];
        let shown = '';
        try {
          expect(exhibitorOptionsFrom(env as never, { prefix }).tenant).toHaveProperty('login');
        } catch (error) {
          expect(error).toBeInstanceOf(ConfigurationError);
          shown = String(error);
        }
        expect(warned.length).toBeLessThanOrEqual(20);
        expect([shown, ...warned].join()).not.toContain(secret);
      }),
      { numRuns: 300 },
    );
    const many = Object.fromEntries(
      Array.from({ length: 5_000 }, (_, index) => [`A_${index}${'x'.repeat(200)}`, 's']),
    );
    const began = performance.now();
    expect(problemsOf(() => exhibitorOptionsFrom(many, { prefix: 'A_' }))[0]).toBe(LOADED);
    expect(performance.now() - began).toBeLessThan(5_000);
  });
});

describe('the names of the variables', () => {
  it('are those of the sandbox, of the help of the doctor and of the documents', () => {
    const named = [...readPage('docs/getting-started.md').matchAll(/^\| (`[A-Z_`, ]+`) +\|/gm)].flatMap(
      ([, cell = '']) => [...cell.matchAll(/`(\w+)`/g)].map(([, name]) => name),
    );
    expect(named).toEqual([...NAMES, SECRET_VARIABLE]);
    const inHosts = PAGES.flatMap((page) =>
      [...readPage(page).matchAll(/\benv\('(\w+)'\)/g)].map(([, name]) => name),
    );
    expect(inHosts.length).toBeGreaterThan(4);
    expect(inHosts.filter((name) => !named.includes(name))).toEqual([]);
    expect(NAMES.filter((name) => !doctorHelp.includes(name))).toEqual([]);
  });
});
