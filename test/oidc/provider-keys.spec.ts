import { afterEach, describe, expect, it } from '@jest/globals';
import type { INestApplicationContext } from '@nestjs/common';
import { NestFactory } from '@nestjs/core';
import type { JSONWebKeySet } from 'jose';
import { Agent } from 'undici';
import {
  ExhibitorModule,
  TokenValidator,
  type ExhibitorModuleOptions,
  type LoginOptions,
  type TenantOptions,
} from '../../lib/index.js';
import { withProvider } from '../login/hosts.js';
import { clockOf } from '../support/clock.js';
import { COOKIE_SECRET } from '../support/host.js';
import { pemOf } from '../support/keys.js';
import { OperatorLines } from '../support/operator-lines.js';
import { KEYS, sign, signingKey, type SigningKey } from '../support/provider-keys.js';
import { answers, changes, sends, type WireReply } from '../support/provider-script.js';
import { CLIENT_ID, type LoginOverrides, type ScriptedProvider } from '../support/provider.js';
import { pause } from '../support/wait.js';

const { rs256, ps256, es256, next, attacker } = KEYS;
const PUBLISHED = { keys: [rs256.jwk, ps256.jwk, es256.jwk] };
const SECOND = 1_000;
const MINUTE = 60 * SECOND;
const DAY = 24 * 60 * MINUTE;

let provider: ScriptedProvider;
let app: INestApplicationContext | undefined;
const lines = new OperatorLines();
withProvider((started) => (provider = started));
afterEach(async () => {
  await app?.close();
  app = undefined;
  provider.jwks = PUBLISHED;
  provider.seen.length = 0;
  provider.otherPaths = {};
  lines.clear();
});

const keysUrl = (): string => `${provider.url}/connect/jwks`;

/** By default with the keys of the URL. */
const tenantOf = (login: LoginOverrides = {}, own: Partial<TenantOptions> = {}): TenantOptions => ({
  ...provider.tenantOptions('https://host.example/auth/callback', { keys: keysUrl(), ...login }),
  ...own,
});

async function boot(
  tenants: Record<string, TenantOptions> = { acme: tenantOf() },
  options: Pick<ExhibitorModuleOptions, 'axios' | 'http'> = {},
): Promise<void> {
  const given = { tenants, secrets: [COOKIE_SECRET], ...options };
  const module = ExhibitorModule.forRoot({ ...given, http: { attempts: 1, ...options.http } });
  app = await NestFactory.createApplicationContext(module, { logger: lines, abortOnError: false });
}

const bootWith = (login: LoginOverrides): Promise<void> => boot({ acme: tenantOf(login) });

const validateToken = (token: string, tenant = 'acme'): Promise<unknown> | undefined =>
  app?.get(TokenValidator).validate(token, { tenant, use: 'id_token' });

/** Validates an ID token that was signed with this key. */
async function validate(key: SigningKey = rs256, tenant?: string): Promise<unknown> {
  const now = Math.floor(Date.now() / 1000);
  const claims = { iss: provider.url, sub: 'pat', aud: CLIENT_ID, iat: now, exp: now + 300 };
  return validateToken(await sign(JSON.stringify(claims), key), tenant);
}

const expectRefused = (reason: string, key?: SigningKey, tenant?: string): Promise<void> =>
  expect(validate(key, tenant)).rejects.toMatchObject({ code: 'login_failed', reason });

const fetches = (): number => provider.count('/connect/jwks');
const pass = (ms: number): void => app && clockOf(app).skip(ms, ['now']);
const publish = (...keys: SigningKey[]): void => void (provider.jwks = { keys: keys.map(({ jwk }) => jwk) });
const renamed = (key: SigningKey, kid: string | undefined): SigningKey => ({ ...key, kid });
const withoutKid = (key: SigningKey): SigningKey => renamed(key, undefined);
const forged = (index: number | string): SigningKey => ({ ...attacker, kid: `forged-${index}` });

