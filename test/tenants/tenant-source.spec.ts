import { createPrivateKey, generateKeyPairSync, type KeyPairKeyObjectResult } from 'node:crypto';
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it, jest } from '@jest/globals';
import { Logger, type INestApplicationContext } from '@nestjs/common';
import { NestFactory } from '@nestjs/core';
import { firstValueFrom } from 'rxjs';
import { Agent } from 'undici';
import {
  ConfigurationError,
  ExhibitorError,
  ExhibitorModule,
  ExhibitorsService,
  isExhibitorError,
  TenantRegistry,
  TokenService,
  type TenantOptions,
} from '../../lib/index.js';
import type { ExhibitorSandbox } from '../../lib/testing/index.js';
import { checkOptions } from '../../lib/options/check-options.js';
import { clockOf, TestClock } from '../support/clock.js';
import { COOKIE_SECRET } from '../support/host.js';
import { stall } from '../support/faults.js';
import { startSandbox } from '../support/sandbox.js';
import { pause } from '../support/wait.js';
import type { OtherOptions } from '../support/module-options.js';
import { registryOf as tenantsOf } from '../support/registry.js';

type Answer = TenantOptions | undefined | Promise<TenantOptions | undefined>;

let sandbox: ExhibitorSandbox;
let app: INestApplicationContext | undefined;
beforeAll(async () => {
  sandbox = await startSandbox();
});
afterAll(() => sandbox?.stop());
beforeEach(() => sandbox.clearRequests());
afterEach(async () => {
  await app?.close();
  app = undefined;
});

/** Options of a host whose tenants come from this function; records the requested keys. */
function optionsFor(find: (key: string) => Answer, others: OtherOptions) {
  const asked: string[] = [];
  const source = {
    find: (key: string): Answer => {
      asked.push(key);
      return find(key);
    },
  };
  const secrets = [COOKIE_SECRET];
  return { asked, options: { tenants: source, allowedOrigins: () => true, secrets, ...others } };
}

/** The registry of such a host. Its clock is moved by hand. */
function registryOf(find: (key: string) => Answer, others: OtherOptions = {}) {
  const { asked, options } = optionsFor(find, others);
  const clock = new TestClock();
  const skip = (ms = 60_001): void => void (clock.ahead += ms);
  return { asked, skip, registry: tenantsOf(checkOptions(options), clock) };
}

/** Such a host. */
async function boot(find: (key: string) => Answer, others: OtherOptions = {}) {
  const { asked, options } = optionsFor(find, others);
  const { skip } = clockOf(
    (app = await NestFactory.createApplicationContext(ExhibitorModule.forRoot(options), {
      logger: false,
      abortOnError: false,
    })),
  );
  return {
    asked,
    skip,
    /** Moves the clock over the ttl of a tenant. */
    expire: (): void => skip(60_001),
    registry: app.get(TenantRegistry),
    tokens: app.get(TokenService),
    exhibitors: app.get(ExhibitorsService),
  };
}

/** Options of a tenant without a login. */
function apiOnly(key: string): TenantOptions {
  const { login: _, ...options } = sandbox.tenantOptions(key);
  return options;
}

/** The options of the tenants of the sandbox, read each time as from a database. */
function fromDatabase(key: string): TenantOptions | undefined {
  return sandbox.tenants.some((tenant) => tenant.key === key) ? sandbox.tenantOptions(key) : undefined;
}

async function failureOf(call: Promise<unknown>): Promise<ExhibitorError> {
  try {
    await call;
  } catch (error) {
    if (isExhibitorError(error)) {
      return error;
    }
    throw error;
  }
  throw new Error('the call did not fail');
}

const tokenRequests = (): number => sandbox.requests.filter(({ operation }) => operation === 'token').length;

const noSuchCustomer = new ExhibitorError('unknown_tenant', 'no such customer');

