import { generateKeyPairSync } from 'node:crypto';
import { inspect } from 'node:util';
import { describe, expect, it } from '@jest/globals';
import * as fc from 'fast-check';
import { decodeJwt } from 'jose';
import type { HttpOptions } from '../../lib/index.js';
import { earlyWindow, lifetimeOf } from '../../lib/tokens/token-lifetime.js';
import { granted, heldBack, refused, slowly, startBench, type Answer } from './token-bench.js';
import { sendJson } from '../support/server.js';
import { aWhile, eventually, pause } from '../support/wait.js';

const SECOND = 1_000;
const HOUR = 3_600 * SECOND;
const DAY = 24 * HOUR;

/** Answers one status without an OAuth error. */
const failing =
  (status: number): Answer =>
  (_form, _count, response) =>
    void response.writeHead(status).end('<html>');

describe('getToken', () => {
  it('posts the credentials of the tenant as a form, and returns the token', async () => {
    const bench = await startBench();
    const token = await bench.tokens.getToken();
    const known = { accessToken: 'token-1', tokenType: 'Bearer', scope: 'idp_api' };
    expect(token).toEqual({ ...known, expiresAt: expect.any(Date) });
    expect(Math.abs(token.expiresAt.getTime() - Date.now() - HOUR)).toBeLessThan(10 * SECOND);
    expect(Object.fromEntries(bench.posts[0] ?? [])).toEqual({
      client_id: 'acme-api',
      client_secret: 'acme secret/+&',
      grant_type: 'client_credentials',
      scope: 'idp_api',
    });
  });

  it('sends id and secret in the header with `basic`, form-encoded before they are joined; no scope where it is null', async () => {
    const bench = await startBench(granted(), { tenants: { acme: { clientAuth: 'basic', scope: null } } });
    await bench.text();
    const pair = Buffer.from(bench.authorizations[0]?.replace('Basic ', '') ?? '', 'base64').toString();
    expect(pair).toBe('acme-api:acme+secret%2F%2B%26');
    expect(Object.fromEntries(bench.posts[0] ?? [])).toEqual({ grant_type: 'client_credentials' });
  });

  it('signs a new assertion for each attempt: the provider accepts one once', async () => {
    const { privateKey } = generateKeyPairSync('ec', { namedCurve: 'P-256' });
    const clientAuth = { privateKey, kid: 'a', audience: 'https://as.example' };
    const bench = await startBench(
      (...request) => (request[1] < 3 ? failing(503)(...request) : granted()(...request)),
      { tenants: { acme: { clientSecret: undefined, clientAuth } } },
    );
    await bench.text();
    const claims = bench.posts.map((form) => decodeJwt(form.get('client_assertion') ?? ''));
    expect(new Set(claims.map(({ jti }) => jti)).size).toBe(3);
    for (const { aud, iat, exp } of claims) {
      expect([aud, Number(exp) - Number(iat)]).toEqual(['https://as.example', 60]);
    }
  });

  it('returns the cached token while it is valid, not to one who left, and reports tenant, outcome and code only', async () => {
    const bench = await startBench();
    expect([await bench.text(), await bench.text()]).toEqual(['token-1', 'token-1']);
    expect(bench.posts).toHaveLength(1);
    const left = bench.tokens.getToken({ signal: AbortSignal.abort() });
    await expect(left).rejects.toMatchObject({ code: 'aborted' });
    bench.answer = refused('invalid_client', 401, 'acme secret/+&');
    await bench.tokens.invalidate();
    await expect(bench.text()).rejects.toMatchObject({ code: 'token_rejected' });
    expect(bench.messages).toEqual([
      { tenant: 'acme', outcome: 'fetched' },
      { tenant: 'acme', outcome: 'hit' },
      { tenant: 'acme', outcome: 'failed', code: 'aborted' },
      { tenant: 'acme', outcome: 'failed', code: 'token_rejected' },
    ]);
  });

  it('sends one request for a thousand callers', async () => {
    const bench = await startBench(slowly());
    const texts = await Promise.all(Array.from({ length: 1_000 }, () => bench.text()));
    expect(new Set(texts)).toEqual(new Set(['token-1']));
    expect(bench.posts).toHaveLength(1);
    expect(bench.outcomes.filter((outcome) => outcome === 'shared')).toHaveLength(999);
  });

  it('keeps the tokens of tenants separate where their credentials are equal, and what a caller does with its own', async () => {
    const same = { clientId: 'same', clientSecret: 'the same secret' };
    const bench = await startBench(granted(), { tenants: { acme: same, globex: same } });
    const get = (tenant: string) => bench.tokens.getToken({ tenant });
    const first = [await get('acme'), await get('globex')];
    expect(first).toMatchObject([{ accessToken: 'token-1' }, { accessToken: 'token-2' }]);
    bench.clock.ahead = SECOND;
    const again = [await get('acme'), await get('globex')];
    expect(again).toEqual(first);
    Object.assign(again[0] ?? {}, { accessToken: 'changed' });
    expect(await get('acme')).toEqual(first[0]);
    await bench.tokens.invalidate({ tenant: 'acme' });
    expect([await bench.text('acme'), await bench.text('globex')]).toEqual(['token-3', 'token-2']);
  });
});