/** A host whose connections fail while its process has no file left. */
const withFilesWhile = (hasFiles: () => boolean): TenantOptions['http'] => ({
  dispatcher: ({ Agent: HostAgent, buildConnector }) => {
    const connect = buildConnector({});
    return new HostAgent({
      connect: (options, callback) =>
        hasFiles()
          ? connect(options, callback)
          : callback(Object.assign(new Error('connect'), { code: 'EMFILE' }), null),
    });
  },
});

/** Blocks the event loop for so many ms. */
function block(ms: number): void {
  const until = performance.now() + ms;
  while (performance.now() < until) {
    // The time passes.
  }
}

describe('the keys of a URL', () => {
  it('are fetched at first use, once for concurrent callers, and not again for ten minutes', async () => {
    await boot();
    expect(fetches()).toBe(0);
    await Promise.all(Array.from({ length: 20 }, () => validate()));
    pass(10 * MINUTE - 5 * SECOND);
    await validate();
    expect(fetches()).toBe(1);
    publish(next);
    pass(5 * SECOND);
    // Those that are no longer published go.
    await expectRefused('signature');
    await validate(next);
  });

  it('are fetched again at once for a kid that appeared right after the first fetch, then every 30 s', async () => {
    await boot();
    await validate();
    publish(next);
    await validate(next);
    expect(fetches()).toBe(2);
    publish(es256);
    pass(25 * SECOND);
    await expectRefused('signature', es256);
    expect(fetches()).toBe(2);
    pass(5 * SECOND);
    await validate(es256);
    expect(fetches()).toBe(3);
  });

  it('are fetched again for an unknown kid right after a regular refresh', async () => {
    await boot();
    await validate();
    pass(10 * MINUTE);
    await validate();
    publish(next);
    await validate(next);
    expect(fetches()).toBe(3);
  });

  it('are fetched twice in 30 s for forged kids, all at once or not, at however many tenants', async () => {
    await boot({ acme: tenantOf(), globex: tenantOf() });
    await Promise.all(Array.from({ length: 50 }, (_, index) => expectRefused('signature', forged(index))));
    for (let index = 50; index < 60; index++) {
      await expectRefused('signature', forged(index), 'globex');
    }
    expect(fetches()).toBe(2);
    await validate();
  });

  it.each<[what: string, kid: string | undefined]>([
    ['without kid', undefined],
    ['of a known kid', rs256.kid],
  ])(
    'are fetched again for a token %s whose signature does not fit, under the same limit',
    async (_, kid) => {
      const named = (key: SigningKey): SigningKey => ({ ...key, kid, jwk: { ...key.jwk, kid } });
      publish(named(rs256));
      await boot();
      await validate(named(rs256));
      await validate(named(rs256));
      expect(fetches()).toBe(1);
      publish(named(next));
      await Promise.all([validate(named(next)), validate(named(next))]);
      expect(fetches()).toBe(2);
      await expectRefused('signature', named(attacker));
      await expectRefused('signature', forged(1));
      expect(fetches()).toBe(2);
      publish(named(rs256));
      pass(30 * SECOND);
      await validate(named(rs256));
      expect(fetches()).toBe(3);
    },
  );

  it('are not fetched again within 30 s of a failed fetch for an unknown kid', async () => {
    await boot();
    await validate();
    provider.script = { keys: answers({}, 500) };
    await expectRefused('signature', next);
    provider.script = {};
    publish(next);
    pass(25 * SECOND);
    await expectRefused('signature', next);
    pass(5 * SECOND);
    await validate(next);
    expect(fetches()).toBe(3);
  });

  it('stay the last good ones for a day, while the fetch fails or something invalid is published', async () => {
    await boot();
    await validate();
    for (const keys of [
      answers({}, 500),
      ...[null, [], 'keys', {}, { keys: [] }, { keys: [{ kty: 'oct', k: 'AAAA' }] }].map((set) =>
        answers(set),
      ),
    ]) {
      provider.script = { keys };
      pass(10 * MINUTE);
      await validate();
    }
    expect(fetches()).toBe(8);
    pass(DAY - 71 * MINUTE);
    await validate();
    pass(MINUTE);
    await expectRefused('provider');
    provider.script = {};
    pass(30 * SECOND);
    await validate();
  });

  it('are fetched at most every 30 s while the fetch fails, with or without good ones', async () => {
    const failed = { code: 'service_unavailable' };
    await boot();
    for (const refuses of [true, false]) {
      const outcome = async (): Promise<void> =>
        refuses ? expect(validate()).rejects.toMatchObject(failed) : void (await validate());
      provider.script = { keys: answers({}, 500) };
      pass(10 * MINUTE);
      const before = fetches();
      await outcome();
      pass(25 * SECOND);
      await outcome();
      expect(fetches() - before).toBe(1);
      provider.script = {};
      pass(5 * SECOND);
      await validate();
      expect(fetches() - before).toBe(2);
    }
  });

  it('ignore unusable, private and symmetric keys, also those of the kid or the type of a usable one', async () => {
    const bad: object[] = [
      {},
      { kty: 7 },
      { kty: 'LMS' },
      { kty: 'RSA', n: '!', e: '!' },
      { kty: 'RSA', n: 'sXch', e: 'AQAB' },
      { kty: 'EC', crv: 'P-0', x: 'AA', y: 'AA' },
      { kty: 'EC', crv: 'P-256', x: es256.jwk.y, y: es256.jwk.x },
      { kty: 'oct', k: 'AAAA' },
      attacker.privateKey.export({ format: 'jwk' }),
      { ...attacker.jwk, use: 'enc' },
    ];
    const good = [rs256.jwk, { ...es256.jwk, alg: undefined }];
    await boot();
    for (const kid of [undefined, 'other', rs256.kid, es256.kid]) {
      provider.script = {
        keys: answers({ keys: [null, 7, 'key', ...bad.map((jwk) => ({ ...jwk, kid })), ...good] }),
      };
      pass(10 * MINUTE);
      for (const key of [rs256, es256]) {
        await validate(key);
        await validate(withoutKid(key));
      }
    }
  });

  it('are at most 100: the operator hears of a larger set, and the last good one is used', async () => {
    const setOf = (count: number, key: SigningKey) =>
      answers({
        keys: [...Array.from({ length: count - 1 }, (_, at) => ({ ...es256.jwk, kid: `${at}` })), key.jwk],
      });
    await boot();
    provider.script = { keys: setOf(100, rs256) };
    await validate();
    expect(lines.all).toEqual([]);
    provider.script = { keys: setOf(101, next) };
    pass(10 * MINUTE);
    await validate();
    const line = /^tenants\.acme\.login\.keys: the keys .* cannot be used; expected '.* at most 100 keys/;
    expect(lines.all).toEqual([expect.stringMatching(line)]);
    pass(DAY);
    await expectRefused('provider');
  });

  it('are never those with a giant exponent or modulus, whose import takes a second', async () => {
    const giant = Buffer.alloc(90_000, 0xf1).toString('base64url');
    const giants = [
      { ...rs256.jwk, e: giant },
      { ...rs256.jwk, n: giant },
    ];
    await boot();
    provider.script = { keys: answers({ keys: [...giants, rs256.jwk] }) };
    const began = process.cpuUsage();
    await validate();
    expect(process.cpuUsage(began).user / 1_000).toBeLessThan(200);
    provider.script = { keys: answers({ keys: giants }) };
    pass(DAY);
    await expectRefused('provider');
  });

  it.each([
    ['no JSON', sends({ body: 'oops' })],
    ['no set', answers([])],
    ['a set without keys', answers({ keys: [] })],
    ['a set of symmetric keys', answers({ keys: [{ kty: 'oct', k: 'c2VjcmV0' }] })],
    ['nothing', answers({}, 404)],
  ])('refuse every token with the reason provider where there is %s', async (_what, keys) => {
    await boot();
    provider.script = { keys };
    await expectRefused('provider');
  });

  it('are not fetched for a token that no key could verify', async () => {
    const header = (members: object): string => Buffer.from(JSON.stringify(members)).toString('base64url');
    await boot();
    for (const [token, reason] of [
      ['no token', 'signature'],
      ['e30.e30.', 'signature'],
      [`${header({ alg: 7, kid: 'k' })}.e30.e30`, 'signature'],
      [`${header({ alg: 'RS256', kid: 7 })}.e30.e30`, 'signature'],
      [`${header({ alg: 'HS256', kid: 'k' })}.e30.e30`, 'algorithm'],
    ] as const) {
      await expect(validateToken(token)).rejects.toMatchObject({ reason });
    }
    expect(fetches()).toBe(0);
  });
});