describe('tenants of a source', () => {
  it.each([
    ['at once', fromDatabase],
    ['later', async (key: string) => fromDatabase(key)],
  ])('are found %s, each at its first use, with one call', async (_, find) => {
    const { asked, exhibitors, registry } = await boot(find);
    for (const tenant of ['acme', 'globex', 'acme']) {
      const { data } = await firstValueFrom(exhibitors.list('boutique-2026', { tenant }));
      expect(data[0]?.['id']).toBe(`${tenant}-boutique-2026-0001`);
    }
    expect(asked).toEqual(['acme', 'globex']);
    expect(await registry.get('acme')).toMatchObject({ key: 'acme', baseUrl: sandbox.url });
  });

  it.each([
    ['undefined', () => undefined],
    ['null', () => null as unknown as undefined],
    ['an error that says so', () => Promise.reject(noSuchCustomer)],
  ])('that are not found (%s) are unknown, and remembered as such', async (_, find) => {
    const { asked, registry } = registryOf(find);
    for (const call of [registry.get('nobody'), registry.get('nobody')]) {
      expect(await failureOf(call)).toMatchObject({ code: 'unknown_tenant', tenant: 'nobody' });
    }
    expect((await failureOf(registry.get('nobody'))).code).toBe('unknown_tenant');
    expect(asked).toEqual(['nobody']);
  });

  it.each([
    ['cannot be found', () => undefined, 'unknown_tenant'],
    ['cannot be looked for', () => Promise.reject(DATABASE_DOWN), 'service_unavailable'],
    ['have wrong options', () => ({}) as TenantOptions, 'configuration_invalid'],
  ])('that %s are named by errors in a short form', async (_, find, code) => {
    const { registry } = registryOf(find);
    for (const [key, tenant] of [
      ['a\nb', 'a b'],
      ['zoe.private@example.com', '[removed]'],
      ['n'.repeat(120), `${'n'.repeat(100)}…`],
    ] as const) {
      const failure = await failureOf(registry.get(key));
      expect(failure).toMatchObject({ code, tenant });
      expect(failure.message).not.toContain(key);
    }
  });

  it('have keys of 1 to 128 bytes: the source is not asked for others', async () => {
    const { asked, registry } = registryOf(() => undefined);
    for (const key of ['', 'x'.repeat(129), 'ü'.repeat(65), 'x'.repeat(1_000_000)]) {
      const failure = await failureOf(registry.get(key));
      expect(failure.code).toBe('unknown_tenant');
      expect(String(failure.tenant).length).toBeLessThan(102);
    }
    expect(asked).toEqual([]);
    const longest = 'ü'.repeat(64);
    expect(await failureOf(registry.get(longest))).toMatchObject({ code: 'unknown_tenant' });
    expect(asked).toEqual([longest]);
  });

  it('must be named, and exist', async () => {
    const { exhibitors, tokens, asked } = await boot(fromDatabase);
    for (const [tenant, code] of [
      [undefined, 'tenant_required'],
      ['nobody', 'unknown_tenant'],
    ] as const) {
      expect((await failureOf(tokens.getToken({ tenant }))).code).toBe(code);
      const call = firstValueFrom(exhibitors.list('boutique-2026', { tenant }));
      expect((await failureOf(call)).code).toBe(code);
    }
    expect(asked).toEqual(['nobody']);
    expect(sandbox.requests).toHaveLength(0);
  });

  it.each([
    [
      'throws',
      (): Answer => {
        throw DATABASE_DOWN;
      },
    ],
    ['rejects', (): Answer => Promise.reject(DATABASE_DOWN)],
  ])('are unavailable where it %s, with its error as the cause', async (_, find) => {
    let isDown = true;
    const { registry } = registryOf((key) => (isDown ? find() : fromDatabase(key)));
    const failure = await failureOf(registry.get('acme'));
    expect(failure).toMatchObject({ code: 'service_unavailable', tenant: 'acme' });
    expect(failure.cause).toBe(DATABASE_DOWN);
    isDown = false;
    expect(await registry.get('acme')).toMatchObject({ key: 'acme' });
  });

  it('are unavailable at the deadline where it does not answer', async () => {
    let isSilent = true;
    const { registry, tokens, exhibitors } = await boot(
      (key) => (isSilent ? new Promise(() => undefined) : fromDatabase(key)),
      { http: { deadline: 150 } },
    );
    const calls = [
      registry.get('acme'),
      tokens.getToken({ tenant: 'acme' }),
      firstValueFrom(exhibitors.list('boutique-2026', { tenant: 'acme' })),
    ];
    for (const call of calls.map(failureOf)) {
      expect((await call).code).toBe('deadline_exceeded');
    }
    isSilent = false;
    expect(await registry.get('acme')).toMatchObject({ key: 'acme' });
  });

  it('are found within the deadline of the call, over the search and the token request together', async () => {
    const find = async (key: string) => pause(900).then(() => apiOnly(key));
    const { tokens } = await boot(find, { http: { deadline: 1_000, attempts: 1 } });
    sandbox.failNext('token', stall('before-headers'));
    const began = performance.now();
    expect(await failureOf(tokens.getToken({ tenant: 'acme' }))).toMatchObject({
      code: 'deadline_exceeded',
      tenant: 'acme',
    });
    expect(performance.now() - began).toBeLessThan(1_800);
    sandbox.clearFaults();
  });

  it('are checked when they are found, and all problems are reported', async () => {
    const { registry } = registryOf((key) => ({
      ...apiOnly('acme'),
      baseUrl: 'http://api.example',
      tenantId: `${key}\r\nX-Tenant-Id: other`,
    }));
    const failure = await failureOf(registry.get('wrong'));
    expect(failure).toBeInstanceOf(ConfigurationError);
    expect(failure).toMatchObject({ code: 'configuration_invalid', tenant: 'wrong' });
    const { problems } = failure as ConfigurationError;
    expect(problems.map(({ path }) => path).toSorted()).toEqual([
      'tenants.wrong.baseUrl',
      'tenants.wrong.tenantId',
    ]);
  });

  it('name no option as it is: customers may write them', async () => {
    const forged = `x\n[Nest] 1  - ERROR forged \u001b[31m ${'y'.repeat(100_000)}`;
    const { registry } = registryOf(() => ({ ...apiOnly('acme'), [forged]: 1 }));
    const { message } = await failureOf(registry.get('wrong'));
    expect(message).toContain('tenants.wrong.x [Nest] 1  - ERROR forged  [31m yyy');
    expect(message.length).toBeLessThan(500);
  });

  it('must be on the allowed origins, like those of the options', async () => {
    const { registry } = registryOf(() => ({ ...apiOnly('acme'), baseUrl: 'https://elsewhere.example' }), {
      allowedOrigins: [sandbox.url],
    });
    expect(String(await failureOf(registry.get('acme')))).toContain(
      'tenants.acme.baseUrl: must be on one of allowedOrigins',
    );
  });

  it('have no larger http limits than the module', async () => {
    const http = {
      deadline: 5_000,
      attemptTimeout: 500,
      attempts: 1,
      maxResponseBytes: 4_096,
      maxConcurrent: 2,
    };
    const dispatcher = (): Agent => new Agent();
    let tenant: TenantOptions['http'] = {
      deadline: 2 ** 31 - 1,
      attemptTimeout: 499,
      attempts: 10,
      maxResponseBytes: 2 ** 30,
      maxConcurrent: 10_000,
      dispatcher,
    };
    const find = (key: string) => ({ ...apiOnly(key), http: tenant });
    const { registry, tokens, asked, expire } = await boot(find, { http });
    const found = await registry.get('acme');
    expect(found.http).toEqual({ ...http, attemptTimeout: 499, dispatcher });
    sandbox.failNext('token', { kind: 'status', status: 503 });
    expect(await failureOf(tokens.getToken({ tenant: 'acme' }))).toMatchObject({ status: 503, attempts: 1 });
    tenant = { ...tenant };
    expire();
    expect((await registry.get('acme')).stateKey).toBe(found.stateKey);
    expect(asked.length).toBeGreaterThan(1);
    tenant = { ...http, deadline: 100 };
    expect((await registry.get('globex')).http).toEqual({ ...http, deadline: 100 });
  });

  it('are requested once for concurrent callers', async () => {
    const { asked, registry, tokens } = await boot(async (key) => {
      await pause(20);
      return fromDatabase(key);
    });
    const found = await Promise.all(Array.from({ length: 100 }, () => registry.get('acme')));
    await Promise.all(Array.from({ length: 100 }, () => tokens.getToken({ tenant: 'acme' })));
    expect(new Set(found).size).toBe(1);
    expect(asked).toEqual(['acme']);
    expect(tokenRequests()).toBe(1);
  });
});