describe('renewal', () => {
  it.each([
    [60, 0],
    [30, 1],
  ])(
    'starts in the last minute, up to half of it later: %i s, by the random number %i',
    async (last, chance) => {
      const bench = await startBench();
      bench.clock.chance = chance;
      await bench.text();
      bench.clock.ahead = HOUR - (last + 5) * SECOND;
      expect(await bench.text()).toBe('token-1');
      await aWhile();
      expect(bench.posts).toHaveLength(1);
      bench.answer = slowly();
      bench.clock.ahead = HOUR - (last - 5) * SECOND;
      // The old token is used meanwhile.
      const texts = [bench.text(), bench.text(), bench.text()];
      expect(await Promise.all(texts)).toEqual(['token-1', 'token-1', 'token-1']);
      await eventually(() => bench.outcomes.includes('renewed-early'));
      expect([await bench.text(), bench.posts.length]).toEqual(['token-2', 2]);
    },
  );

  it.each<[string, Answer, number]>([
    ['fails', failing(503), 5 * SECOND],
    ['is refused', refused('invalid_client', 401), 30 * SECOND],
  ])('that %s early is not reported, and not repeated for a while', async (_what, answer, quiet) => {
    const bench = await startBench(granted(), { http: { attempts: 1 } });
    await bench.text();
    bench.answer = answer;
    bench.clock.ahead = HOUR - 55 * SECOND;
    for (const { skip, posts } of [
      { skip: 0, posts: 2 },
      { skip: quiet - 3 * SECOND, posts: 2 },
      { skip: 4 * SECOND, posts: 3 },
    ]) {
      bench.clock.ahead += skip;
      for (let call = 0; call < 5; call += 1) {
        expect(await bench.text()).toBe('token-1');
        await pause(5);
      }
      await eventually(() => bench.posts.length >= posts);
      expect(bench.posts).toHaveLength(posts);
    }
  });

  it('is awaited by all callers when the old token expired', async () => {
    const bench = await startBench();
    await bench.text();
    bench.clock.ahead = HOUR + SECOND;
    const texts = [bench.text(), bench.text(), bench.text()];
    expect(await Promise.all(texts)).toEqual(['token-2', 'token-2', 'token-2']);
    expect(bench.outcomes).toEqual(['fetched', 'fetched', 'shared', 'shared']);
  });

  it('is due after the call that fetched the token where expires_in is 0', async () => {
    const bench = await startBench(slowly(granted({ expires_in: 0 })));
    expect(await Promise.all([bench.text(), bench.text()])).toEqual(['token-1', 'token-1']);
    expect(await bench.text()).toBe('token-2');
  });

  it('counts the lifetime from the start of the answered request', async () => {
    const bench = await startBench((...request) => {
      bench.clock.ahead += 3 * SECOND;
      return (request[1] === 1 ? failing(503) : granted({ expires_in: 10 }))(...request);
    });
    const { expiresAt } = await bench.tokens.getToken();
    const left = expiresAt.getTime() - Date.now() - bench.clock.ahead;
    expect(left).toBeGreaterThan(5 * SECOND);
    expect(left).toBeLessThanOrEqual(7 * SECOND);
  });
});

