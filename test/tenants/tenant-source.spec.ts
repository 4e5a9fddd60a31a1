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
import { clockOf } from '../support/clock.js';
import { COOKIE_SECRET } from '../support/host.js';
import { stall } from '../support/faults.js';
import { startSandbox } from '../support/sandbox.js';
import { eventually } from '../support/wait.js';
import type { OtherOptions } from '../support/module-options.js';

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

/** A host whose tenants come from this function; records the requested keys. */
async function boot(
  find: (key: string) => Answer,
  options: OtherOptions = {},
): Promise<{
  asked: string[];
  registry: TenantRegistry;
  tokens: TokenService;
  exhibitors: ExhibitorsService;
}> {
  const asked: string[] = [];
  const source = {
    find: (key: string): Answer => {
      asked.push(key);
      return find(key);
    },
  };
  app = await NestFactory.createApplicationContext(
    ExhibitorModule.forRoot({
      tenants: source,
      allowedOrigins: () => true,
      secrets: [COOKIE_SECRET],
      ...options,
    }),
    { logger: false, abortOnError: false },
  );
  return {
    asked,
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
const pause = (ms: number): Promise<void> => new Promise((resolve) => setTimeout(resolve, ms));
/** Moves the clock over the ttl of a tenant. */
const expire = (ms = 60_001): void => clockOf(app as INestApplicationContext).skip(ms);

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

  const thrown = new ExhibitorError('unknown_tenant', 'no customer nobody');
  it.each([
    ['undefined', () => undefined],
    ['null', () => null as unknown as undefined],
    ['an error that says so', () => Promise.reject(thrown)],
  ])('that are not found (%s) are unknown, and remembered as such', async (_, find) => {
    const { asked, exhibitors, tokens, registry } = await boot(find);
    for (const call of [
      registry.get('nobody'),
      tokens.getToken({ tenant: 'nobody' }),
      firstValueFrom(exhibitors.list('boutique-2026', { tenant: 'nobody' })),
    ]) {
      expect(await failureOf(call)).toMatchObject({ code: 'unknown_tenant', tenant: 'nobody' });
    }
    expect((await failureOf(registry.get('nobody'))).code).toBe('unknown_tenant');
    expect(asked).toEqual(['nobody']);
    expect(sandbox.requests).toHaveLength(0);
  });

  it.each([
    ['cannot be found', () => undefined, 'unknown_tenant'],
    ['cannot be looked for', () => Promise.reject(DATABASE_DOWN), 'service_unavailable'],
    ['have wrong options', () => ({}) as TenantOptions, 'configuration_invalid'],
  ])('that %s are named by errors in a short form', async (_, find, code) => {
    const { registry } = await boot(find);
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

  it('have keys of 128 bytes at most: the source is not asked for a longer one, and no error shows it', async () => {
    const { asked, registry } = await boot(() => undefined);
    for (const key of ['x'.repeat(129), 'ü'.repeat(65), 'x'.repeat(1_000_000)]) {
      const failure = await failureOf(registry.get(key));
      expect([failure.code, failure.tenant]).toEqual(['unknown_tenant', undefined]);
    }
    expect(asked).toEqual([]);
    const longest = 'ü'.repeat(64);
    expect(await failureOf(registry.get(longest))).toMatchObject({ code: 'unknown_tenant' });
    expect(asked).toEqual([longest]);
  });

  it('must be named', async () => {
    const { exhibitors, tokens, asked } = await boot(fromDatabase);
    expect((await failureOf(tokens.getToken())).code).toBe('tenant_required');
    const call = firstValueFrom(exhibitors.list('boutique-2026'));
    expect((await failureOf(call)).code).toBe('tenant_required');
    expect(asked).toEqual([]);
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
    const { registry } = await boot((key) => (isDown ? find() : fromDatabase(key)));
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
    const { registry } = await boot((key) => ({
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
    const { registry } = await boot(() => ({ ...apiOnly('acme'), [forged]: 1 }));
    const { message } = await failureOf(registry.get('wrong'));
    expect(message).toContain('tenants.wrong.x [Nest] 1  - ERROR forged  [31m yyy');
    expect(message.length).toBeLessThan(500);
  });

  it('must be on the allowed origins, like those of the options', async () => {
    const { registry } = await boot(() => ({ ...apiOnly('acme'), baseUrl: 'https://elsewhere.example' }), {
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
    const { registry, tokens, asked } = await boot((key) => ({ ...apiOnly(key), http: tenant }), {
      http,
    });
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
    const { asked, tokens, exhibitors } = await boot(fromDatabase, { tenantCache: { ttl: 1_000 } });
    const lookup = () =>
      firstValueFrom(exhibitors.lookup('world-2026', 'sam.several@example.com', { tenant: 'acme' }));
    const { accessToken } = await tokens.getToken({ tenant: 'acme' });
    await lookup();
    expire(1_001);
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
  ])('keeps them also with %s, created again each time', async (_, options) => {
    const { asked, registry, tokens } = await boot(options);
    await tokens.getToken({ tenant: 'acme' });
    const { stateKey } = await registry.get('acme');
    expire();
    await tokens.getToken({ tenant: 'acme' });
    expect((await registry.get('acme')).stateKey).toBe(stateKey);
    expect(asked.length).toBeGreaterThan(1);
    expect(tokenRequests()).toBe(1);
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
  ])('drops them where its %s changed', async (_, after) => {
    let options = apiOnly('acme');
    const { tokens } = await boot(() => options);
    await tokens.getToken({ tenant: 'acme' });
    options = after();
    expire();
    await tokens.getToken({ tenant: 'acme' });
    expect(tokenRequests()).toBe(2);
  });

  it('drops them where a key is another one', async () => {
    let pair = keys;
    const { tokens } = await boot(() => withKeys(pair));
    await tokens.getToken({ tenant: 'acme' });
    for (const next of [
      { ...keys, publicKey: otherKeys.publicKey },
      { ...keys, privateKey: otherKeys.privateKey },
    ]) {
      pair = next;
      expire();
      await tokens.getToken({ tenant: 'acme' });
    }
    expect(tokenRequests()).toBe(3);
  });

  it('uses the new secret from then on', async () => {
    let clientSecret = 'not the secret';
    const { tokens } = await boot(() => ({ ...apiOnly('acme'), clientSecret }));
    expect((await failureOf(tokens.getToken({ tenant: 'acme' }))).code).toBe('token_rejected');
    clientSecret = sandbox.tenantOptions('acme').clientSecret;
    expire();
    expect(await tokens.getToken({ tenant: 'acme' })).toMatchObject({ tokenType: 'Bearer' });
  });

  it('is unknown when the source does not find it any more', async () => {
    let isThere = true;
    const { registry } = await boot((key) => (isThere ? fromDatabase(key) : undefined));
    await registry.get('acme');
    isThere = false;
    expire();
    expect((await failureOf(registry.get('acme'))).code).toBe('unknown_tenant');
  });
});

describe('while the source fails', () => {
  /** A host whose source can fail; `acme` is known and its ttl is over. */
  async function bootAndFail(tenantCache: object = {}) {
    let find: (key: string) => Answer = fromDatabase;
    const parts = await boot((key) => find(key), { tenantCache, http: { deadline: 400 } });
    const { accessToken } = await parts.tokens.getToken({ tenant: 'acme' });
    const clock = clockOf(app as INestApplicationContext);
    return {
      ...parts,
      accessToken,
      clock,
      answerWith: (answer: typeof find): void => {
        find = answer;
        clock.skip(60_000);
      },
    };
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
    ['is slow', async (key: string) => pause(250).then(() => fromDatabase(key))],
  ])('(it %s) the last good options of a tenant are used, with its token', async (_, fault) => {
    const { tokens, registry, accessToken, asked, clock, answerWith } = await bootAndFail();
    answerWith(fault);
    for (let call = 0; call < 3; call++) {
      expect((await tokens.getToken({ tenant: 'acme' })).accessToken).toBe(accessToken);
    }
    expect(asked).toEqual(['acme', 'acme']);
    await pause(420);
    answerWith(() => ({ ...apiOnly('acme'), tenantId: 'newer' }));
    clock.skip(10_000);
    await registry.get('acme');
    await eventually(async () => (await registry.get('acme')).tenantId === 'newer');
  });

  it('the source is asked again every 5 s', async () => {
    const { registry, asked, clock, answerWith } = await bootAndFail();
    answerWith(down);
    await registry.get('acme');
    clock.skip(4_990);
    await registry.get('acme');
    expect(asked).toHaveLength(2);
    clock.skip(10);
    await registry.get('acme');
    expect(asked).toHaveLength(3);
  });

  it('they are used for staleIfError ms after the ttl, an hour by default', async () => {
    const { registry, clock, answerWith } = await bootAndFail();
    answerWith(down);
    clock.skip(3_600_000 - 1_000);
    expect(await registry.get('acme')).toMatchObject({ key: 'acme' });
    clock.skip(6_000);
    expect(await failureOf(registry.get('acme'))).toMatchObject({ code: 'service_unavailable' });
  });

  it('they are not used with staleIfError: 0, nor after forget', async () => {
    const none = await bootAndFail({ staleIfError: 0 });
    none.answerWith(down);
    expect(await failureOf(none.registry.get('acme'))).toMatchObject({ code: 'service_unavailable' });
    await app?.close();
    const forgotten = await bootAndFail();
    forgotten.answerWith(down);
    await forgotten.registry.get('acme');
    forgotten.registry.forget('acme');
    expect(await failureOf(forgotten.registry.get('acme'))).toMatchObject({ code: 'service_unavailable' });
  });

  it.each([
    ['undefined', (): Answer => undefined],
    [
      'unknown_tenant',
      (): Answer => Promise.reject(new ExhibitorError('unknown_tenant', 'no customer acme')),
    ],
  ])('they are not used after it has answered that there is no such tenant: %s', async (_, answer) => {
    const { registry, answerWith, clock } = await bootAndFail();
    answerWith(answer);
    expect(await failureOf(registry.get('acme'))).toMatchObject({ code: 'unknown_tenant' });
    clock.skip(6_000);
    answerWith(down);
    expect(await failureOf(registry.get('acme'))).toMatchObject({ code: 'service_unavailable' });
  });

  it.each([
    ['no tenant', () => undefined, 'unknown_tenant'],
    ['wrong options', () => ({ ...apiOnly('acme'), tenantId: '' }), 'configuration_invalid'],
  ])('%s is an answer, not a failure', async (_, answer, code) => {
    const { registry, answerWith } = await bootAndFail();
    answerWith(down);
    await registry.get('acme');
    answerWith(answer);
    expect(await failureOf(registry.get('acme'))).toMatchObject({ code });
  });

  it('the log says why once a minute for each tenant', async () => {
    const warn = jest.spyOn(Logger.prototype, 'warn').mockImplementation(() => undefined);
    const { registry, tokens, clock, answerWith } = await bootAndFail({ staleIfError: 1_800_000 });
    await tokens.getToken({ tenant: 'globex' });
    answerWith(down);
    for (let call = 0; call < 6; call++) {
      await registry.get('acme');
      await registry.get('globex');
      clock.skip(5_500);
      await pause(1);
    }
    // A read of an earlier test may end only now. Its line names another duration.
    const lines = (): string[] =>
      warn.mock.calls.map(([line]) => String(line)).filter((line) => !line.includes('3600000'));
    const lineOf = (key: string) =>
      `the tenant source fails for the tenant '${key}'; its last good options are used for 1800000 ms at most: ` +
      DATABASE_DOWN.message;
    expect(lines()).toEqual([lineOf('acme'), lineOf('globex')]);
    clock.skip(30_000);
    await registry.get('acme');
    await eventually(() => lines().length === 3);
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
      const { registry } = await boot(
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
      expire();
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
    const { tokens } = await boot(() => {
      reads += 1;
      const read = reads;
      const clientSecret = (): string => {
        called.push(read);
        return sandbox.tenantOptions('acme').clientSecret;
      };
      return { ...apiOnly('acme'), clientSecret };
    });
    await tokens.getToken({ tenant: 'acme' });
    clockOf(app as INestApplicationContext).skip(300_000);
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
    const { tokens, exhibitors, registry } = await boot(() => ({ ...apiOnly('acme'), http }));
    const clock = clockOf(app as INestApplicationContext);
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
      clock.skip(300_000);
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
    const { asked, registry, tokens } = await boot(
      (key) => (key === 'acme' && wrong ? { ...apiOnly(key), tenantId: '' } : apiOnly(key)),
      { tenantCache: { max: 1 } },
    );
    const clock = clockOf(app as INestApplicationContext);
    await tokens.getToken({ tenant: 'globex' });
    for (let call = 0; call < 3; call++) {
      expect(await failureOf(tokens.getToken({ tenant: 'acme' }))).toMatchObject({
        code: 'configuration_invalid',
        tenant: 'acme',
      });
    }
    await tokens.getToken({ tenant: 'globex' });
    expect(asked).toEqual(['globex', 'acme']);
    wrong = false;
    clock.skip(4_990);
    expect(await failureOf(registry.get('acme'))).toMatchObject({ code: 'configuration_invalid' });
    clock.skip(10);
    expect(await registry.get('acme')).toMatchObject({ key: 'acme' });
    expect(asked).toEqual(['globex', 'acme', 'acme']);
  });
});

describe('unknown keys', () => {
  it('are cached briefly and displace no known tenant', async () => {
    const { asked, registry, tokens } = await boot(fromDatabase, { tenantCache: { max: 3 } });
    for (const tenant of ['acme', 'globex', 'initech']) {
      await tokens.getToken({ tenant });
    }
    for (let turn = 0; turn < 2; turn++) {
      for (let index = 0; index < 50; index++) {
        expect((await failureOf(registry.get(`made-up-${index}`))).code).toBe('unknown_tenant');
      }
    }
    for (const tenant of ['acme', 'globex', 'initech']) {
      await tokens.getToken({ tenant });
    }
    expect(asked).toHaveLength(3 + 50);
    expect(tokenRequests()).toBe(3);
  });

  it.each(['__proto__', 'constructor', 'toString', 'hasOwnProperty', 'find', ''])(
    'may be %j',
    async (key) => {
      const { registry } = await boot(fromDatabase);
      expect(await failureOf(registry.get(key))).toMatchObject({ code: 'unknown_tenant', tenant: key });
    },
  );
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
    const { registry } = await boot((key) => (isThere ? fromDatabase(key) : undefined));
    expect((await failureOf(registry.get('acme'))).code).toBe('unknown_tenant');
    isThere = true;
    expect((await failureOf(registry.get('acme'))).code).toBe('unknown_tenant');
    registry.forget('acme');
    expect(await registry.get('acme')).toMatchObject({ key: 'acme' });
  });

  it('is not replaced by the result of an earlier request', async () => {
    const answers: ((options: TenantOptions) => void)[] = [];
    const { asked, registry } = await boot(() => new Promise((resolve) => void answers.push(resolve)));
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
});

const DATABASE_DOWN = new Error('the database is down');