describe('a tenant whose ttl is over', () => {
  it('is read again, and keeps its token and cached lookups where nothing changed', async () => {
    const { asked, skip, tokens, exhibitors } = await boot(fromDatabase, { tenantCache: { ttl: 1_000 } });
    const lookup = () =>
      firstValueFrom(exhibitors.lookup('world-2026', 'sam.several@example.com', { tenant: 'acme' }));
    const { accessToken } = await tokens.getToken({ tenant: 'acme' });
    await lookup();
    skip(1_001);
    expect((await tokens.getToken({ tenant: 'acme' })).accessToken).toBe(accessToken);
    expect(await lookup()).toHaveLength(3);
    expect(asked.length).toBeGreaterThan(1);
    expect(tokenRequests()).toBe(1);
    expect(sandbox.requests.filter(({ operation }) => operation === 'lookup')).toHaveLength(1);
  });

  /** Options with a key to verify with and one to sign with, each created again. */
  function withKeys({ publicKey, privateKey }: KeyPairKeyObjectResult): TenantOptions {
    const { clientSecret: _, ...login } = sandbox.tenantOptions('acme').login;
    const pem = String(publicKey.export({ type: 'spki', format: 'pem' }));
    const clientAuth = { privateKey: createPrivateKey(privateKey.export({ type: 'pkcs8', format: 'pem' })) };
    return { ...apiOnly('acme'), login: { ...login, keys: pem, clientAuth, authorize: () => true } };
  }
  const keys = generateKeyPairSync('ec', { namedCurve: 'P-256' });
  const otherKeys = generateKeyPairSync('ec', { namedCurve: 'P-256' });

  it.each<[what: string, options: () => TenantOptions]>([
    [
      'a function for the secret',
      () => ({ ...apiOnly('acme'), clientSecret: async () => sandbox.tenantOptions('acme').clientSecret }),
    ],
    ['keys as PEM and as KeyObject', () => withKeys(keys)],
    ['http options', () => ({ ...apiOnly('acme'), http: { deadline: 5_000 } })],
  ])('keeps its state also with %s, created again each time', async (_, options) => {
    const { asked, registry, skip } = registryOf(options);
    const { stateKey } = await registry.get('acme');
    skip();
    expect((await registry.get('acme')).stateKey).toBe(stateKey);
    expect(asked).toHaveLength(2);
  });

  it.each<[what: string, after: () => TenantOptions]>([
    [
      'secret',
      () => ({ ...apiOnly('acme'), clientSecret: () => sandbox.tenantOptions('acme').clientSecret }),
    ],
    ['client', () => ({ ...apiOnly('globex'), tenantId: apiOnly('acme').tenantId })],
    ['scope', () => ({ ...apiOnly('acme'), scope: null })],
    ['form', () => ({ ...apiOnly('acme'), authUrl: `${sandbox.url}/` })],
    ['tenant id', () => ({ ...apiOnly('acme'), tenantId: 'another' })],
    ['login', () => withKeys(keys)],
    ['key to verify', () => withKeys({ ...keys, publicKey: otherKeys.publicKey })],
    ['key to sign', () => withKeys({ ...keys, privateKey: otherKeys.privateKey })],
  ])('loses it where its %s changed', async (what, after) => {
    let options = what.startsWith('key') ? withKeys(keys) : apiOnly('acme');
    const { registry, skip } = registryOf(() => options);
    const { stateKey } = await registry.get('acme');
    options = after();
    skip();
    expect((await registry.get('acme')).stateKey).not.toBe(stateKey);
  });

  it('uses the new secret from then on, for a new token', async () => {
    let clientSecret = 'not the secret';
    const { tokens, expire } = await boot(() => ({ ...apiOnly('acme'), clientSecret }));
    expect((await failureOf(tokens.getToken({ tenant: 'acme' }))).code).toBe('token_rejected');
    clientSecret = sandbox.tenantOptions('acme').clientSecret;
    expire();
    expect(await tokens.getToken({ tenant: 'acme' })).toMatchObject({ tokenType: 'Bearer' });
    expect(tokenRequests()).toBe(2);
  });
});

