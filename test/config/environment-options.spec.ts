import { Test } from '@nestjs/testing';
import { describe, expect, it } from '@jest/globals';
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
import { help as doctorHelp } from '../../lib/development/doctor/doctor.command.js';
import { PAGES, readPage } from '../structure/readme.js';
import { anyText } from '../support/any-text.js';
import { useSandbox } from '../support/lifetimes.js';
import { loggedLines } from '../support/logged-lines.js';
import { publicPemOf } from '../support/sandbox.js';

const NAMES = Object.values(HOST_VARIABLES);
const LOADED = 'no variable of these is set: is the file loaded? Node reads it by node --env-file=FILE';

const sandbox = await useSandbox();

describe('exhibitorOptionsFrom', () => {
  const { warnings } = loggedLines();

  /** The wrong variables, and what is wrong with them. */
  function problemsOf(read: () => unknown): string[] {
    try {
      read();
    } catch (error) {
      if (error instanceof ConfigurationError) {
        return error.problems.map(({ path, expected }) => `${path} ${expected}`.trim());
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
    expect(warnings).toEqual([]);
  });

  it('reads several tenants by prefix, with one COOKIE_SECRET or one with the prefix', async () => {
    const env = {
      ...sandbox.environment('acme', { prefix: 'ACME_' }),
      ...sandbox.environment('globex', { prefix: 'GLOBEX_' }),
    };
    const { tenant: acme, secrets } = exhibitorOptionsFrom(env, { prefix: 'ACME_' });
    const { tenant: globex } = exhibitorOptionsFrom(env, { prefix: 'GLOBEX_' });
    const read = [acme.clientId, globex.clientId, secrets];
    expect(read).toEqual(['acme-api', 'globex-api', [env['COOKIE_SECRET']]]);
    expect(await readPageWith({ tenants: { acme, globex }, secrets }, 'globex')).toBe(1234);
    const own = { ...env, ACME_COOKIE_SECRET: 'own' };
    expect(exhibitorOptionsFrom(own, { prefix: 'ACME_' }).secrets).toEqual(['own']);
    expect(warnings).toEqual([]);
  });

  it('reads two secrets during a rotation, and a secret with spaces as one', () => {
    const read = (secret: string) =>
      exhibitorOptionsFrom({ ...sandbox.environment('acme'), COOKIE_SECRET: secret }).secrets;
    const [old, next] = ['o'.repeat(32), 'n'.repeat(44)];
    expect(read(`${old} ${next}`)).toEqual([old, next]);
    expect(read(` ${next}  ${old}\n`)).toEqual([next, old]);
    const phrase = 'a phrase of short words, and long enough for a secret';
    expect(read(phrase)).toEqual([phrase]);
    // As `openssl rand -base64 72` prints it.
    const wrapped = `${'w'.repeat(64)}\n${next}`;
    expect(read(wrapped)).toEqual([wrapped]);
    expect(problemsOf(() => read(`${next} ${'o'.repeat(28)}`))).toEqual([
      'COOKIE_SECRET has spaces: each secret must have at least 32 characters',
    ]);
  });

  it('takes a PEM in one line, a login client without a secret, and values with line breaks', async () => {
    const env = {
      ...sandbox.environment('acme', { publicClient: true }),
      IDP_PUBLIC_KEY: publicPemOf(sandbox).replaceAll('\n', String.raw`\n`),
    };
    const options = exhibitorOptionsFrom(env);
    expect(options.tenant.login).toMatchObject({ clientId: 'acme-app', clientSecret: undefined });
    const ofWindows = Object.entries(env).map(([name, value]) => [name, ` ${value}\r\n`]);
    expect(exhibitorOptionsFrom(Object.fromEntries(ofWindows))).toEqual(options);
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

  it.each(['', 'ACME_'] as const)(
    'asks whether the file is loaded where no variable with %j is set',
    (prefix) => {
      const required = NAMES.filter((name) => name !== 'LOGIN_CLIENT_SECRET');
      const missing = required.map((name) => `${prefix}${name} is not set`);
      const problems = problemsOf(() => exhibitorOptionsFrom({ PATH: '/bin' }, { prefix }));
      expect(problems).toEqual([...missing, 'COOKIE_SECRET is not set', LOADED]);
    },
  );

  it('names the variables with the prefix that it does not read, in one line', () => {
    const env = sandbox.environment('acme', { prefix: 'ACME_' });
    exhibitorOptionsFrom({ ...sandbox.environment('acme'), LOGIN_CLIENTID: 'x' });
    exhibitorOptionsFrom({ ...env, LOGIN_CLIENTID: 'x' }, { prefix: 'ACME_' });
    expect(warnings).toEqual([]);
    const others = { ACME_LOGIN_CLIENTID: 'x', ACME_DATABASE_URL: 'x', ACME_: 'x' };
    exhibitorOptionsFrom({ ...env, ...others }, { prefix: 'ACME_' });
    expect(warnings).toEqual([
      'not read, since no variable has this name: ACME_LOGIN_CLIENTID, ACME_DATABASE_URL, ACME_',
    ]);
  });

  it('names no variable of a longer prefix, whose own call names what it does not read', () => {
    const env = {
      ...sandbox.environment('acme', { prefix: 'ACME_' }),
      ...sandbox.environment('globex', { prefix: 'ACME_EU_' }),
    };
    exhibitorOptionsFrom(env, { prefix: 'ACME_' });
    exhibitorOptionsFrom(env, { prefix: 'ACME_EU_' });
    expect(warnings).toEqual([]);
    const wrong = { ACME_EU_LOGIN_CLIENTID: 'x', ACME_OIDC_ISSUER: 'x', ACME_EUISSUER: 'x' };
    exhibitorOptionsFrom({ ...env, ...wrong }, { prefix: 'ACME_' });
    exhibitorOptionsFrom({ ...env, ...wrong }, { prefix: 'ACME_EU_' });
    expect(warnings).toEqual([
      'not read, since no variable has this name: ACME_OIDC_ISSUER, ACME_EUISSUER',
      'not read, since no variable has this name: ACME_EU_LOGIN_CLIENTID',
    ]);
  });

  it.each<[what: string, ofTenant: '' | `${string}_`, others: Record<string, string>, unread: string[]]>([
    ['the prefix is another one', 'ACME_PROD_', {}, NAMES.map((name) => `ACME_PROD_${name}`)],
    ['the prefix has one more _', 'ACME__', {}, NAMES.map((name) => `ACME__${name}`)],
    [
      'a longer prefix begins names of this tenant',
      'ACME_',
      { ACME_LOGIN_TENANT_ID: 'x', ACME_LOGIN_CLIENT_SECRETT: 'x' },
      ['ACME_LOGIN_TENANT_ID', 'ACME_LOGIN_CLIENT_SECRETT'],
    ],
  ])('names variables that another call may not read: %s', (_, prefix, others, unread) => {
    const env = { ...sandbox.environment('acme', { prefix }), ...others };
    const problems = problemsOf(() => exhibitorOptionsFrom(env, { prefix: 'ACME_' }));
    expect(problems.includes('ACME_TENANT_ID is not set')).toBe(prefix !== 'ACME_');
    expect(warnings).toHaveLength(1);
    const named = warnings[0]?.replace('not read, since no variable has this name: ', '').split(', ');
    expect(named?.toSorted()).toEqual(unread.toSorted());
  });

  it('neither crashes on an environment of rubbish nor shows a value of it', () => {
    const name = fc.oneof(
      fc.constantFrom(...NAMES, SECRET_VARIABLE, '__proto__', 'constructor', 'toString'),
      anyText(),
    );
    const value = fc.oneof(fc.constant(undefined), anyText(), fc.anything());
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
        warnings.length = 0;
        let shown = '';
        try {
          expect(exhibitorOptionsFrom(env as never, { prefix }).tenant).toHaveProperty('login');
        } catch (error) {
          expect(error).toBeInstanceOf(ConfigurationError);
          shown = String(error);
        }
        expect([shown, ...warnings].join()).not.toContain(secret);
      }),
      { numRuns: 60 },
    );
  });
});

describe('the names of the variables', () => {
  it('are those of the sandbox, of the help of the doctor and of the documents', () => {
    const named = [...readPage('docs/onboarding.md').matchAll(/\| (`[A-Z_`, ]+`) +\|$/gm)].flatMap(
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
