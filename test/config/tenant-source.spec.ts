import { createPrivateKey, generateKeyPairSync, type KeyPairKeyObjectResult } from 'node:crypto';
import { beforeEach, describe, expect, it } from '@jest/globals';
import { firstValueFrom } from 'rxjs';
import { Agent } from 'undici';
import {
  ExhibitorError,
  TenantRegistry,
  TokenService,
  type TenantOptions,
  type TenantSource,
} from '../../lib/index.js';
import { Calls } from '../../lib/call/calls.service.js';
import { EXHIBITOR_ERROR } from '../../lib/errors/exhibitor.error.js';
import { Clock } from '../../lib/call/clock.js';
import { SourceReads } from '../../lib/config/source-reads.js';
import { startRestHost } from '../exhibitors/rest-host.js';
import { clockOf } from '../support/clock.js';
import { stall } from '../support/faults.js';
import { useClosing, useSandbox } from '../support/lifetimes.js';
import { loggedLines } from '../support/logged-lines.js';
import type { OtherOptions } from '../support/module-options.js';
import { eventually, pause } from '../support/wait.js';

type Find = (key: string) => TenantOptions | undefined | null | Promise<TenantOptions | undefined>;

const logged = loggedLines();
const closing = useClosing();
const sandbox = await useSandbox();
beforeEach(() => sandbox.clearRequests());

/** A host whose tenants come from this function, which a test may replace; records the keys it was asked for. */
async function boot(find: Find = fromDatabase, others: OtherOptions = {}) {
  const asked: string[] = [];
  const source = { find };
  const ask = (key: string) => {
    asked.push(key);
    return source.find(key) as ReturnType<TenantSource['find']>;
  };
  const tenants = { find: ask };
  const { context, exhibitors } = closing(
    await startRestHost({ tenants, allowedOrigins: () => true, ...others }),
  );
  const registry = context.get(TenantRegistry);
  const tokens = context.get(TokenService);
  return {
    asked,
    source,
    registry,
    tokens,
    exhibitors,
    get: (key = 'acme') => registry.get(key),
    skip: (ms = 60_001): void => clockOf(context).skip(ms),
    tokenOf: async (tenant = 'acme') => (await tokens.getToken({ tenant })).accessToken,
    list: (tenant = 'acme', deadline: number | null = 10_000) =>
      firstValueFrom(exhibitors.list('boutique-2026', { tenant, deadline: deadline ?? undefined })),
  };
}

/** Options of a tenant without a login. */
function apiOnly(key = 'acme', changed: Partial<TenantOptions> = {}): TenantOptions {
  const { login: _, ...options } = sandbox.tenantOptions(key);
  return { ...options, ...changed };
}

/** The options of the tenants of the sandbox, read each time as from a database. */
function fromDatabase(key: string): TenantOptions | undefined {
  return sandbox.tenants.some((tenant) => tenant.key === key) ? sandbox.tenantOptions(key) : undefined;
}

const tokenRequests = (): number => sandbox.requests.filter(({ operation }) => operation === 'token').length;

const noSuchCustomer = new ExhibitorError('unknown_tenant', 'no such customer');
const namesNoOption = new ExhibitorError('configuration_invalid', 'no option', { tenant: 'acme' });
const databaseDown = new Error('the database is down');
const unavailable = { code: 'service_unavailable' };
const rejects: Find = () => Promise.reject(databaseDown);
const throws: Find = () => {
  throw databaseDown;
};
const unreadable = {
  get tenantId(): never {
    throw databaseDown;
  },
} as unknown as TenantOptions;
const isSilent: Find = () => new Promise(() => undefined);

const trap = (): never => {
  throw new Error('a trap');
};
const revoked = Proxy.revocable({}, {});
revoked.revoke();
const ofPackage = { [EXHIBITOR_ERROR]: true };
const UNREADABLE: [string, unknown][] = [
  ['a revoked Proxy', revoked.proxy],
  ['a Proxy that traps has', new Proxy({}, { has: trap })],
  ['an own error whose code throws', Object.defineProperty({ ...ofPackage }, 'code', { get: trap })],
  ['an own error without a text', { ...ofPackage, code: 'rate_limited', message: {} }],
  [
    'an own error whose cause throws',
    Object.defineProperty({ ...ofPackage, code: 'aborted' }, 'cause', { get: trap }),
  ],
  ['a list of errors that cannot be read', { errors: revoked.proxy }],
  ['an address that is no text', { code: 'ECONNREFUSED', address: '::1', port: { toString: trap } }],
];

