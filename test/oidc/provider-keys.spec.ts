import { afterEach, beforeEach, describe, expect, it } from '@jest/globals';
import type { INestApplicationContext } from '@nestjs/common';
import { NestFactory } from '@nestjs/core';
import type { CompactVerifyGetKey, JWK } from 'jose';
import { Agent } from 'undici';
import {
  ExhibitorModule,
  TenantRegistry,
  TokenValidator,
  type ExhibitorModuleOptions,
  type LoginOptions,
  type TenantOptions,
} from '../../lib/index.js';
import { OpenIdProvider } from '../../lib/oidc/openid-provider.service.js';
import { checkOptions } from '../../lib/options/check-options.js';
import type { Problem } from '../../lib/problems/problem.interface.js';
import type { Tenant } from '../../lib/tenants/tenant.js';
import { Clock } from '../../lib/time/clock.js';
import { Deadline } from '../../lib/time/deadline.js';
import type { TransportReply } from '../../lib/transport/transport-request.interface.js';
import { withProvider } from '../login/hosts.js';
import { expectAccepted, expectRefusal, identityOf, logIn } from '../login/journey.js';
import { clockOf, StoppedClock } from '../support/clock.js';
import { COOKIE_SECRET, type Host } from '../support/host.js';
import type { TenantsOption } from '../support/module-options.js';
import { certificateOf } from '../support/provider-certificate.js';
import { KEYS, sign, signingKey, type SigningKey } from '../support/provider-keys.js';
import { answers, changes, sends } from '../support/provider-script.js';
import { CLIENT_ID, type LoginOverrides, type ScriptedProvider } from '../support/provider.js';
import { registryOf } from '../support/registry.js';
import { Visitor } from '../support/visitor.js';
import { tenantAt } from '../transport/transport-bench.js';

const { rs256, ps256, es256, next, attacker } = KEYS;
const JWKS = '/connect/jwks';
const PUBLISHED = { keys: [rs256.jwk, ps256.jwk, es256.jwk] };

let provider: ScriptedProvider;
const start = withProvider((started) => (provider = started));
afterEach(() => {
  provider.key = rs256;
  provider.jwks = PUBLISHED;
});

const SECOND = 1_000;
const MINUTE = 60 * SECOND;
const HOUR = 60 * MINUTE;

const LOGIN = {
  clientId: 'web',
  redirectUri: 'https://host.example/auth/callback',
  issuer: 'https://login.example',
  keys: 'https://login.example/jwks',
};

function tenantWith(deadline: number): Tenant {
  const options = checkOptions({
    tenant: { ...tenantAt('https://api.example'), http: { deadline }, login: LOGIN },
    secrets: [COOKIE_SECRET],
  });
  const [tenant] = registryOf(options, new StoppedClock()).fixed;
  if (tenant === undefined) {
    throw new Error('there is one tenant');
  }
  return tenant;
}

/** Those of the kids `a` and `b` for which there is a key. */
async function kidsOf(getKey: CompactVerifyGetKey): Promise<string[]> {
  const found = await Promise.allSettled(['a', 'b'].map(async (kid) => (await keyOf(getKey, kid)) && kid));
  return found.flatMap((result) => (result.status === 'fulfilled' ? [result.value] : []));
}

function keyOf(getKey: CompactVerifyGetKey, kid?: string, alg = 'RS256'): ReturnType<CompactVerifyGetKey> {
  return getKey({ alg, kid }, { payload: '', signature: '' });
}

const keyNamed = (kid: string): JWK => ({ ...KEYS.rs256.jwk, kid });