describe('while the source fails', () => {
  /** A source that can fail; `acme` is known and its ttl is over. */
  async function failing(tenantCache: object = {}) {
    let find: (key: string) => Answer = fromDatabase;
    const parts = registryOf((key) => find(key), { tenantCache, http: { deadline: 100 } });
    const { stateKey } = await parts.registry.get('acme');
    const answerWith = (answer: typeof find): void => {
      find = answer;
      parts.skip(60_000);
    };
    return { ...parts, stateKey, answerWith };
  }
  const down = (): Answer => Promise.reject(DATABASE_DOWN);

  it.each([
    [
      'throws',
      (): Answer => {
        throw DATABASE_DOWN;
      },
    ],
    ['rejects', down],
    ['does not answer', (): Answer => new Promise(() => undefined)],
    ['is slow', async (key: string) => pause(80).then(() => fromDatabase(key))],
  ])('(it %s) the last good options of a tenant are used, with its state', async (_, fault) => {
    const { registry, stateKey, asked, skip, answerWith } = await failing();
    answerWith(fault);
    for (let call = 0; call < 3; call++) {
      expect((await registry.get('acme')).stateKey).toBe(stateKey);
    }
    expect(asked).toEqual(['acme', 'acme']);
    await pause(100);
    answerWith(() => ({ ...apiOnly('acme'), tenantId: 'newer' }));
    skip(10_000);
    expect((await registry.get('acme')).tenantId).toBe('newer');
  });

  it('a source that does not answer leaves half of its deadline to a call', async () => {
    let isSilent = false;
    const { tokens, expire } = await boot(
      (key) => (isSilent ? new Promise(() => undefined) : fromDatabase(key)),
      { http: { deadline: 1_000 } },
    );
    const { accessToken } = await tokens.getToken({ tenant: 'acme' });
    isSilent = true;
    expire();
    const began = performance.now();
    expect((await tokens.getToken({ tenant: 'acme' })).accessToken).toBe(accessToken);
    expect(performance.now() - began).toBeLessThan(950);
  });

  it('the source is asked again every 5 s', async () => {
    const { registry, asked, skip, answerWith } = await failing();
    answerWith(down);
    await registry.get('acme');
    skip(4_990);
    await registry.get('acme');
    expect(asked).toHaveLength(2);
    skip(10);
    await registry.get('acme');
    expect(asked).toHaveLength(3);
  });

  it('they are used for staleIfError ms after the ttl, an hour by default', async () => {
    const { registry, skip, answerWith } = await failing();
    answerWith(down);
    skip(3_600_000 - 1_000);
    expect(await registry.get('acme')).toMatchObject({ key: 'acme' });
    skip(6_000);
    expect(await failureOf(registry.get('acme'))).toMatchObject({ code: 'service_unavailable' });
  });

  it('they are not used with staleIfError: 0, nor after forget', async () => {
    const none = await failing({ staleIfError: 0 });
    none.answerWith(down);
    expect(await failureOf(none.registry.get('acme'))).toMatchObject({ code: 'service_unavailable' });
    const forgotten = await failing();
    forgotten.answerWith(down);
    await forgotten.registry.get('acme');
    forgotten.registry.forget('acme');
    expect(await failureOf(forgotten.registry.get('acme'))).toMatchObject({ code: 'service_unavailable' });
  });

  it.each([
    ['no tenant', (): Answer => undefined, 'unknown_tenant'],
    ['unknown_tenant', (): Answer => Promise.reject(noSuchCustomer), 'unknown_tenant'],
    ['wrong options', (): Answer => ({ ...apiOnly('acme'), tenantId: '' }), 'configuration_invalid'],
  ])('%s is an answer, no failure: they are not used after it', async (_, answer, code) => {
    const { registry, answerWith, skip } = await failing();
    answerWith(answer);
    expect(await failureOf(registry.get('acme'))).toMatchObject({ code });
    skip(6_000);
    answerWith(down);
    expect(await failureOf(registry.get('acme'))).toMatchObject({ code: 'service_unavailable' });
  });

  it('the log says why once a minute for each tenant', async () => {
    const warn = jest.spyOn(Logger.prototype, 'warn').mockImplementation(() => undefined);
    const { registry, skip, answerWith } = await failing({ staleIfError: 1_800_000 });
    await registry.get('globex');
    answerWith(down);
    for (let call = 0; call < 6; call++) {
      await registry.get('acme');
      await registry.get('globex');
      skip(5_500);
    }
    const lines = (): unknown[] => warn.mock.calls.map(([line]) => line);
    const lineOf = (key: string) =>
      `the tenant source fails for the tenant '${key}'; its last good options are used for 1800000 ms at most: ` +
      DATABASE_DOWN.message;
    expect(lines()).toEqual([lineOf('acme'), lineOf('globex')]);
    skip(30_000);
    await registry.get('acme');
    expect(lines()).toHaveLength(3);
    warn.mockRestore();
  });

  it.each([
    ['throws', new Error('no column\n"login" in postgres://me:pass@db'), 'no column "login" in [removed]'],
    ['throws a long text', new Error('x'.repeat(999)), `${'x'.repeat(300)}…`],
    [
      'throws without a message',
      new AggregateError([Object.assign(new Error(), { code: 'ECONNREFUSED', address: '::1', port: 5432 })]),
      'ECONNREFUSED ::1:5432',
    ],
    ['does not answer', undefined, 'the tenant source did not answer in time'],
  ])(
    '(it %s) the log says why of tenants that were never read, one line a minute for all',
    async (_, thrown, reason) => {
      const error = jest.spyOn(Logger.prototype, 'error').mockImplementation(() => undefined);
      const { registry, skip } = registryOf(
        () => (thrown === undefined ? new Promise(() => undefined) : Promise.reject(thrown)),
        { http: { deadline: 20, attemptTimeout: 20 } },
      );
      for (const key of ['acme', 'acme', 'globex']) {
        await failureOf(registry.get(key));
      }
      const lineOf = (key: string) =>
        `the tenant source fails for the tenant '${key}'; no options of it can be used: ${reason}`;
      const lines = () => error.mock.calls.map(([line]) => line);
      // Visitors can make up keys: they must not fill the log.
      expect(lines()).toEqual([lineOf('acme')]);
      skip();
      await failureOf(registry.get('globex'));
      expect(lines()).toEqual([lineOf('acme'), lineOf('globex')]);
      error.mockRestore();
    },
  );
});

