import { afterAll, afterEach, beforeAll, describe, expect, it } from '@jest/globals';
import type { LoginOptions } from '../../lib/index.js';
import { clockOf } from '../support/clock.js';
import { certificateOf } from '../support/provider-certificate.js';
import { KEYS, signingKey, type SigningKey } from '../support/provider-keys.js';
import { ScriptedProvider, type LoginOverrides } from '../support/provider.js';
import { COOKIE_SECRET, startHost, type Host } from '../support/host.js';
import { Visitor } from '../support/visitor.js';
import { expectAccepted, expectRefusal, identityOf, logIn } from '../login/journey.js';

const { rs256, ps256, es256, next, attacker } = KEYS;
const es384 = signingKey('ES384');
const pkcs1 = rs256.publicKey.export({ format: 'pem', type: 'pkcs1' }).toString();
const { kid: _kid, alg: _alg, use: _use, ...bareJwk } = rs256.jwk;

const PUBLISHED = { keys: [rs256.jwk, ps256.jwk, es256.jwk] };

let provider: ScriptedProvider;
const hosts: Host[] = [];
beforeAll(async () => {
  provider = await ScriptedProvider.start();
});
afterEach(async () => {
  provider.script = {};
  provider.key = rs256;
  provider.jwks = PUBLISHED;
  await Promise.all(hosts.splice(0).map((host) => host?.close()));
});
afterAll(() => provider?.stop());

async function hostWith(login: LoginOverrides): Promise<Host> {
  const host = await startHost({
    options: (callback) => ({
      tenant: provider.tenantOptions(callback, login),
      secrets: [COOKIE_SECRET],
    }),
  });
  hosts.push(host);
  return host;
}

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
    const start = startHost({
      options: (callback) => ({
        tenant: provider.tenantOptions(callback, { algorithms: [algorithm] }),
        secrets: [COOKIE_SECRET],
      }),
    });
    await expect(start).rejects.toMatchObject({ code: 'configuration_invalid' });
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
