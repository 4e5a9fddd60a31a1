import { beforeEach, describe, expect, it } from '@jest/globals';
import type { CompactVerifyGetKey, JWK } from 'jose';
import { OpenIdProvider } from '../../lib/oidc/openid-provider.service.js';
import { checkOptions } from '../../lib/options/check-options.js';
import type { Problem } from '../../lib/problems/problem.interface.js';
import type { Tenant } from '../../lib/tenants/tenant.js';
import { Deadline } from '../../lib/time/deadline.js';
import type { TransportReply } from '../../lib/transport/transport-request.interface.js';
import { StoppedClock } from '../support/clock.js';
import { COOKIE_SECRET } from '../support/host.js';
import { tenantAt } from '../transport/transport-bench.js';
import { KEYS } from '../support/provider-keys.js';
import { registryOf } from '../support/registry.js';

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

const key = (kid: string): JWK => ({ ...KEYS.rs256.jwk, kid });

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
    published = { keys: [key('a')] };
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
    published = { keys: [key('a'), key('b')] };
    expect(await kids('b')).toEqual(['a', 'b']);
    expect(fetches).toBe(2);
  });

  it('are fetched again for an unknown kid at most every 30 s, counted from the last such fetch', async () => {
    await kids('a');
    await kids('forged');
    published = { keys: [key('a'), key('b')] };
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
    published = { keys: [key('b')] };
    expect(await kids('b')).toEqual(['b']);
    expect(fetches).toBe(3);
  });

  it('are not fetched again within 30 s of a failed fetch for an unknown kid', async () => {
    await kids('a');
    published = new Error('down');
    expect(await kids('b')).toEqual(['a']);
    published = { keys: [key('b')] };
    clock.time += 30 * SECOND - 1;
    expect(await kids('b')).toEqual(['a']);
    clock.time += 1;
    expect(await kids('b')).toEqual(['b']);
    expect(fetches).toBe(3);
  });

  it('are fetched again where they do not fit a signature, under the same limit', async () => {
    const used = await keysFor();
    published = { keys: [key('b')] };
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
    published = { keys: [key('b')] };
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
    published = { keys: [key('a')] };
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
    published = { keys: [key('b')] };
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
    const good = [key('a'), { ...KEYS.es256.jwk, kid: 'b', alg: undefined }];
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
    published = { keys: [key('a'), { ...key('b'), alg: undefined }] };
    await expect(keyOf(await keysFor())).rejects.toMatchObject({ code: 'ERR_JWKS_MULTIPLE_MATCHING_KEYS' });
    expect(await kids('a')).toEqual(['a', 'b']);
  });

  it('are at most 100: the operator hears of a larger set, and the last good one is used', async () => {
    published = { keys: Array.from({ length: 100 }, (_, index) => key(index === 99 ? 'a' : `key-${index}`)) };
    expect(await kids('a')).toEqual(['a']);
    expect(problems).toEqual([]);
    published = { keys: Array.from({ length: 101 }, (_, index) => key(index === 50 ? 'b' : `key-${index}`)) };
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
    published = { keys: [{ ...key('a'), e: giant }, { ...key('a'), n: giant }, key('b')] };
    const began = process.cpuUsage();
    expect(await kids()).toEqual(['b']);
    expect(process.cpuUsage(began).user / 1_000).toBeLessThan(200);
    published = { keys: [{ ...key('a'), e: giant }] };
    clock.time += 24 * HOUR;
    await expect(kids('a')).rejects.toMatchObject({ reason: 'provider' });
  });
});