it.each<[what: string, login: LoginOverrides]>([
  ['keys', {}],
  ['metadata', { keys: undefined, discovery: true }],
])('%s are read where the server answers 406 unless Accept names a JWK set', async (_what, login) => {
  const type = 'application/jwk-set+json';
  const asked = (reply: WireReply): WireReply => {
    const { accept = '' } = provider.seen.at(-1)?.headers ?? {};
    const names = accept.split(', ');
    const isNamed = names.includes(type) && names.includes('application/json');
    return isNamed ? { ...reply, headers: { 'content-type': type } } : { ...reply, status: 406, body: '' };
  };
  provider.otherPaths = { '/oauth2/jwks': '/connect/jwks' };
  provider.script = { keys: asked, metadata: asked };
  await bootWith(login);
  await validate();
});

/** The members that programs write where a key has none. */
const NULLS = { d: null, p: null, q: null, kid: null, alg: null, use: null, key_ops: null, x5c: null };
const jwkOf = (key: SigningKey, members: object): object => ({ ...key.jwk, ...members });
const bareOf = ({ jwk: { kid: _kid, alg: _alg, use: _use, ...bare } }: SigningKey): object => bare;
const ofSameKid = (...keys: SigningKey[]): object[] => keys.map(({ jwk }) => ({ ...jwk, kid: 'same' }));
const nine = Array.from({ length: 9 }, () => signingKey('ES256'));