describe('functions of a tenant that was read again', () => {
  it('are called in their newest form', async () => {
    let reads = 0;
    const called: number[] = [];
    const { tokens, skip } = await boot(() => {
      reads += 1;
      const read = reads;
      const clientSecret = (): string => {
        called.push(read);
        return sandbox.tenantOptions('acme').clientSecret;
      };
      return { ...apiOnly('acme'), clientSecret };
    });
    await tokens.getToken({ tenant: 'acme' });
    skip(300_000);
    await tokens.getToken({ tenant: 'acme' });
    expect([reads, tokenRequests()]).toEqual([2, 1]);
    await tokens.invalidate({ tenant: 'acme' });
    await tokens.getToken({ tenant: 'acme' });
    expect(called).toEqual([1, 2]);
  });

  it('replace only the connections where http.dispatcher is another', async () => {
    const used: number[] = [];
    const agents: Agent[] = [];
    const dispatcherOf = (read: number) => (): Agent => {
      const agent = new Agent().compose((dispatch) => (options, handler) => {
        used.push(read);
        return dispatch(options, handler);
      }) as Agent;
      agents.push(agent);
      return agent;
    };
    let http: TenantOptions['http'] = { dispatcher: dispatcherOf(1) };
    const { tokens, exhibitors, registry, skip } = await boot(() => ({ ...apiOnly('acme'), http }));
    const list = () => firstValueFrom(exhibitors.list('boutique-2026', { tenant: 'acme' }));
    const { accessToken } = await tokens.getToken({ tenant: 'acme' });
    await list();
    expect(used.splice(0)).toEqual([1, 1]);
    const of2 = { dispatcher: dispatcherOf(2) };
    for (const [next, sent] of [
      [of2, [2]],
      [{ dispatcher: undefined }, []],
      [undefined, []],
      [{ dispatcher: dispatcherOf(3) }, [3]],
    ] as const) {
      http = next;
      skip(300_000);
      await registry.get('acme');
      const token = await tokens.getToken({ tenant: 'acme' });
      // Where a function came or went, the options are others, and the token is requested anew.
      expect(token.accessToken === accessToken).toBe(next === of2);
      used.length = 0;
      await list();
      await list();
      expect(used.splice(0)).toEqual([...sent, ...sent]);
    }
    expect(agents).toHaveLength(3);
    await Promise.all(agents.map((agent) => agent.close()));
  });
});