it('a renewal has at least the time of each caller: one that joins it late does not fail by the deadline of earlier ones', async () => {
  const { answer, release } = heldBack();
  const bench = await startBench(answer, { http: { deadline: 300 } });
  const early = bench.text().catch(({ code }) => code);
  await eventually(() => release.length === 1);
  const late = bench.call(5_000);
  expect(await early).toBe('deadline_exceeded');
  release[0]?.();
  expect([await late, bench.received]).toEqual(['a page', ['token-1']]);
});

describe('a token that the service refuses', () => {
  /** All calls of a service that answers each token with this status. */
  async function refusing(status: 401 | 403) {
    const bench = await startBench();
    await bench.text();
    bench.status = status;
    const calls = (count: number) => Promise.all(Array.from({ length: count }, () => bench.call()));
    return { bench, calls };
  }

  it('with 401 costs one renewal in 10 s, however many calls: two requests a call became one', async () => {
    const { bench, calls } = await refusing(401);
    // Younger than 10 s.
    expect(new Set(await calls(50))).toEqual(new Set(['access_denied']));
    expect([bench.posts.length, bench.received.length]).toEqual([1, 50]);
    for (const posts of [2, 3, 4]) {
      bench.clock.ahead += 10 * SECOND;
      bench.received.length = 0;
      expect(new Set(await calls(50))).toEqual(new Set(['access_denied']));
      for (let call = 0; call < 10; call++) {
        bench.clock.ahead += 900;
        await bench.call();
      }
      expect([bench.posts.length, bench.received.length]).toEqual([posts, 110]);
    }
  });

  it('with 401 is held until another has come: calls of others go on with it meanwhile', async () => {
    const { answer, release } = heldBack();
    const { bench } = await refusing(401);
    bench.clock.ahead = 10 * SECOND;
    bench.answer = answer;
    const refusedCall = bench.call();
    await eventually(() => release.length === 1);
    bench.status = 200;
    expect([await bench.call(), bench.received.at(-1)]).toEqual(['a page', 'token-1']);
    release[0]?.();
    expect([await refusedCall, bench.received.at(-1)]).toEqual(['a page', 'token-2']);
  });

  it('with 401 is held where no other comes, and none is requested for 10 s', async () => {
    const { bench } = await refusing(401);
    bench.clock.ahead = 10 * SECOND;
    bench.answer = failing(503);
    expect(await bench.call()).toBe('token_unavailable');
    const { length } = bench.posts;
    bench.clock.ahead += 9 * SECOND;
    expect(await bench.call()).toBe('access_denied');
    bench.status = 200;
    expect([await bench.call(), bench.received.at(-1), bench.posts.length]).toEqual([
      'a page',
      'token-1',
      length,
    ]);
  });

  it('with 403 is renewed behind at once, and once in 10 s', async () => {
    const { bench } = await refusing(403);
    for (const posts of [2, 3]) {
      for (let call = 0; call < 10; call++) {
        expect(await bench.call()).toBe('access_denied');
        await eventually(() => bench.posts.length === posts);
      }
      bench.clock.ahead += 10 * SECOND;
    }
    bench.status = 200;
    expect([await bench.call(), bench.received.at(-1)]).toEqual(['a page', 'token-3']);
  });
});