describe.each<[where: string, loginWith: (keys: object[]) => LoginOverrides]>([
  ['a URL', (keys) => ((provider.script = { keys: answers({ keys }) }), {})],
  ['the options', (keys) => ({ keys: { keys } as JSONWebKeySet })],
])('a set of %s', (_where, loginWith) => {
  it.each<[what: string, set: () => object[], accepted: SigningKey[], refused?: SigningKey[]]>([
    [
      'the same key twice',
      () => [rs256.jwk, rs256.jwk, es256.jwk],
      [rs256, withoutKid(rs256)],
      [renamed(rs256, es256.kid), attacker],
    ],
    [
      'one key, with alg and without, under one kid',
      () => [rs256.jwk, jwkOf(rs256, { alg: undefined, use: undefined })],
      [rs256, { ...rs256, alg: 'PS256' }, withoutKid(rs256)],
    ],
    [
      'one key under two ids',
      () => [rs256.jwk, jwkOf(rs256, { kid: 'second' })],
      [rs256, renamed(rs256, 'second'), withoutKid(rs256)],
      [renamed(rs256, 'third')],
    ],
    [
      'one key in two spellings of its exponent',
      () => [rs256.jwk, jwkOf(rs256, { e: 'AAEAAQ', kid: 'padded' })],
      [rs256, renamed(rs256, 'padded'), withoutKid(rs256)],
    ],
    [
      'two keys of one kid',
      () => ofSameKid(rs256, next),
      [renamed(rs256, 'same'), renamed(next, 'same')],
      [renamed(attacker, 'same'), withoutKid(rs256), renamed(rs256, 'other')],
    ],
    [
      'keys of several types under one kid',
      () => ofSameKid(es256, rs256, next),
      [es256, rs256, next].map((key) => renamed(key, 'same')),
      [renamed(attacker, 'same')],
    ],
    ['one key without kid', () => [bareOf(rs256)], [rs256, withoutKid(rs256), ps256], [attacker]],
    ['one key without kid, twice', () => [bareOf(rs256), bareOf(rs256)], [rs256, withoutKid(rs256)]],
    [
      'one key without kid beside one for encryption',
      () => [bareOf(rs256), { ...bareOf(next), use: 'enc' }],
      [rs256, withoutKid(rs256)],
      [attacker, next],
    ],
    [
      'two keys without kid',
      () => [bareOf(rs256), bareOf(next)],
      [],
      [rs256, withoutKid(rs256), withoutKid(next)],
    ],
    ['a key with members that are null', () => [jwkOf(rs256, NULLS)], [rs256, withoutKid(rs256)]],
    [
      'nine keys of one kid, of which each is tried',
      () => ofSameKid(...nine),
      nine.map((key) => renamed(key, 'same')),
      [renamed(attacker, 'same')],
    ],
  ])('with %s', async (_what, set, accepted, refused = []) => {
    await bootWith(loginWith(set()));
    for (const key of accepted) {
      await validate(key);
    }
    for (const key of refused) {
      await expectRefused('signature', key);
    }
  });

  it.each<[what: string, set: () => object[], key: SigningKey, line: string]>([
    [
      'names the kid',
      () => [rs256.jwk],
      attacker,
      `'kid ${rs256.kid}', received 'kid ${attacker.kid}, alg RS256'`,
    ],
    [
      'names no kid that is in the set',
      () => [rs256.jwk],
      renamed(attacker, rs256.kid),
      "'a signature by the key', ",
    ],
    [
      'counts keys of one kid',
      () => ofSameKid(rs256, next),
      renamed(attacker, 'same'),
      "'a signature by one of the 2 keys that fit', ",
    ],
    ['asks for a kid', () => [rs256.jwk, next.jwk], withoutKid(rs256), "'a kid, since 2 keys fit', "],
    [
      'asks for a key of the alg',
      () => [rs256.jwk],
      { ...rs256, alg: 'PS256' },
      "'a key for this alg', received 'kid ",
    ],
  ])('that verifies no token: the line %s', async (_what, set, key, line) => {
    await bootWith(loginWith(set()));
    await expectRefused('signature', key);
    expect(lines.all).toEqual([expect.stringContaining(`(signature); expected ${line}`)]);
  });
});