describe('wrong options', () => {
  it('are remembered for 5 s, and displace no known tenant', async () => {
    let wrong = true;
    const { asked, registry, skip } = registryOf(
      (key) => (key === 'acme' && wrong ? { ...apiOnly(key), tenantId: '' } : apiOnly(key)),
      { tenantCache: { max: 1 } },
    );
    const refusal = { code: 'configuration_invalid', tenant: 'acme' };
    await registry.get('globex');
    for (let call = 0; call < 3; call++) {
      expect(await failureOf(registry.get('acme'))).toMatchObject(refusal);
    }
    await registry.get('globex');
    expect(asked).toEqual(['globex', 'acme']);
    wrong = false;
    skip(4_990);
    expect(await failureOf(registry.get('acme'))).toMatchObject(refusal);
    skip(10);
    expect(await registry.get('acme')).toMatchObject({ key: 'acme' });
    expect(asked).toEqual(['globex', 'acme', 'acme']);
  });
});

describe('unknown keys', () => {
  it('are cached briefly and displace no known tenant', async () => {
    const { asked, registry } = registryOf(fromDatabase, { tenantCache: { max: 3 } });
    const known = () => Promise.all(sandbox.tenants.map(({ key }) => registry.get(key)));
    const before = await known();
    for (let index = 0; index < 100; index++) {
      expect((await failureOf(registry.get(`made-up-${index % 50}`))).code).toBe('unknown_tenant');
    }
    expect(await known()).toEqual(before);
    expect(asked).toHaveLength(before.length + 50);
  });

  it('may be any text', async () => {
    const { registry } = registryOf(fromDatabase);
    for (const key of ['__proto__', 'constructor', 'toString', 'hasOwnProperty', 'find']) {
      expect(await failureOf(registry.get(key))).toMatchObject({ code: 'unknown_tenant', tenant: key });
    }
  });
});