describe('invalidate', () => {
  it('drops the token, or only the one that it names', async () => {
    const bench = await startBench();
    const texts = [await bench.text()];
    for (const rejected of ['another', 'token-1', 'token-1', undefined]) {
      await bench.tokens.invalidate({ rejected });
      texts.push(await bench.text());
    }
    expect(texts).toEqual(['token-1', 'token-1', 'token-2', 'token-2', 'token-3']);
    expect(bench.outcomes).toEqual(['fetched', 'hit', 'forced', 'hit', 'forced']);
    const unknown = bench.tokens.invalidate({ tenant: 'nobody' });
    await expect(unknown).rejects.toMatchObject({ code: 'unknown_tenant' });
  });

  it.each([
    ['first', [0, 1]],
    ['last', [1, 0]],
  ])('drops the token that was requested before, where it arrives %s', async (_when, order) => {
    const { answer, release } = heldBack();
    const bench = await startBench(answer);
    const before = bench.text();
    await eventually(() => bench.posts.length === 1);
    await bench.tokens.invalidate();
    const after = bench.text();
    await eventually(() => bench.posts.length === 2);
    const texts = [before, after];
    for (const index of order) {
      release[index]?.();
      expect(await texts[index]).toBe(`token-${index + 1}`);
    }
    expect([await bench.text(), bench.posts.length]).toEqual(['token-2', 2]);
  });
});

describe('a refusal', () => {
  const described = (oauthError: string, status: number): [string, Answer, object, number] => {
    const error = { code: 'token_rejected', oauthError, oauthErrorDescription: 'why', status };
    return [oauthError, refused(oauthError, status, 'why'), error, 30];
  };
  it.each<[what: string, answer: Answer, error: object, seconds: number]>([
    described('invalid_client', 401),
    described('invalid_scope', 400),
    described('access_denied', 403),
    described('invalid_client', 200),
    ['server_error', refused('server_error'), { code: 'token_unavailable' }, 1],
    ['no OAuth error', failing(400), { code: 'token_rejected', oauthError: 'http_400' }, 1],
    ['503', failing(503), { code: 'token_unavailable', status: 503 }, 1],
    ['429', failing(429), { code: 'rate_limited', status: 429 }, 1],
    ['a reply without a token', () => ({}), { code: 'malformed_response', status: 200 }, 1],
  ])('by %s is repeated without a request, for 30 s or 1 s', async (_what, answer, error, seconds) => {
    const bench = await startBench(answer, { http: { attempts: 1 } });
    await expect(bench.text()).rejects.toMatchObject({ ...error, tenant: 'acme', attempts: 1 });
    bench.answer = granted();
    bench.clock.ahead = seconds * SECOND - 500;
    await expect(bench.text()).rejects.toMatchObject({ ...error, tenant: 'acme', attempts: 0 });
    expect([bench.outcomes, bench.posts.length]).toEqual([['failed', 'failed'], 1]);
    bench.clock.ahead = seconds * SECOND + 100;
    expect(await bench.text()).toBe('token-2');
  });

  it.each<[what: string, fails: boolean, attempts: number]>([
    ['of the endpoint, then of this process, is repeated: the endpoint has failed', true, 0],
    ['of this process alone is not repeated', false, 2],
  ])('%s', async (_what, fails, attempts) => {
    let hasFiles = fails;
    const dispatcher: HttpOptions['dispatcher'] = ({ Agent, buildConnector }) => {
      const connect = buildConnector({});
      return new Agent({
        connect: (options, callback) =>
          hasFiles
            ? connect(options, callback)
            : callback(Object.assign(new Error('connect'), { code: 'EMFILE' }), null),
      });
    };
    const answer: Answer = (_form, _count, response) => {
      hasFiles = false;
      return void response.writeHead(503, { connection: 'close' }).end();
    };
    const bench = await startBench(answer, { tenants: { acme: { http: { dispatcher, attempts: 2 } } } });
    for (const sent of [2, attempts]) {
      await expect(bench.text()).rejects.toMatchObject({ code: 'token_unavailable', attempts: sent });
    }
    bench.answer = granted();
    hasFiles = true;
    bench.clock.ahead = SECOND;
    expect(await bench.text()).toBe(fails ? 'token-2' : 'token-1');
  });

  it('is of the secret that was refused: another one is tried at once', async () => {
    let secret = 'the old secret';
    const answer: Answer = (form, ...rest) =>
      (form.get('client_secret') === 'the new secret' ? granted() : refused('invalid_client', 401))(
        form,
        ...rest,
      );
    const bench = await startBench(answer, { tenants: { acme: { clientSecret: () => secret } } });
    for (const attempts of [1, 0]) {
      await expect(bench.text()).rejects.toMatchObject({ code: 'token_rejected', attempts });
    }
    secret = 'the new secret';
    expect([await bench.text(), bench.posts.length]).toEqual(['token-2', 2]);
  });

  it('is forgotten where the host invalidates', async () => {
    const bench = await startBench(refused('invalid_client', 401));
    await expect(bench.text()).rejects.toMatchObject({ attempts: 1 });
    await bench.tokens.invalidate();
    await expect(bench.text()).rejects.toMatchObject({ attempts: 1 });
  });

  it('is none where no request was sent: each caller hears which option is wrong', async () => {
    const dispatcher = () => Object({});
    const bench = await startBench(granted(), { tenants: { acme: { http: { dispatcher } } } });
    for (const _ of [1, 2]) {
      const failed = { code: 'configuration_invalid', problems: [{ path: 'http.dispatcher' }] };
      await expect(bench.tokens.getToken()).rejects.toMatchObject(failed);
    }
  });

  it('shows nothing of the request that it repeats', async () => {
    const bench = await startBench((form, ...rest) => {
      const secret = form.get('client_secret') ?? '';
      const base64 = Buffer.from(secret).toString('base64');
      const echoed = [secret, encodeURIComponent(secret), base64, form.toString()].join(' | ');
      return refused('invalid_client', 401, `wrong: ${echoed}`)(form, ...rest);
    });
    const error: unknown = await bench.text().catch((reason: unknown) => reason);
    expect(error).toMatchObject({ code: 'token_rejected', oauthErrorDescription: '[removed]' });
    expect(inspect(error, { depth: Infinity })).not.toMatch(/acme(%20|[ +])secret|YWNtZSBzZWNy/);
  });
});