describe('the keys of several tenants', () => {
  it('are fetched once for all that name a URL, and for each URL apart', async () => {
    const names = Array.from({ length: 20 }, (_, index) => `tenant-${index}`);
    const other = tenantOf({ keys: `${keysUrl()}?tenant=other` });
    await boot({ ...Object.fromEntries(names.map((name) => [name, tenantOf()])), other });
    await Promise.all(names.map((name) => validate(rs256, name)));
    expect(fetches()).toBe(1);
    publish(next);
    await Promise.all(names.map((name) => validate(next, name)));
    expect(fetches()).toBe(2);
    await validate(next, 'other');
    expect(fetches()).toBe(3);
  });

  it('are fetched for each dispatcher apart: a broken proxy of one tenant hides no keys from another', async () => {
    const shared = new Agent();
    const broken = new Agent({ connect: { socketPath: '/nonexistent/proxy.sock' } });
    const behind = (proxy: Agent): TenantOptions => tenantOf({}, { http: { dispatcher: () => proxy } });
    try {
      await boot({
        acme: behind(broken),
        globex: tenantOf(),
        initech: behind(shared),
        umbrella: behind(shared),
      });
      await expect(validate()).rejects.toMatchObject({ code: 'service_unavailable', tenant: 'acme' });
      await Promise.all(['globex', 'initech', 'umbrella'].map((name) => validate(rs256, name)));
      expect(fetches()).toBe(2);
    } finally {
      await Promise.all([broken.close(), shared.close()]);
    }
  });

  it('are fetched for all by a tenant whose own time is too short', async () => {
    await boot({ brief: tenantOf({}, { http: { deadline: 400 } }), patient: tenantOf() });
    provider.script = { keys: sends({ delay: 800 }) };
    await expect(validate(rs256, 'brief')).rejects.toMatchObject({ code: 'deadline_exceeded' });
    await validate(rs256, 'patient');
    expect(fetches()).toBe(1);
  });

  it('are fetched anew at once where an interceptor of the host has thrown', async () => {
    let isBroken = true;
    const axios: ExhibitorModuleOptions['axios'] = (instance) => {
      instance.interceptors.request.use((config) => {
        if (isBroken) {
          throw new TypeError('of the host');
        }
        return config;
      });
    };
    await boot(undefined, { axios });
    await expect(validate()).rejects.toMatchObject({ code: 'service_unavailable' });
    isBroken = false;
    await validate();
    expect(fetches()).toBe(1);
  });

  it('are fetched anew at once where this process had no file left', async () => {
    let hasFiles = false;
    await boot({ acme: tenantOf({}, { http: withFilesWhile(() => hasFiles) }) });
    await expect(validate()).rejects.toMatchObject({ code: 'service_unavailable' });
    hasFiles = true;
    await validate();
    expect(fetches()).toBe(1);
  });

  it('are not fetched anew where the provider has failed, and then this process had no file left', async () => {
    let hasFiles = true;
    provider.script = {
      keys: (reply) => {
        hasFiles = false;
        return { ...reply, status: 503, headers: { connection: 'close' } };
      },
    };
    await boot({ acme: tenantOf({}, { http: withFilesWhile(() => hasFiles) }) }, { http: { attempts: 2 } });
    await expect(validate()).rejects.toMatchObject({ code: 'service_unavailable', attempts: 2 });
    hasFiles = true;
    provider.script = {};
    await expect(validate()).rejects.toMatchObject({ code: 'service_unavailable', attempts: 0 });
    pass(30 * SECOND);
    await validate();
    expect(fetches()).toBe(2);
  });

  it('are not fetched anew where the provider was silent, and then this process was blocked', async () => {
    provider.script = {
      keys: (reply) => {
        if (fetches() === 2) {
          setTimeout(() => block(400), 300);
        }
        return { ...reply, fault: 'silence' };
      },
    };
    await boot(undefined, { http: { attempts: 2, attemptTimeout: 400 } });
    await expect(validate()).rejects.toMatchObject({ code: 'service_unavailable', attempts: 2 });
    provider.script = {};
    await expect(validate()).rejects.toMatchObject({ code: 'service_unavailable', attempts: 0 });
    expect(fetches()).toBe(2);
  });

  it('are fetched anew after a deadline, however many wait for a fetch that code of the host never ends', async () => {
    let sent = 0;
    const axios: ExhibitorModuleOptions['axios'] = (instance) => {
      instance.interceptors.request.use((config) => (++sent > 1 ? config : new Promise<never>(() => {})));
    };
    await boot(undefined, { axios, http: { deadline: 400 } });
    const ends: Promise<unknown>[] = [];
    for (let token = 0; token < 12; token += 1) {
      ends.push(
        Promise.resolve(validate()).then(
          () => 'valid',
          ({ code }) => code,
        ),
      );
      await pause(50);
    }
    const codes = await Promise.all(ends);
    expect([codes[0], codes.at(-1), fetches()]).toEqual(['deadline_exceeded', 'valid', 1]);
  });

  it('are fetched with the limits of the module: a tenant with small ones stops nobody', async () => {
    const small = { attemptTimeout: 1, maxResponseBytes: 1_024, maxConcurrent: 1, attempts: 1 };
    await boot({ small: tenantOf({}, { http: small }), globex: tenantOf() });
    const keys = [
      ...PUBLISHED.keys,
      ...Array.from({ length: 10 }, (_, at) => ({ ...next.jwk, kid: `${at}` })),
    ];
    provider.script = { keys: sends({ body: JSON.stringify({ keys }), delay: 100 }) };
    await Promise.all([validate(rs256, 'small'), validate(rs256, 'globex')]);
    expect(fetches()).toBe(1);
  });

  it('rest apart from metadata: where their fetch failed, metadata is read', async () => {
    provider.otherPaths = { '/oauth2/jwks': '/connect/jwks' };
    const keys = `${provider.url}/no-keys`;
    await boot({ acme: tenantOf({ keys }), globex: tenantOf({ keys: undefined, discovery: true }) });
    await expectRefused('provider');
    await validate(rs256, 'globex');
  });

  it('fail, as their metadata, for each tenant by an error that names this tenant', async () => {
    const all = tenantOf({ keys: undefined, discovery: true });
    await boot({ acme: tenantOf(), globex: tenantOf(), one: all, two: all });
    const expectFailures = async (names: string[], failure: object): Promise<void> => {
      const failures = await Promise.allSettled(names.map((name) => validate(rs256, name)));
      expect(failures).toMatchObject(names.map((tenant) => ({ reason: { ...failure, tenant } })));
    };
    provider.script = { keys: answers({}, 500) };
    await expectFailures(['acme', 'globex', 'globex'], { code: 'service_unavailable', status: 500 });
    expect(fetches()).toBe(1);
    for (const [metadata, reason] of [
      [answers({}, 404), 'provider'],
      [sends({ body: '{' }), 'provider'],
      [changes({ issuer: 'https://evil.example' }), 'issuer'],
    ] as const) {
      pass(30 * SECOND);
      provider.script = { metadata };
      await expectFailures(['one', 'two', 'two'], { code: 'login_failed', reason });
    }
  });
});