describe('the keys behind a URL', () => {
  let clock: StoppedClock;
  let keys: OpenIdProvider;
  let tenant: Tenant;
  let published: unknown;
  let fetches: number;
  let problems: Problem[];
  let reply: () => Promise<unknown>;
  const send = async (): Promise<TransportReply> => {
    fetches++;
    return { status: 200, body: await reply(), sentAt: 0 };
  };

  const keysFor = async (kid?: string, used?: CompactVerifyGetKey): Promise<CompactVerifyGetKey> => {
    const deadline = new Deadline(clock, tenant.http.deadline);
    return keys.keysFor(tenant, kid, deadline, used).finally(() => deadline.clear());
  };
  const newerThan = (used: CompactVerifyGetKey): Promise<CompactVerifyGetKey> => keysFor(undefined, used);
  const kids = async (kid?: string): Promise<string[]> => kidsOf(await keysFor(kid));

  beforeEach(() => {
    clock = new StoppedClock();
    problems = [];
    keys = new OpenIdProvider(
      checkOptions({ tenant: tenantAt('https://api.example') }),
      { send, dispatcherOf: () => undefined },
      {
        within: (ms, work) => {
          const deadline = new Deadline(clock, ms);
          return work(deadline).finally(() => deadline.clear());
        },
      },
      clock,
      { report: (_, problem) => void (problem && problems.push(problem)) },
    );
    tenant = tenantWith(10 * SECOND);
    published = { keys: [keyNamed('a')] };
    fetches = 0;
    reply = async () => {
      if (published instanceof Error) {
        throw published;
      }
      return published;
    };
  });

  it('are fetched at first use, and not again for ten minutes', async () => {
    expect(fetches).toBe(0);
    expect(await kids('a')).toEqual(['a']);
    clock.time += 10 * MINUTE - 1;
    expect(await kids('a')).toEqual(['a']);
    expect(await kids()).toEqual(['a']);
    expect(fetches).toBe(1);
    clock.time += 1;
    await kids('a');
    expect(fetches).toBe(2);
  });

  it('are fetched once for concurrent callers', async () => {
    await Promise.all(Array.from({ length: 20 }, () => kids('a')));
    expect(fetches).toBe(1);
  });

  it('are fetched again at once for a kid that appeared right after the first fetch', async () => {
    await kids('a');
    published = { keys: [keyNamed('a'), keyNamed('b')] };
    expect(await kids('b')).toEqual(['a', 'b']);
    expect(fetches).toBe(2);
  });

  it('are fetched again for an unknown kid at most every 30 s, counted from the last such fetch', async () => {
    await kids('a');
    await kids('forged');
    published = { keys: [keyNamed('a'), keyNamed('b')] };
    clock.time += 30 * SECOND - 1;
    expect(await kids('b')).toEqual(['a']);
    expect(fetches).toBe(2);
    clock.time += 1;
    expect(await kids('b')).toEqual(['a', 'b']);
    expect(fetches).toBe(3);
  });

  it('are fetched twice in a storm of forged kids, one after the other or all at once', async () => {
    await Promise.all(Array.from({ length: 100 }, (_, index) => kids(`early-${index}`)));
    expect(fetches).toBe(2);
    for (let forged = 0; forged < 100; forged++) {
      await kids(`forged-${forged}`);
    }
    expect(fetches).toBe(2);
  });

  it('are fetched again for an unknown kid right after a regular refresh', async () => {
    await kids('a');
    clock.time += 10 * MINUTE;
    await kids('a');
    published = { keys: [keyNamed('b')] };
    expect(await kids('b')).toEqual(['b']);
    expect(fetches).toBe(3);
  });

  it('are not fetched again within 30 s of a failed fetch for an unknown kid', async () => {
    await kids('a');
    published = new Error('down');
    expect(await kids('b')).toEqual(['a']);
    published = { keys: [keyNamed('b')] };
    clock.time += 30 * SECOND - 1;
    expect(await kids('b')).toEqual(['a']);
    clock.time += 1;
    expect(await kids('b')).toEqual(['b']);
    expect(fetches).toBe(3);
  });

  it('are fetched again where they do not fit a signature, under the same limit', async () => {
    const used = await keysFor();
    published = { keys: [keyNamed('b')] };
    const [newer, same] = await Promise.all([newerThan(used), newerThan(used)]);
    expect(await kidsOf(newer)).toEqual(['b']);
    expect(same).toBe(newer);
    expect(fetches).toBe(2);
    expect(await newerThan(used)).toBe(newer);
    expect(await newerThan(newer)).toBe(newer);
    await kids('forged');
    expect(fetches).toBe(2);
  });

  it('are not fetched again for a token without kid', async () => {
    await kids('a');
    clock.time += MINUTE;
    expect(await kids()).toEqual(['a']);
    expect(fetches).toBe(1);
  });

  it('drop keys that are no longer published', async () => {
    await kids('a');
    published = { keys: [keyNamed('b')] };
    clock.time += 10 * MINUTE;
    expect(await kids('a')).toEqual(['b']);
  });

  it('stay the last good ones while the fetch fails, for a day', async () => {
    await kids('a');
    published = new Error('down');
    clock.time += 10 * MINUTE;
    expect(await kids('a')).toEqual(['a']);
    clock.time = 24 * HOUR - 1;
    expect(await kids('a')).toEqual(['a']);
    clock.time = 24 * HOUR;
    await expect(kids('a')).rejects.toThrow('down');
  });

  it('stay the last good ones while something invalid is published', async () => {
    await kids('a');
    for (published of [null, [], 'keys', {}, { keys: [] }, { keys: [{ kty: 'oct', k: 'AAAA' }] }]) {
      clock.time += 10 * MINUTE;
      expect(await kids('a')).toEqual(['a']);
    }
    expect(fetches).toBe(7);
  });

  it('are fetched at most every 30 s while the fetch fails, with or without good ones', async () => {
    published = new Error('down');
    await expect(kids('a')).rejects.toThrow('down');
    clock.time += 30 * SECOND - 1;
    await expect(kids('b')).rejects.toThrow('down');
    expect(fetches).toBe(1);
    clock.time += 1;
    published = { keys: [keyNamed('a')] };
    expect(await kids('a')).toEqual(['a']);
    expect(fetches).toBe(2);

    published = new Error('down again');
    clock.time += 10 * MINUTE;
    await kids('a');
    await kids('a');
    clock.time += 30 * SECOND - 1;
    await kids('a');
    expect(fetches).toBe(3);
    clock.time += 1;
    await kids('a');
    expect(fetches).toBe(4);
  });

  it('are replaced by a new set as soon as it can be fetched', async () => {
    await kids('a');
    published = new Error('down');
    clock.time += 10 * MINUTE;
    await kids('a');
    published = { keys: [keyNamed('b')] };
    clock.time += 30 * SECOND;
    expect(await kids('b')).toEqual(['b']);
  });

  it('ignore unusable, private and symmetric keys, also those of the kid or the type of a usable one', async () => {
    const privateKey = KEYS.attacker.privateKey.export({ format: 'jwk' });
    const bad: Record<string, unknown>[] = [
      {},
      { kty: 7 },
      { kty: 'LMS' },
      { kty: 'RSA', n: '!', e: '!' },
      { kty: 'RSA', n: 'sXch', e: 'AQAB' },
      { kty: 'EC', crv: 'P-0', x: 'AA', y: 'AA' },
      { kty: 'EC', crv: 'P-256', x: KEYS.es256.jwk.y, y: KEYS.es256.jwk.x },
      { kty: 'oct', k: 'AAAA' },
      privateKey,
    ];
    const good = [keyNamed('a'), { ...KEYS.es256.jwk, kid: 'b', alg: undefined }];
    for (const kid of [undefined, 'other', 'a', 'b']) {
      published = { keys: [null, 7, 'key', ...bad.map((jwk) => ({ ...jwk, kid })), ...good] };
      clock.time += 10 * MINUTE;
      const getKey = await keysFor('a');
      for (const asked of [undefined, 'a']) {
        expect(await keyOf(getKey, asked)).toMatchObject({ algorithm: { modulusLength: 2048 } });
      }
      for (const asked of [undefined, 'b']) {
        expect(await keyOf(getKey, asked, 'ES256')).toMatchObject({ algorithm: { namedCurve: 'P-256' } });
      }
    }
  });

  it('are none where a token has no kid and several of its type are usable', async () => {
    published = { keys: [keyNamed('a'), { ...keyNamed('b'), alg: undefined }] };
    await expect(keyOf(await keysFor())).rejects.toMatchObject({ code: 'ERR_JWKS_MULTIPLE_MATCHING_KEYS' });
    expect(await kids('a')).toEqual(['a', 'b']);
  });

  it('are at most 100: the operator hears of a larger set, and the last good one is used', async () => {
    published = {
      keys: Array.from({ length: 100 }, (_, index) => keyNamed(index === 99 ? 'a' : `key-${index}`)),
    };
    expect(await kids('a')).toEqual(['a']);
    expect(problems).toEqual([]);
    published = {
      keys: Array.from({ length: 101 }, (_, index) => keyNamed(index === 50 ? 'b' : `key-${index}`)),
    };
    clock.time += 10 * MINUTE;
    expect(await kids('a')).toEqual(['a']);
    expect(problems).toMatchObject([
      { cause: 'keys', expected: expect.stringContaining('at most 100 keys') },
    ]);
    clock.time += 24 * HOUR;
    await expect(kids('a')).rejects.toMatchObject({ reason: 'provider' });
  });

  it('are never those with a giant exponent or modulus, whose import takes a second', async () => {
    const giant = Buffer.alloc(90_000, 0xf1).toString('base64url');
    published = { keys: [{ ...keyNamed('a'), e: giant }, { ...keyNamed('a'), n: giant }, keyNamed('b')] };
    const began = process.cpuUsage();
    expect(await kids()).toEqual(['b']);
    expect(process.cpuUsage(began).user / 1_000).toBeLessThan(200);
    published = { keys: [{ ...keyNamed('a'), e: giant }] };
    clock.time += 24 * HOUR;
    await expect(kids('a')).rejects.toMatchObject({ reason: 'provider' });
  });
});