describe('tenants of a source', () => {
  it.each<[string, Find]>([
    ['at once', fromDatabase],
    ['later', async (key: string) => fromDatabase(key)],
  ])('are found %s, each at its first use, with one call', async (_, find) => {
    const { asked, list, get, tokens } = await boot(find);
    for (const tenant of ['acme', 'globex', 'acme']) {
      const { data } = await list(tenant);
      expect(data[0]?.['id']).toBe(`${tenant}-boutique-2026-0001`);
    }
    expect(asked).toEqual(['acme', 'globex']);
    expect(await get()).toMatchObject({ key: 'acme', baseUrl: sandbox.url });
    await expect(tokens.getToken()).rejects.toMatchObject({ code: 'tenant_required' });
  });

  it.each<[string, Find]>([
    ['undefined', () => undefined],
    ['null', () => null],
    ['an error that says so', () => Promise.reject(noSuchCustomer)],
  ])('that are not found (%s) are unknown, and remembered as such', async (_, find) => {
    const { asked, get } = await boot(find);
    const unknown = { code: 'unknown_tenant', tenant: 'nobody' };
    await Promise.all([1, 2].map(() => expect(get('nobody')).rejects.toMatchObject(unknown)));
    await expect(get('nobody')).rejects.toMatchObject(unknown);
    expect(asked).toEqual(['nobody']);
  });

  it.each<[string, Find, string]>([
    ['cannot be found', () => undefined, 'unknown_tenant'],
    ['cannot be looked for', rejects, 'service_unavailable'],
    ['have wrong options', () => ({}) as TenantOptions, 'configuration_invalid'],
  ])('that %s are named by errors in a short form', async (_, find, code) => {
    const { get } = await boot(find);
    for (const [key, tenant] of [
      ['a\nb', 'a b'],
      ['zoe.private@example.com', '[removed]'],
      ['n'.repeat(120), `${'n'.repeat(100)}…`],
    ] as const) {
      const failure = { code, tenant, message: expect.not.stringContaining(key) };
      await expect(get(key)).rejects.toMatchObject(failure);
    }
  });

  it('have keys of 1 to 128 bytes: the source is not asked for others', async () => {
    const { asked, get } = await boot(() => undefined);
    for (const key of ['', 'x'.repeat(129), 'ü'.repeat(65), 'x'.repeat(1_000_000)]) {
      const failure = { code: 'unknown_tenant', tenant: expect.stringMatching(/^.{0,101}$/) };
      await expect(get(key)).rejects.toMatchObject(failure);
    }
    expect(asked).toEqual([]);
    const longest = 'ü'.repeat(64);
    await expect(get(longest)).rejects.toMatchObject({ code: 'unknown_tenant' });
    expect(asked).toEqual([longest]);
  });

  it.each<[string, Find, object]>([
    ['throws', throws, { ...unavailable, cause: databaseDown }],
    ['answers an entity that cannot be read', () => unreadable, { ...unavailable, cause: databaseDown }],
    ['rejects', rejects, { ...unavailable, cause: databaseDown }],
    ['throws an error of this package', () => Promise.reject(namesNoOption), { message: 'no option' }],
    ['does not answer', isSilent, { code: 'deadline_exceeded' }],
  ])('are unavailable where it %s, with its error as the cause', async (_, find, failure) => {
    const { source, get } = await boot(find, { http: { deadline: 100 } });
    await expect(get()).rejects.toMatchObject({ ...failure, tenant: 'acme' });
    source.find = fromDatabase;
    expect(await get()).toMatchObject({ key: 'acme' });
  });

  it('are found within the deadline of the call, over the search and the requests together', async () => {
    const late = { code: 'deadline_exceeded' };
    const { skip, tokenOf, list } = await boot(async (key) => {
      await Promise.resolve();
      skip(10_000);
      return apiOnly(key);
    });
    sandbox.failNext('token', stall('before-headers'), Infinity);
    const began = performance.now();
    await expect(tokenOf()).rejects.toMatchObject({ ...late, tenant: 'acme' });
    await expect(list('globex')).rejects.toMatchObject({ ...late, tenant: 'globex' });
    expect(performance.now() - began).toBeLessThan(3_000);
    expect(tokenRequests()).toBe(0);
  });

  it('are checked when they are found, and all problems are reported', async () => {
    const { get } = await boot((key) =>
      apiOnly('acme', { baseUrl: 'http://api.example', tenantId: `${key}\r\nX-Tenant-Id: other` }),
    );
    const path = (name: string) => expect.objectContaining({ path: `tenants.wrong.${name}` });
    const problems = expect.arrayContaining([path('baseUrl'), path('tenantId')]);
    const failure = { name: 'ConfigurationError', tenant: 'wrong', problems };
    await expect(get('wrong')).rejects.toMatchObject(failure);
  });

  it('must be on the allowed origins, like those of the options', async () => {
    const elsewhere = () => apiOnly('acme', { baseUrl: 'https://elsewhere.example' });
    const { get } = await boot(elsewhere, { allowedOrigins: [sandbox.url] });
    await expect(get()).rejects.toThrow('tenants.acme.baseUrl: must be on one of allowedOrigins');
  });

  it('name no option as it is: customers may write them', async () => {
    const forged = `x\n[Nest] 1  - ERROR forged \u001b[31m ${'y'.repeat(100_000)}`;
    const { get } = await boot(() => ({ ...apiOnly(), [forged]: 1 }));
    const { message } = await get('wrong').catch((error) => error);
    expect(message).toContain('tenants.wrong.x [Nest] 1  - ERROR forged  [31m yyy');
    expect(message.length).toBeLessThan(500);
  });

  it('have no larger http limits than the module', async () => {
    const limits = { deadline: 5_000, attempts: 1, maxResponseBytes: 4_096, maxConcurrent: 2 };
    const http = { ...limits, attemptTimeout: 500 };
    const larger = { deadline: 2 ** 31 - 1, attempts: 10, maxResponseBytes: 2 ** 30, maxConcurrent: 10_000 };
    const own = { ...larger, attemptTimeout: 499, dispatcher: () => new Agent() };
    const { source, get, asked, skip } = await boot(() => apiOnly('acme', { http: own }), { http });
    const found = await get();
    expect(found.http).toMatchObject({ ...http, attemptTimeout: 499, dispatcher: own.dispatcher });
    skip();
    expect((await get()).stateKey).toBe(found.stateKey);
    expect(asked).toHaveLength(2);
    source.find = () => apiOnly('acme', { http: { ...http, deadline: 100 } });
    expect((await get('globex')).http).toMatchObject({ ...http, deadline: 100 });
  });

  it('are requested once for concurrent callers', async () => {
    const { asked, get, tokenOf } = await boot(async (key) => pause(20).then(() => fromDatabase(key)));
    const found = await Promise.all(Array.from({ length: 100 }, () => get()));
    await Promise.all(Array.from({ length: 100 }, () => tokenOf()));
    expect([new Set(found).size, asked, tokenRequests()]).toEqual([1, ['acme'], 1]);
  });
});