describe('a secret that is a function', () => {
  /** A bench whose secrets are these, in order; the last one again and again. */
  async function withSecrets(secrets: readonly string[], answer?: Answer) {
    const seen = { asked: 0 };
    const clientSecret = async () => {
      seen.asked += 1;
      return secrets[Math.min(seen.asked, secrets.length) - 1] ?? '';
    };
    return { seen, bench: await startBench(answer, { tenants: { acme: { clientSecret } } }) };
  }

  it('is called for each token request, and not for a cached token', async () => {
    const { seen, bench } = await withSecrets(['secret-number-1', 'secret-number-2']);
    await bench.text();
    await bench.text();
    expect(seen.asked).toBe(1);
    await bench.tokens.invalidate();
    await bench.text();
    const sent = bench.posts.map((form) => form.get('client_secret'));
    expect(sent).toEqual(['secret-number-1', 'secret-number-2']);
  });

  it.each([
    ['invalid_client', 401],
    // Keycloak's word for a wrong secret.
    ['unauthorized_client', 400],
  ])('is called again once after %s, since it may have been rotated', async (error, status) => {
    const { seen, bench } = await withSecrets(['the old secret', 'the new secret'], (form, ...rest) =>
      (form.get('client_secret') === 'the new secret' ? granted() : refused(error, status))(form, ...rest),
    );
    expect([await bench.text(), seen.asked]).toEqual(['token-2', 2]);
  });

  it.each([
    ['that returns the same one is not sent again, which could lock the client', ['the only secret'], 1],
    ['that is refused twice fails, with both requests counted', ['secret one', 'secret two', 'third'], 2],
  ])('%s', async (_what, secrets, attempts) => {
    const { seen, bench } = await withSecrets(secrets, refused('invalid_client', 401));
    await expect(bench.text()).rejects.toMatchObject({ code: 'token_rejected', attempts });
    expect([seen.asked, bench.posts.length]).toEqual([2, attempts]);
  });

  const sealed = new Error('the vault is sealed');
  it.each<[string, () => string | Promise<string>, unknown]>([
    [
      'throws',
      () => {
        throw sealed;
      },
      sealed,
    ],
    ['rejects', () => Promise.reject(sealed), sealed],
    ['returns nothing', () => '', undefined],
  ])(
    'that %s fails with token_unavailable, with its error as the cause',
    async (_what, clientSecret, cause) => {
      const bench = await startBench(granted(), { tenants: { acme: { clientSecret } } });
      const error = await bench.text().catch((reason: unknown) => reason);
      expect(error).toMatchObject({ code: 'token_unavailable', attempts: 0 });
      expect([(error as Error).cause, bench.posts]).toEqual([cause, []]);
    },
  );

  it.each([
    [100, 'deadline_exceeded'],
    [600_000, 'service_unavailable'],
  ])('that never settles ends at the deadline (%i ms), or with the module', async (deadline, code) => {
    const clientSecret = () => new Promise<string>(() => {});
    const bench = await startBench(granted(), { tenants: { acme: { clientSecret } }, http: { deadline } });
    const waiting = bench.text();
    if (code === 'service_unavailable') {
      setImmediate(() => void bench.stop());
    }
    await expect(waiting).rejects.toMatchObject({ code, attempts: 0 });
  });

  it('that once never settles is called again after a deadline, however many callers come meanwhile', async () => {
    let asked = 0;
    const clientSecret = () => new Promise<string>((resolve) => ++asked > 1 && resolve('the next secret'));
    const bench = await startBench(granted(), {
      tenants: { acme: { clientSecret } },
      http: { deadline: 400 },
    });
    const ends: Promise<string>[] = [];
    for (let caller = 0; caller < 12; caller += 1) {
      ends.push(bench.text().catch(({ code }) => code));
      await pause(50);
    }
    const codes = await Promise.all(ends);
    expect([codes[0], codes.at(-1), asked, bench.posts.length]).toEqual([
      'deadline_exceeded',
      'token-1',
      2,
      1,
    ]);
  });
});