let app: INestApplicationContext | undefined;

function tenantOf(own: Partial<TenantOptions> = {}, keys = `${provider.url}${JWKS}`): TenantOptions {
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

const idToken = (key = rs256): Promise<string> => {
  const now = Math.floor(Date.now() / 1000);
  const claims = { iss: provider.url, sub: 'pat', aud: CLIENT_ID, iat: now, exp: now + 300 };
  return sign(JSON.stringify(claims), key);
};

async function validate(key: string, signedBy = rs256): Promise<unknown> {
  return app?.get(TokenValidator).validate(await idToken(signedBy), { tenant: key, use: 'id_token' });
}

const fetches = (): number => provider.count(JWKS);

describe('the keys of a URL', () => {
  afterEach(async () => {
    await app?.close();
    app = undefined;
    provider.seen.length = 0;
  });

  it('are fetched once for all tenants that name it', async () => {
    const keys = Array.from({ length: 20 }, (_, index) => `tenant-${index}`);
    await boot(Object.fromEntries(keys.map((key) => [key, tenantOf()])));
    await Promise.all(keys.map((key) => validate(key)));
    expect(fetches()).toBe(1);
    provider.jwks = { keys: [next.jwk] };
    await Promise.all(keys.map((key) => validate(key, next)));
    expect(fetches()).toBe(2);
  });

  it('are fetched twice in 30 s for forged key ids, at however many tenants', async () => {
    await boot({ acme: tenantOf(), globex: tenantOf(), initech: tenantOf() });
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
    await boot({ acme: tenantOf(), globex: tenantOf({}, `${provider.url}${JWKS}?tenant=globex`) });
    await Promise.all([validate('acme'), validate('globex')]);
    expect(fetches()).toBe(2);
  });

  it('are fetched for each dispatcher apart: a broken proxy of one tenant hides no keys from another', async () => {
    const shared = new Agent();
    const broken = new Agent({ connect: { socketPath: '/nonexistent/proxy.sock' } });
    try {
      await boot({
        acme: tenantOf({ http: { dispatcher: () => broken } }),
        globex: tenantOf(),
        initech: tenantOf({ http: { dispatcher: () => shared } }),
        umbrella: tenantOf({ http: { dispatcher: () => shared } }),
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
    await boot({ acme: tenantOf(), globex: tenantOf() });
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

const es384 = signingKey('ES384');
const pkcs1 = rs256.publicKey.export({ format: 'pem', type: 'pkcs1' }).toString();
const { kid: _kid, alg: _alg, use: _use, ...bareJwk } = rs256.jwk;

const hostWith = (login: LoginOverrides): Promise<Host> => start({ login });

async function expectRefused(host: Host, reason: string): Promise<void> {
  const visitor = new Visitor();
  expectRefusal(await logIn(visitor, host), reason);
  expect(await identityOf(visitor, host)).toBeUndefined();
}

/** The provider signs with another key and publishes that alone. */
function rotateTo(key: SigningKey): void {
  provider.key = key;
  provider.jwks = { keys: [{ ...key.jwk, kid: key.kid }] };
}

/** Keys that no token names. */
const manyKeys = (count: number): object[] =>
  Array.from({ length: count }, (_, index) => ({ ...es384.jwk, kid: `key-${index}` }));

const withoutKid = (key: SigningKey): SigningKey => ({ ...key, kid: undefined });

describe('a public key as', () => {
  const forms: readonly [form: string, keys: LoginOptions['keys'], signed: readonly SigningKey[]][] = [
    ['PEM (SPKI)', rs256.pem, [rs256, ps256]],
    ['PEM (PKCS#1)', pkcs1, [rs256, ps256]],
    ['PEM (certificate)', certificateOf(rs256), [rs256, ps256]],
    ['PEM of an elliptic curve', es256.pem, [es256]],
    [
      'PEM with Windows line ends and white space around',
      `\r\n${rs256.pem.replaceAll('\n', '\r\n')} `,
      [rs256],
    ],
    ['JWK without kid and alg', bareJwk, [rs256, ps256]],
    ['JWK as JSON', JSON.stringify(bareJwk), [rs256, ps256]],
    ['JWKS as JSON', JSON.stringify({ keys: [bareJwk] }), [rs256]],
  ];
  const cases = forms.flatMap(([form, keys, signed]) =>
    signed.map((key): [string, string, LoginOptions['keys'], SigningKey] => [form, key.alg, keys, key]),
  );

  it.each(cases)('%s verifies %s, with and without kid', async (_form, _algorithm, keys, key) => {
    const host = await hostWith({ keys });
    provider.key = withoutKid(key);
    await expectAccepted(host);
    if (typeof keys === 'string' && keys.includes('BEGIN')) {
      // A PEM has no kid: it is the key for every kid.
      provider.key = key;
      await expectAccepted(host);
    }
    provider.key = withoutKid({ ...attacker, alg: key.alg.startsWith('ES') ? 'RS256' : key.alg });
    await expectRefused(host, 'signature');
  });

  it('JWKS with kid verifies a token of that kid only', async () => {
    const host = await hostWith({ keys: { keys: [rs256.jwk, attacker.jwk] } });
    await expectAccepted(host);
    provider.key = { ...rs256, kid: attacker.kid };
    await expectRefused(host, 'signature');
    provider.key = { ...rs256, kid: 'unheard-of' };
    await expectRefused(host, 'signature');
  });

  it('JWKS with alg verifies that algorithm only', async () => {
    const host = await hostWith({ keys: { keys: [rs256.jwk] } });
    provider.key = { ...rs256, alg: 'PS256' };
    await expectRefused(host, 'signature');
  });
});

describe('a token that no key could verify', () => {
  it('makes nobody fetch keys', async () => {
    const host = await hostWith({ keys: `${provider.url}/connect/jwks` });
    const before = provider.count('/connect/jwks');
    const unreadable: [string, string][] = [
      ['no token', 'signature'],
      ['e30.e30.', 'signature'],
      [`${Buffer.from('{"alg":7,"kid":"k"}').toString('base64url')}.e30.e30`, 'signature'],
      [`${Buffer.from('{"alg":"RS256","kid":7}').toString('base64url')}.e30.e30`, 'signature'],
      [`${Buffer.from('{"alg":"HS256","kid":"k"}').toString('base64url')}.e30.e30`, 'algorithm'],
    ];
    for (const [token, reason] of unreadable) {
      provider.script = { backToken: { write: () => token } };
      await expectRefused(host, reason);
    }
    expect(provider.count('/connect/jwks')).toBe(before);
    provider.script = {};
    await expectAccepted(host);
    expect(provider.count('/connect/jwks')).toBe(before + 1);
  });
});

describe('the list of algorithms', () => {
  it('allows its algorithms, also beyond the default', async () => {
    const host = await hostWith({ keys: es384.pem, algorithms: ['ES384'] });
    provider.key = es384;
    provider.script = { backToken: { claims: (claims) => void delete claims['at_hash'] } };
    await expectAccepted(host);
  });

  it('refuses other algorithms', async () => {
    const host = await hostWith({ algorithms: ['PS256'] });
    await expectRefused(host, 'algorithm');
    provider.key = ps256;
    await expectAccepted(host);
  });

  it.each(['none', 'HS256', 'HS512'])('cannot contain %s: the host does not start', async (algorithm) => {
    await expect(hostWith({ algorithms: [algorithm] })).rejects.toMatchObject({
      code: 'configuration_invalid',
    });
  });
});

describe('keys behind a URL', () => {
  it('are fetched by the first login, not at startup, and once for concurrent logins', async () => {
    const fetched = provider.count('/connect/jwks');
    const host = await hostWith({ keys: `${provider.url}/connect/jwks` });
    expect(provider.count('/connect/jwks')).toBe(fetched);
    await Promise.all(Array.from({ length: 5 }, () => expectAccepted(host)));
    expect(provider.count('/connect/jwks')).toBe(fetched + 1);
  });

  it('may rotate right after they were first fetched, and between two logins', async () => {
    const host = await hostWith({ keys: `${provider.url}/connect/jwks` });
    await expectAccepted(host);
    rotateTo(next);
    await expectAccepted(host);
    clockOf(host.app).skip(30_000, ['now']);
    rotateTo(rs256);
    await expectAccepted(host);
  });

  it('may rotate without kid: a signature that does not fit fetches them again, at most every 30 s', async () => {
    rotateTo(withoutKid(rs256));
    const host = await hostWith({ keys: `${provider.url}/connect/jwks` });
    await expectAccepted(host);
    const fetched = provider.count('/connect/jwks');
    rotateTo(withoutKid(next));
    await Promise.all([expectAccepted(host), expectAccepted(host)]);
    expect(provider.count('/connect/jwks')).toBe(fetched + 1);
    provider.key = withoutKid(attacker);
    await expectRefused(host, 'signature');
    await expectRefused(host, 'signature');
    expect(provider.count('/connect/jwks')).toBe(fetched + 1);
  });

  it.each([
    ['no JSON', 'oops'],
    ['no set', '[]'],
    ['a set without keys', '{"keys": []}'],
    ['a set of 101 keys', JSON.stringify({ keys: [...PUBLISHED.keys, ...manyKeys(98)] })],
    ['a set of symmetric keys', '{"keys": [{"kty": "oct", "k": "c2VjcmV0"}]}'],
  ])('refuse the login with the reason provider where there is %s', async (_what, body) => {
    const host = await hostWith({ keys: `${provider.url}/connect/jwks` });
    provider.script = { keys: (reply) => ({ ...reply, body }) };
    await expectRefused(host, 'provider');
  });
});