describe('a caller that joins a read', () => {
  const answersAfter =
    (ms: number): Find =>
    async () =>
      pause(ms).then(() => apiOnly());

  it.each<[string, number | undefined]>([
    ['that of the module', undefined],
    ['a longer one of its own', 900],
  ])('has its whole deadline, %s, and the one that began it no more than its own', async (_, deadline) => {
    const { asked, get, list } = await boot(answersAfter(450), { http: { deadline: 300 } });
    const first = expect(get()).rejects.toMatchObject({
      code: 'deadline_exceeded',
      message: 'the tenant source did not answer in time',
    });
    await pause(200);
    const second = deadline === undefined ? get() : list('acme', deadline);
    await first;
    await second;
    expect(asked).toEqual(['acme']);
  });

  it('gets what a later read has found, where the first never ends', async () => {
    const { source, get } = await boot(isSilent, { http: { deadline: 300 } });
    const first = get().catch(({ code }) => code);
    await pause(200);
    const joined = get();
    expect(await first).toBe('deadline_exceeded');
    source.find = () => apiOnly();
    const { stateKey } = await get();
    expect((await joined).stateKey).toBe(stateKey);
  });

  it('of which one has little time leaves the source without a failure', async () => {
    const { get, list } = await boot(answersAfter(100), { http: { deadline: 2_000 } });
    await expect(list('acme', 50)).rejects.toMatchObject({ code: 'deadline_exceeded' });
    await get();
    expect([...logged.warnings, ...logged.errors]).toEqual([]);
  });

  it('begins another where the first has had its time', async () => {
    const { asked, get } = await boot(isSilent, { http: { deadline: 200 } });
    const first = get().catch(({ code }) => code);
    await pause(120);
    const second = get().catch(({ code }) => code);
    await pause(120);
    const third = get().catch(({ code }) => code);
    expect(await Promise.all([first, second, third])).toEqual(Array(3).fill('deadline_exceeded'));
    expect(asked).toEqual(['acme', 'acme']);
  });
});