it.each<[lifetime: number, values: unknown[]]>([
  [120_000, [120, '120', ' 120 ']],
  [1_500, [1.5]],
  [0, [0, -5, '-5']],
  [DAY, [86_401, 1e300, Infinity, '9'.repeat(400)]],
  [HOUR, [undefined, null, NaN, 'an hour', '', '0x10', true, [3600], {}]],
])('expires_in gives %i ms: 1 h where it is unusable, a day at most, none below 0', (lifetime, values) => {
  expect(values.map(lifetimeOf)).toEqual(values.map(() => lifetime));
});

it('the early window is the last minute or tenth of a lifetime, shortened randomly by up to half', () => {
  fc.assert(
    fc.property(fc.nat(DAY), fc.double({ min: 0, max: 1, noNaN: true }), (lifetime, chance) => {
      const widest = Math.min(60_000, lifetime / 10);
      expect(earlyWindow(lifetime, chance)).toBeLessThanOrEqual(widest);
      expect(earlyWindow(lifetime, chance)).toBeGreaterThanOrEqual(widest / 2);
    }),
  );
});

describe('a token reply', () => {
  it.each([
    [{ token_type: 'bEARER' }, 'idp_api'],
    [{ scope: undefined }, 'a b'],
  ])('grants a token with its scope, or with the requested one: %j', async (fields, scope) => {
    const bench = await startBench(granted(fields), { tenants: { acme: { scope: 'a b' } } });
    expect(await bench.tokens.getToken()).toMatchObject({ accessToken: 'token-1', scope });
  });

  it('is malformed where it is not an object, or has no token that is valid in a header', async () => {
    const bench = await startBench();
    const tokens = [undefined, '', 1, 'token\r\nX-Tenant-Id: other', 'token other', 'tökén'];
    for (const answer of [
      ...tokens.map((access_token) => granted({ access_token })),
      ...[undefined, 'mac', ['Bearer']].map((token_type) => granted({ token_type })),
      ...[null, 'token', 1, true, []].map(
        (body): Answer =>
          (_form, _count, response) =>
            sendJson(response, body),
      ),
    ]) {
      bench.answer = answer;
      bench.clock.ahead += 2 * SECOND;
      await expect(bench.text()).rejects.toMatchObject({ code: 'malformed_response', attempts: 1 });
    }
  });
});
