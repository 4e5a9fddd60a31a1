import { beforeEach, describe, expect, it } from '@jest/globals';
import type { JWK, LocalJWKSet } from 'jose';
import { ExhibitorError } from '../../lib/index.js';
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
    (await keys.get(kid, fetch, SECOND)).jwks().keys.map((each) => each.kid);

  const newerThan = (used: LocalJWKSet): Promise<LocalJWKSet | undefined> =>
    keys.newerThan(used, fetch, SECOND);

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
    const used = await keys.get(undefined, fetch, SECOND);
    published = { keys: [key('b')] };
    const [newer, same] = await Promise.all([newerThan(used), newerThan(used)]);
    expect(newer?.jwks().keys.map(({ kid }) => kid)).toEqual(['b']);
    expect(same).toBe(newer);
    expect(fetches).toBe(2);
    expect(await newerThan(used)).toBe(newer);
    expect(await newerThan(await keys.get(undefined, fetch, SECOND))).toBeUndefined();
    await kids('forged');
    expect(fetches).toBe(2);
  });

  it('are fetched again at once after they are expired, also within 30 s of a failure', async () => {
    published = new Error('down');
    await expect(kids('a')).rejects.toThrow('down');
    published = { keys: [key('a')] };
    keys.expire();
    expect(await kids('a')).toEqual(['a']);
    keys.expire();
    await kids('a');
    expect(fetches).toBe(3);
  });

  it('are waited for no longer than the patience of a caller where there are last good ones', async () => {
    await kids('a');
    clock.time += 10 * MINUTE;
    let finish = (): void => undefined;
    const slow = (): Promise<unknown> => new Promise((resolve) => (finish = () => resolve(published)));
    const patient = keys.get('b', slow, 10 * SECOND);
    const found = await keys.get('a', slow, 20);
    expect(found.jwks().keys.map(({ kid }) => kid)).toEqual(['a']);
    published = { keys: [key('b')] };
    finish();
    expect((await patient).jwks().keys.map(({ kid }) => kid)).toEqual(['b']);
  });

  it('are fetched again for a caller with more time than a fetch that ran out of it', async () => {
    const tooSlow = async (within: number): Promise<unknown> => {
      fetches++;
      if (within < 100) {
        throw new ExhibitorError('deadline_exceeded', 'the deadline of the call passed');
      }
      return published;
    };
    await expect(keys.get('a', tooSlow, 50)).rejects.toMatchObject({ code: 'deadline_exceeded' });
    await expect(keys.get('a', tooSlow, 50)).rejects.toMatchObject({ code: 'deadline_exceeded' });
    expect(fetches).toBe(1);
    expect((await keys.get('a', tooSlow, 100)).jwks().keys).toHaveLength(1);
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