describe('a tenant whose ttl is over', () => {
  it('is read again, and keeps its token and cached lookups where nothing changed', async () => {
    const { asked, skip, tokenOf, exhibitors } = await boot(fromDatabase, { tenantCache: { ttl: 1_000 } });
    const lookup = () =>
      firstValueFrom(exhibitors.lookup('world-2026', 'sam.several@example.com', { tenant: 'acme' }));
    const accessToken = await tokenOf();
    await lookup();
    skip(1_001);
    expect(await tokenOf()).toBe(accessToken);
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
    return apiOnly('acme', { login: { ...login, keys: pem, clientAuth, authorize: () => true } });
  }
  const keys = generateKeyPairSync('ec', { namedCurve: 'P-256' });
  const otherKeys = generateKeyPairSync('ec', { namedCurve: 'P-256' });

  /** Options of a class whose members are accessors, and whose JSON is the same for all. */
  class Row {
    #options: TenantOptions;
    constructor(changed: Partial<TenantOptions>) {
      this.#options = apiOnly('acme', changed);
    }
    get tenantId() {
      return this.#options.tenantId;
    }
    get baseUrl() {
      return this.#options.baseUrl;
    }
    get authUrl() {
      return this.#options.authUrl;
    }
    get clientId() {
      return this.#options.clientId;
    }
    get clientSecret() {
      return this.#options.clientSecret;
    }
    toJSON() {
      return { tenantId: 'hidden' };
    }
  }
  const row = (tenantId: string) => () => new Row({ tenantId });
  /** Options that differ in a member which JSON does not show. */
  const hidden = (tenantId: string) => () =>
    Object.defineProperty(apiOnly('acme', { tenantId: '' }), 'tenantId', {
      get: () => tenantId,
      enumerable: false,
    });
  let called = 0;
  const functionWithJson = () =>
    apiOnly('acme', { clientSecret: Object.assign(() => 'any', { toJSON: () => (called += 1) }) });
  /** A key set whose keys have JSON of their own. */
  const jwks = ({ publicKey }: KeyPairKeyObjectResult) => {
    const jwk = publicKey.export({ format: 'jwk' });
    const key = { ...jwk, kty: String(jwk.kty), toJSON: () => ({}) };
    const { login } = sandbox.tenantOptions('acme');
    return () => apiOnly('acme', { login: { ...login, keys: { keys: [key] } } });
  };
  const pss = String(
    generateKeyPairSync('rsa-pss', { modulusLength: 2048 }).publicKey.export({ type: 'spki', format: 'pem' }),
  );
  const withPss = () => apiOnly('acme', { login: { ...sandbox.tenantOptions('acme').login, keys: pss } });

  const secretFunction = () => apiOnly('acme', { clientSecret: () => String(apiOnly().clientSecret) });
  const apiClient = () => apiOnly();
  const signing = () => withKeys(keys);

  it.each<[what: string, kept: boolean, before: () => TenantOptions, after: () => TenantOptions]>([
    ['a function for the secret, created again', true, secretFunction, secretFunction],
    ['keys as PEM and as KeyObject, created again', true, signing, signing],
    ['a function in place of the secret', false, apiClient, secretFunction],
    ['another client', false, apiClient, () => apiOnly('globex', { tenantId: apiOnly().tenantId })],
    ['another scope', false, apiClient, () => apiOnly('acme', { scope: null })],
    ['the same in another form', true, apiClient, () => apiOnly('acme', { authUrl: `${sandbox.url}/` })],
    ['accessors of a class', true, row('one'), row('one')],
    ['another tenant id of a class', false, row('one'), row('two')],
    ['another tenant id by an accessor', false, hidden('one'), hidden('two')],
    ['a function that has JSON', true, functionWithJson, functionWithJson],
    ['keys that have JSON', true, jwks(keys), jwks(keys)],
    ['another key that has JSON', false, jwks(keys), jwks(otherKeys)],
    ['a key without a JWK', true, withPss, withPss],
    ['another tenant id', false, apiClient, () => apiOnly('acme', { tenantId: 'another' })],
    ['a login', false, apiClient, signing],
    ['another key to verify', false, signing, () => withKeys({ ...keys, publicKey: otherKeys.publicKey })],
    ['another key to sign', false, signing, () => withKeys({ ...keys, privateKey: otherKeys.privateKey })],
  ])('with %s: keeps its state: %p', async (_what, kept, before, after) => {
    const { asked, source, get, skip } = await boot(before);
    const { stateKey } = await get();
    source.find = after;
    skip();
    expect((await get()).stateKey === stateKey).toBe(kept);
    expect(asked).toHaveLength(2);
  });

  it('sends the new tenant id and drops what was known of the former, also where only an accessor tells', async () => {
    const { source, exhibitors, skip } = await boot(row(String(apiOnly().tenantId)), {
      tenantCache: { ttl: 1_000 },
    });
    const lookup = () =>
      firstValueFrom(exhibitors.lookup('world-2026', 'sam.several@example.com', { tenant: 'acme' }));
    expect(await lookup()).toHaveLength(3);
    source.find = row('another');
    skip(1_001);
    await expect(lookup()).rejects.toMatchObject({ code: expect.any(String) });
    expect(sandbox.requests.filter(({ operation }) => operation === 'lookup').length).toBeGreaterThan(1);
  });

  it('uses the new secret from then on, for a new token', async () => {
    const { source, tokenOf, skip } = await boot(() => apiOnly('acme', { clientSecret: 'not the secret' }));
    await expect(tokenOf()).rejects.toMatchObject({ code: 'token_rejected' });
    source.find = apiOnly;
    skip();
    expect(await tokenOf()).toEqual(expect.any(String));
    expect(tokenRequests()).toBe(2);
  });
});

describe('while the source fails', () => {
  /** The registry of a host with `acme`, whose source fails then. Its ttl is over. */
  async function failing(fault: Find = rejects, tenantCache: object = {}) {
    const parts = await boot(fromDatabase, { tenantCache, http: { deadline: 100 } });
    const { stateKey } = await parts.get();
    const answerWith = (find: Find): void => {
      parts.source.find = find;
      parts.skip(60_000);
    };
    answerWith(fault);
    return { ...parts, stateKey, answerWith };
  }

  it.each<[string, Find]>([
    ['throws', throws],
    ['rejects', rejects],
    ['does not answer', isSilent],
    ['is slow', async (key: string) => pause(80).then(() => fromDatabase(key))],
  ])('(it %s) the last good options of a tenant are used, with its state', async (_, fault) => {
    const { get, stateKey, asked, skip, answerWith } = await failing(fault);
    for (let call = 0; call < 3; call++) {
      expect((await get()).stateKey).toBe(stateKey);
    }
    expect(asked).toEqual(['acme', 'acme']);
    await pause(100);
    answerWith(() => apiOnly('acme', { tenantId: 'newer' }));
    skip(10_000);
    expect((await get()).tenantId).toBe('newer');
  });

  it('a source that does not answer leaves half of its deadline to a call', async () => {
    const { source, get, list, skip } = await boot(fromDatabase, { http: { deadline: 1_500 } });
    await get();
    source.find = isSilent;
    skip();
    expect((await list('acme', 1_500)).data).toHaveLength(7);
  });

  it.each<[string, number | null]>([
    ['of the tenant', null],
    ['of the call', 400],
  ])('a source that does not answer leaves half of its deadline to a call: that %s', async (_, deadline) => {
    const ofTenant = () => apiOnly('acme', { http: { deadline: 400 } });
    const { source, list, skip } = await boot(ofTenant, { http: { deadline: 2_000 } });
    await list('acme', deadline);
    source.find = isSilent;
    skip();
    const began = performance.now();
    expect((await list('acme', deadline)).data).toHaveLength(7);
    expect(performance.now() - began).toBeLessThan(400);
  });

  it('a source that does not answer leaves a reading of several pages after half of the deadline of the tenant', async () => {
    const ofTenant = () => apiOnly('acme', { http: { deadline: 400 } });
    const { source, exhibitors, get, skip } = await boot(ofTenant, { http: { deadline: 4_000 } });
    await get();
    source.find = isSilent;
    skip();
    const began = performance.now();
    for await (const { data } of exhibitors.iteratePages('boutique-2026', { tenant: 'acme' })) {
      expect(data).toHaveLength(7);
    }
    expect(performance.now() - began).toBeLessThan(1_000);
  });

  it('a source that answered, but too late for a call, is asked again when the ttl is over', async () => {
    const { source, asked, get, list, skip } = await boot(fromDatabase, { tenantCache: { ttl: 1_000 } });
    await get();
    source.find = async (key) => pause(150).then(() => fromDatabase(key));
    skip(1_001);
    await list('acme', 200).catch(() => undefined);
    await pause(150);
    skip(1_001);
    await get();
    expect(asked).toHaveLength(3);
  });

  it('the source is asked again every 5 s', async () => {
    const { get, asked, skip } = await failing();
    await get();
    skip(4_000);
    await get();
    expect(asked).toHaveLength(2);
    skip(1_000);
    await get();
    expect(asked).toHaveLength(3);
  });

  it('the source is asked again 5 s after a read has failed, not after a caller with less time has left', async () => {
    const { source, asked, get, list, skip } = await boot(fromDatabase, { http: { deadline: 2_000 } });
    await get();
    source.find = isSilent;
    skip();
    // Leaves after 100 ms; the read fails after 1 s.
    await list('acme', 200).catch(() => undefined);
    skip(4_500);
    await eventually(() => logged.warnings.length > 0);
    skip(4_500);
    await get();
    expect(asked).toHaveLength(2);
    source.find = fromDatabase;
    skip(500);
    await get();
    expect(asked).toHaveLength(3);
  });

  it.each<[tenantCache: object, usable: number]>([
    [{}, 3_600_000],
    [{ staleIfError: 0 }, 0],
  ])(
    'they are used for staleIfError ms after the ttl, an hour by default: %j, %i',
    async (options, usable) => {
      const { get, skip } = await failing(rejects, options);
      if (usable > 0) {
        skip(usable - 10_000);
        expect(await get()).toMatchObject({ key: 'acme' });
      }
      skip(11_000);
      await expect(get()).rejects.toMatchObject(unavailable);
    },
  );

  it.each<[string, Find, string]>([
    ['no tenant', () => undefined, 'unknown_tenant'],
    ['unknown_tenant', () => Promise.reject(noSuchCustomer), 'unknown_tenant'],
    ['wrong options', () => apiOnly('acme', { tenantId: '' }), 'configuration_invalid'],
  ])('%s is an answer, no failure: they are not used after it', async (_, answer, code) => {
    const { get, answerWith, skip } = await failing(answer);
    await expect(get()).rejects.toMatchObject({ code });
    skip(6_000);
    answerWith(rejects);
    await expect(get()).rejects.toMatchObject(unavailable);
  });

  it('allowedOrigins is named where it throws, and the last good options are used', async () => {
    let fails = false;
    const allowedOrigins = () => {
      if (fails) {
        throw new Error('no list of origins');
      }
      return true;
    };
    const { get, skip } = await boot(fromDatabase, { allowedOrigins });
    const { stateKey } = await get();
    fails = true;
    skip();
    expect((await get()).stateKey).toBe(stateKey);
    const refusal = { code: 'configuration_invalid', problems: [{ path: 'allowedOrigins' }] };
    await expect(get('globex')).rejects.toMatchObject(refusal);
    const line = (key: string, effect: string) =>
      expect.stringContaining(
        `the option allowedOrigins fails for the tenant '${key}'; ${effect} (Error)\n    Error: no list of origins\n        at `,
      );
    expect([logged.warnings, logged.errors]).toEqual([
      [line('acme', 'its last good options are used for 3600000 ms at most')],
      [line('globex', 'no options of it can be used')],
    ]);
    fails = false;
    expect(await get('globex')).toMatchObject({ key: 'globex' });
  });

  it.each(UNREADABLE)(
    '(it throws %s, which cannot be read) they are used, others fail, and the log tells both',
    async (_, thrown) => {
      const { get, stateKey } = await failing(() => Promise.reject(thrown));
      expect((await get()).stateKey).toBe(stateKey);
      await expect(get('globex')).rejects.toHaveProperty('code', expect.any(String));
      const line = (key: string) =>
        expect.stringMatching(`^the tenant source fails for the tenant '${key}'; .* \\(.+\\)\n    `);
      expect([logged.warnings, logged.errors]).toEqual([[line('acme')], [line('globex')]]);
    },
  );

  const withProblems = (code: 'configuration_invalid' | 'rate_limited', problems: unknown) =>
    Object.assign(new ExhibitorError(code, 'of the host'), { problems });
  it.each<[string, Error]>([
    ['another code', withProblems('rate_limited', [{ path: 'a', expected: 'b' }])],
    ['null', withProblems('configuration_invalid', null)],
    ['a text', withProblems('configuration_invalid', 'none')],
    ['a list of null', withProblems('configuration_invalid', [null])],
    ['no texts', withProblems('configuration_invalid', [{ path: 'a', expected: 1 }])],
  ])('an error of the host with problems, but %s, is a failure, no refusal', async (_, thrown) => {
    const { get, stateKey, skip } = await failing(() => Promise.reject(thrown));
    for (let call = 0; call < 2; call++) {
      expect((await get()).stateKey).toBe(stateKey);
      await expect(get('globex')).rejects.toBe(thrown);
      skip(5_001);
    }
    const line = (key: string) =>
      expect.stringMatching(`^the tenant source fails .*'${key}'; .*: of the host$`);
    expect([logged.warnings, logged.errors]).toEqual([[line('acme')], [line('globex')]]);
  });

  it('the log says why once a minute for each tenant', async () => {
    const { get, skip, answerWith } = await failing(fromDatabase, { staleIfError: 1_800_000 });
    await get('globex');
    answerWith(rejects);
    for (let call = 0; call < 6; call++) {
      await get();
      await get('globex');
      skip(5_500);
    }
    const lineOf = (key: string) =>
      expect.stringMatching(
        `^the tenant source fails for the tenant '${key}'; its last good options are used for 1800000 ms at most \\(Error\\)\n` +
          `    Error: ${databaseDown.message}\n        at `,
      );
    expect(logged.warnings).toEqual([lineOf('acme'), lineOf('globex')]);
    skip(30_000);
    await get();
    expect(logged.warnings).toHaveLength(3);
  });

  const refused = Object.assign(new Error(), { code: 'ECONNREFUSED', address: '::1', port: 5432 });
  it.each([
    [
      'throws',
      new Error('no column\n"login" in postgres://me:pass@db'),
      ' (Error)\n    Error: no column\n    "login" in [removed]\n        at ',
    ],
    ['throws a long text', new Error('x'.repeat(1_999)), ` (Error)\n    Error: ${'x'.repeat(993)}…\n`],
    [
      'throws without a message',
      new AggregateError([refused]),
      ' (ECONNREFUSED ::1:5432)\n    AggregateError\n',
    ],
    ['does not answer', undefined, ': the tenant source did not answer in time'],
  ])(
    '(it %s) the log says why of tenants that were never read, one line a minute for all',
    async (_, thrown, reason) => {
      const { get, skip } = await boot(thrown === undefined ? isSilent : () => Promise.reject(thrown), {
        http: { deadline: 20, attemptTimeout: 20 },
      });
      const lineOf = (key: string) =>
        expect.stringContaining(
          `the tenant source fails for the tenant '${key}'; no options of it can be used${reason}`,
        );
      for (const key of ['acme', 'acme', 'globex']) {
        await get(key).catch(() => undefined);
      }
      // Visitors can make up keys: they must not fill the log. A read ends a moment after its caller.
      await pause(20);
      expect(logged.errors).toEqual([lineOf('acme')]);
      skip();
      await get('globex').catch(() => undefined);
      await pause(20);
      expect(logged.errors).toEqual([lineOf('acme'), lineOf('globex')]);
    },
  );
});

describe('functions of a tenant that was read again', () => {
  it('are called in their newest form', async () => {
    const called: string[] = [];
    const secretOf = (read: string) => () =>
      apiOnly('acme', {
        clientSecret: () => {
          called.push(read);
          return String(apiOnly().clientSecret);
        },
      });
    const { source, asked, tokens, tokenOf, skip } = await boot(secretOf('first'));
    await tokenOf();
    source.find = secretOf('second');
    skip(300_000);
    await tokenOf();
    expect([asked.length, tokenRequests()]).toEqual([2, 1]);
    await tokens.invalidate({ tenant: 'acme' });
    await tokenOf();
    expect(called).toEqual(['first', 'second']);
  });

  it('replace only the connections where http.dispatcher is another one', async () => {
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
    const withDispatcher = (read: number) => () =>
      apiOnly('acme', { http: { dispatcher: dispatcherOf(read) } });
    const { source, tokenOf, list, skip } = await boot(withDispatcher(1));
    const accessToken = await tokenOf();
    source.find = withDispatcher(2);
    skip();
    await Promise.all([list(), list()]);
    expect([await tokenOf(), used]).toEqual([accessToken, [1, 2, 2]]);
    expect(agents).toHaveLength(2);
    await Promise.all(agents.map((agent) => agent.close()));
  });
});

describe('reads of a source at a time', () => {
  it('are 32, of which keys that visitors make up take 16: the tenants that were good before are served', async () => {
    const { source, asked, get, registry, skip } = await boot(() => apiOnly(), { http: { deadline: 1_000 } });
    const known = Array.from({ length: 40 }, (_, index) => `known-${index}`);
    // More than there are places: others wait, and none fails.
    await Promise.all(known.map(get));
    skip();
    asked.length = 0;
    source.find = isSilent;
    const madeUp = Array.from({ length: 100 }, (_, index) =>
      get(`made-up-${index}`).catch(({ code }) => code),
    );
    expect(asked).toHaveLength(16);
    const began = performance.now();
    // 16 wait for their read, up to half of the deadline; for the others there is no place.
    const served = known.map(get);
    await Promise.all(served.slice(16));
    expect(performance.now() - began).toBeLessThan(400);
    expect(asked).toHaveLength(32);
    expect(await Promise.all(served)).toHaveLength(40);
    expect(new Set(await Promise.all(madeUp))).toEqual(new Set(['deadline_exceeded']));
    source.find = () => apiOnly();
    // A made-up key that got a place in its last moment has it for a deadline.
    expect(await registry.find('new', 3_000)).toMatchObject({ key: 'new' });
  });

  it('are refused where more than 1,000 wait, which is told as no fault of the source', async () => {
    const { source, asked, get } = await boot(() => apiOnly(), { http: { deadline: 500 } });
    source.find = isSilent;
    const all = Array.from({ length: 1_020 }, (_, index) =>
      get(`made-up-${index}`).catch(({ code, retryAfterMs }) => `${code} ${retryAfterMs}`),
    );
    expect(asked).toHaveLength(16);
    const codes = await Promise.all(all);
    expect(codes.filter((code) => code === 'service_unavailable 1000')).toHaveLength(4);
    const told = /too many keys of tenants are being read/;
    expect(logged.errors.filter((line) => told.test(line))).toEqual([]);
    expect(logged.warnings.filter((line) => told.test(line))).toHaveLength(1);
  });

  const allAt = (count: number, get: (key: string) => Promise<unknown>) =>
    Promise.all(
      Array.from({ length: count }, (_, index) =>
        get(`made-up-${index}`).catch(({ code, message }) => `${code}: ${message}`),
      ),
    );
  const own = 'deadline_exceeded: too many keys of tenants are being read';
  const ownLine =
    'too many keys of tenants are being read at once: the tenant source is slow, or visitors make up keys';

  it('that get no place in time are told as no fault of a source that answers each in time', async () => {
    const find = async () => pause(300).then(() => undefined);
    const { asked, get } = await boot(find, { http: { deadline: 1_000 } });
    const texts = await allAt(100, get);
    const others = texts.filter((text) => text !== own);
    expect(new Set(others)).toEqual(new Set(['unknown_tenant: there is no such tenant']));
    expect(others.length).toBeGreaterThanOrEqual(32);
    expect(others.length).toBeLessThanOrEqual(48);
    // The reads that began late have their whole time, and what they find is kept.
    await pause(400);
    expect([logged.warnings, logged.errors]).toEqual([[ownLine], []]);
    const last = asked.at(-1) ?? '';
    const count = asked.length;
    await expect(get(last)).rejects.toMatchObject({ code: 'unknown_tenant' });
    expect(asked).toHaveLength(count);
  });

  it('that waited for a place have their whole time with the source: callers join them, and what they find is kept', async () => {
    const { asked, get } = await boot(async () => pause(200).then(() => apiOnly()), {
      http: { deadline: 300 },
    });
    const first = allAt(16, get);
    const waiting = get().catch(({ code }) => code);
    await first;
    expect(await waiting).toBe('deadline_exceeded');
    await pause(30);
    // The read began 330 ms ago, and its source 130 ms ago.
    await get();
    await get();
    expect(asked.filter((key) => key === 'acme')).toHaveLength(1);
  });

  it('that waited for a place and never end are joined no longer than that', async () => {
    const { source, asked, get } = await boot(async () => pause(100).then(() => apiOnly()), {
      http: { deadline: 300 },
    });
    const first = allAt(16, get);
    const settled = () => get().catch(() => undefined);
    const callers = [settled()];
    source.find = isSilent;
    await first;
    for (let call = 0; call < 6; call++) {
      callers.push(settled());
      await pause(100);
    }
    expect(asked.filter((key) => key === 'acme')).toHaveLength(2);
    await Promise.all(callers);
  });

  it('of a silent source are told as its error, and those that wait for a place as too many keys', async () => {
    const { get } = await boot(isSilent, { http: { deadline: 200 } });
    const texts = await allAt(40, get);
    const late = 'deadline_exceeded: the tenant source did not answer in time';
    expect(texts).toEqual([...Array(16).fill(late), ...Array(24).fill(own)]);
    await eventually(() => logged.errors.length > 0 && logged.warnings.length > 0);
    expect(logged.errors).toEqual([
      expect.stringMatching(/^the tenant source fails for the tenant 'made-up-/),
    ]);
    expect(logged.warnings).toEqual([ownLine]);
  });

  it('of a source that goes silent while others wait are told as its error', async () => {
    const { source, asked, get } = await boot(async () => pause(100).then(() => undefined), {
      http: { deadline: 300 },
    });
    const waiting = allAt(60, get);
    await pause(50);
    source.find = isSilent;
    await waiting;
    expect(asked.length).toBeLessThanOrEqual(48);
    await eventually(() => logged.errors.length > 0);
    expect(logged.errors).toEqual([expect.stringContaining('the tenant source did not answer in time')]);
  });

  it('give a place that is free to a tenant that was good and waits, though made-up keys wait before it', async () => {
    const clock = new Clock();
    const calls = new Calls(clock);
    const asked = new Map<string, () => void>();
    const find = (key: string) =>
      new Promise<undefined>((resolve) => asked.set(key, () => resolve(undefined)));
    const reads = new SourceReads({ find }, clock);
    const start = (name: string, count: number, wasGood: boolean): void => {
      for (let index = 0; index < count; index += 1) {
        reads.find(`${name}-${index}`, wasGood, calls.start(5_000)).catch(() => undefined);
      }
    };
    start('made-up', 20, false);
    start('good', 17, true);
    expect(asked.size).toBe(32);
    asked.get('good-0')?.();
    await pause(10);
    expect([...asked.keys()].slice(32)).toEqual(['good-16']);
    asked.get('made-up-0')?.();
    await pause(10);
    expect([...asked.keys()].slice(33)).toEqual(['made-up-16']);
  });
});

describe('what the registry keeps', () => {
  it('wrong options for 5 s, which displace no known tenant', async () => {
    const { source, asked, get, skip } = await boot(apiOnly, { tenantCache: { max: 1 } });
    const refusal = { code: 'configuration_invalid', tenant: 'acme' };
    await get('globex');
    source.find = (key) => apiOnly(key, { tenantId: '' });
    for (let call = 0; call < 3; call++) {
      await expect(get()).rejects.toMatchObject(refusal);
    }
    await get('globex');
    expect(asked).toEqual(['globex', 'acme']);
    source.find = apiOnly;
    skip(4_000);
    await expect(get()).rejects.toMatchObject(refusal);
    skip(1_000);
    expect(await get()).toMatchObject({ key: 'acme' });
    expect(asked).toEqual(['globex', 'acme', 'acme']);
  });

  it('unknown keys briefly, which may be any text and displace no known tenant', async () => {
    const { asked, get } = await boot(fromDatabase, { tenantCache: { max: 3 } });
    const known = () => Promise.all(sandbox.tenants.map(({ key }) => get(key)));
    const before = await known();
    const inherited = ['__proto__', 'constructor', 'toString', 'hasOwnProperty', 'find'];
    const madeUp = [...inherited, ...Array.from({ length: 50 }, (_, index) => `made-up-${index}`)];
    for (const tenant of [...madeUp, ...madeUp]) {
      await expect(get(tenant)).rejects.toMatchObject({ code: 'unknown_tenant', tenant });
    }
    expect(await known()).toEqual(before);
    expect(asked).toHaveLength(before.length + madeUp.length);
  });

  it('of 1,000 made-up keys that these are unknown, and no error', async () => {
    const { asked, get } = await boot(fromDatabase);
    const first = await get('made-up-0').catch((error: unknown) => error);
    const again = await get('made-up-0').catch((error: unknown) => error);
    expect([again, again === first, asked.length]).toEqual([first, false, 1]);
    for (let index = 1; index <= 1_000; index++) {
      await get(`made-up-${index}`).catch(() => undefined);
    }
    await get('made-up-1').catch(() => undefined);
    expect(asked).toHaveLength(1_001);
    await get('made-up-0').catch(() => undefined);
    expect(asked).toHaveLength(1_002);
  });

  it('of wrong options what is wrong, for each caller in an error of its own', async () => {
    const { get } = await boot(() => apiOnly('acme', { tenantId: '' }));
    const [first, again] = [await get().catch((e: unknown) => e), await get().catch((e: unknown) => e)];
    expect(again).toEqual(first);
    expect(again).toMatchObject({
      problems: [{ path: 'tenants.acme.tenantId', expected: 'must not be empty' }],
    });
    expect(again === first).toBe(false);
  });

  it('the tenants that were used last, tenantCache.max of them, with their tokens', async () => {
    const { asked, tokenOf } = await boot(fromDatabase, { tenantCache: { max: 2 } });
    for (const tenant of ['acme', 'globex', 'acme', 'initech', 'acme', 'globex']) {
      await tokenOf(tenant);
    }
    expect(asked).toEqual(['acme', 'globex', 'initech', 'globex']);
    expect(tokenRequests()).toBe(4);
  });
});

describe('a tenant that is forgotten', () => {
  it('is read again at its next use, and requests another token, without effect on other tenants', async () => {
    const { asked, registry, tokenOf } = await boot();
    const [acme, globex] = [await tokenOf(), await tokenOf('globex')];
    registry.forget('acme');
    registry.forget('nobody');
    expect(await tokenOf()).not.toBe(acme);
    expect(await tokenOf('globex')).toBe(globex);
    expect([asked, tokenRequests()]).toEqual([['acme', 'globex', 'acme'], 3]);
  });

  it('is requested again at once where it was unknown', async () => {
    const { source, registry, get } = await boot(() => undefined);
    const unknown = { code: 'unknown_tenant' };
    await expect(get()).rejects.toMatchObject(unknown);
    source.find = fromDatabase;
    await expect(get()).rejects.toMatchObject(unknown);
    registry.forget('acme');
    expect(await get()).toMatchObject({ key: 'acme' });
  });

  it.each<[what: string, late: () => TenantOptions | undefined, end: string]>([
    ['found one', () => apiOnly('acme', { tenantId: 'old' }), 'old'],
    ['found none', () => undefined, 'unknown_tenant'],
  ])('is not changed by an earlier request that %s', async (_what, late, end) => {
    const answers: ((options: TenantOptions | undefined) => void)[] = [];
    const { asked, registry, get } = await boot(() => new Promise((resolve) => void answers.push(resolve)));
    const before = get().then(
      ({ tenantId }) => tenantId,
      ({ code }) => code,
    );
    registry.forget('acme');
    const after = get();
    answers[1]?.(apiOnly('acme', { tenantId: 'new' }));
    expect(await after).toMatchObject({ tenantId: 'new' });
    answers[0]?.(late());
    expect(await before).toBe(end);
    expect(await get()).toMatchObject({ tenantId: 'new' });
    expect(asked).toHaveLength(2);
  });
});