describe('a public key as', () => {
  const pkcs1 = rs256.publicKey.export({ format: 'pem', type: 'pkcs1' }).toString();
  const { kid: _kid, alg: _alg, use: _use, ...bareJwk } = rs256.jwk;

  it.each<[form: string, keys: LoginOptions['keys'], signed: readonly SigningKey[]]>([
    ['PEM (SPKI)', rs256.pem, [rs256, ps256]],
    ['PEM (PKCS#1)', pkcs1, [rs256, ps256]],
    ['PEM (certificate)', pemOf('provider-certificate'), [rs256, ps256]],
    ['PEM of an elliptic curve', es256.pem, [es256]],
    ['PEM with Windows line ends and spaces', `\r\n${rs256.pem.replaceAll('\n', '\r\n')} `, [rs256]],
    ['JWK without kid and alg', bareJwk, [rs256, ps256]],
    ['JWK as JSON', JSON.stringify(bareJwk), [rs256, ps256]],
    ['JWKS as JSON', JSON.stringify({ keys: [bareJwk] }), [rs256]],
  ])('%s verifies every algorithm of its type', async (_form, keys, signed) => {
    await bootWith({ keys });
    for (const key of signed) {
      await validate(withoutKid(key));
      if (typeof keys === 'string' && keys.includes('BEGIN')) {
        // A PEM has no kid: it is the key for every kid.
        await validate(key);
      }
      const { alg } = key;
      await expectRefused('signature', withoutKid({ ...attacker, alg: alg === 'ES256' ? 'RS256' : alg }));
    }
  });

  it('JWKS without a usable key refuses every token, and the operator hears of it', async () => {
    await bootWith({ keys: { keys: [{ ...rs256.jwk, n: 'sXch' }] } });
    await expectRefused('provider');
    expect(lines.all).toEqual([expect.stringMatching(/^tenants\.acme\.login\.keys: .* cannot be used/)]);
  });

  it('JWKS with kid and alg verifies a token of that kid and that algorithm only', async () => {
    await bootWith({ keys: { keys: [rs256.jwk, attacker.jwk] } });
    await validate();
    await expectRefused('signature', { ...rs256, kid: attacker.kid });
    await expectRefused('signature', { ...rs256, kid: 'unheard-of' });
    await expectRefused('signature', { ...rs256, alg: 'PS256' });
  });
});

describe('the list of algorithms', () => {
  it('allows its algorithms, also beyond the default, and no others', async () => {
    const es384 = signingKey('ES384');
    await boot({
      beyond: tenantOf({ keys: es384.pem, algorithms: ['ES384'] }),
      acme: tenantOf({ keys: PUBLISHED, algorithms: ['PS256'] }),
    });
    await validate(es384, 'beyond');
    await validate(ps256);
    await expectRefused('algorithm', rs256);
  });

  it.each(['none', 'HS256', 'HS512'])('cannot contain %s: the host does not start', async (algorithm) => {
    const code = 'configuration_invalid';
    await expect(bootWith({ algorithms: [algorithm] })).rejects.toMatchObject({ code });
  });
});
