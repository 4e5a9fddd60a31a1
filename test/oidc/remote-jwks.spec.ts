import { beforeEach, describe, expect, it } from '@jest/globals';
import type { JWK } from 'jose';
import { RemoteJwks } from '../../lib/oidc/remote-jwks.js';
import { StoppedClock } from '../support/clock.js';
import { KEYS } from '../support/provider-keys.js';

const SECOND = 1_000;
const MINUTE = 60 * SECOND;
const HOUR = 60 * MINUTE;

const key = (kid: string): JWK => ({ ...KEYS.rs256.jwk, kid });

describe('the keys behind a URL', () => {
  let clock: StoppedClock;
  let keys: RemoteJwks;
  let published: unknown;
  let fetches: number;
  const fetch = async (): Promise<unknown> => {
    fetches++;
    if (published instanceof Error) {
      throw published;
    }
    return published;
  };
  const kids = async (kid?: string): Promise<(string | undefined)[]> =>
    (await keys.get(kid, fetch)).jwks().keys.map((each) => each.kid);

  beforeEach(() => {
    clock = new StoppedClock();
    keys = new RemoteJwks(clock);
    published = { keys: [key('a')] };
    fetches = 0;
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

  it('are fetched again for an unknown kid, at most every 30 s', async () => {
    await kids('a');
    published = { keys: [key('a'), key('b')] };
    clock.time += 30 * SECOND - 1;
    expect(await kids('b')).toEqual(['a']);
    expect(fetches).toBe(1);
    clock.time += 1;
    expect(await kids('b')).toEqual(['a', 'b']);
    expect(fetches).toBe(2);
    for (let forged = 0; forged < 100; forged++) {
      await kids(`forged-${forged}`);
    }
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

  it('ignore unusable, private and symmetric keys', async () => {
    const privateKey = KEYS.attacker.privateKey.export({ format: 'jwk' });
    published = {
      keys: [
        null,
        7,
        'key',
        {},
        { kty: 7 },
        { kty: 'LMS', kid: 'unheard-of' },
        { kty: 'RSA', kid: 'broken', n: '!', e: '!' },
        { kty: 'EC', kid: 'no-curve', crv: 'P-0', x: 'AA', y: 'AA' },
        { kty: 'oct', kid: 'symmetric', k: 'AAAA' },
        { ...privateKey, kid: 'private' },
        key('a'),
        { ...KEYS.es256.jwk, kid: 'b', alg: undefined },
      ],
    };
    expect(await kids('a')).toEqual(['a', 'b']);
  });
});