describe('more tenants than tenantCache.max', () => {
  it('displace the least recently used one, with its token', async () => {
    const { asked, tokens } = await boot(fromDatabase, { tenantCache: { max: 2 } });
    for (const tenant of ['acme', 'globex', 'acme', 'initech', 'acme', 'globex']) {
      await tokens.getToken({ tenant });
    }
    expect(asked).toEqual(['acme', 'globex', 'initech', 'globex']);
    expect(tokenRequests()).toBe(4);
  });
});

describe('a tenant that is forgotten', () => {
  it('is read again at its next use, and requests another token', async () => {
    const { asked, registry, tokens } = await boot(fromDatabase);
    await tokens.getToken({ tenant: 'acme' });
    registry.forget('acme');
    await tokens.getToken({ tenant: 'acme' });
    expect(asked).toEqual(['acme', 'acme']);
    expect(tokenRequests()).toBe(2);
  });

  it('is requested again at once where it was unknown', async () => {
    let isThere = false;
    const { registry } = registryOf((key) => (isThere ? fromDatabase(key) : undefined));
    expect((await failureOf(registry.get('acme'))).code).toBe('unknown_tenant');
    isThere = true;
    expect((await failureOf(registry.get('acme'))).code).toBe('unknown_tenant');
    registry.forget('acme');
    expect(await registry.get('acme')).toMatchObject({ key: 'acme' });
  });

  it('is not replaced by the result of an earlier request', async () => {
    const answers: ((options: TenantOptions) => void)[] = [];
    const { asked, registry } = registryOf(() => new Promise((resolve) => void answers.push(resolve)));
    const before = registry.get('acme');
    registry.forget('acme');
    const after = registry.get('acme');
    answers[1]?.({ ...apiOnly('acme'), tenantId: 'new' });
    expect(await after).toMatchObject({ tenantId: 'new' });
    answers[0]?.({ ...apiOnly('acme'), tenantId: 'old' });
    expect(await before).toMatchObject({ tenantId: 'old' });
    expect(await registry.get('acme')).toMatchObject({ tenantId: 'new' });
    expect(asked).toHaveLength(2);
  });

  it('is not removed by an earlier request that found none', async () => {
    const answers: ((options: Answer) => void)[] = [];
    const { asked, registry } = registryOf(() => new Promise((resolve) => void answers.push(resolve)));
    const before = failureOf(registry.get('acme'));
    registry.forget('acme');
    const after = registry.get('acme');
    answers[1]?.(apiOnly('acme'));
    await after;
    answers[0]?.(undefined);
    expect(await before).toMatchObject({ code: 'unknown_tenant' });
    expect(await registry.get('acme')).toMatchObject({ key: 'acme' });
    expect(asked).toHaveLength(2);
  });
});

const DATABASE_DOWN = new Error('the database is down');
