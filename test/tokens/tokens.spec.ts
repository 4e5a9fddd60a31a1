import { generateKeyPairSync } from 'node:crypto';
import { inspect } from 'node:util';
import { afterEach, describe, expect, it } from '@jest/globals';
import * as fc from 'fast-check';
import { decodeJwt } from 'jose';
import { hideSecrets } from '../../lib/model/untrusted-text.js';
import { earlyWindow, lifetimeOf } from '../../lib/tokens/token-lifetime.js';
import { parseTokenReply } from '../../lib/tokens/token-reply.js';
import { anyText } from '../support/any-text.js';
import { granted, refused, TokenBench, type Answer } from './token-bench.js';
import { sendJson } from '../support/server.js';
import { eventually, pause } from '../support/wait.js';

let bench: TokenBench;
afterEach(() => bench?.stop());

const SECOND = 1_000;
const HOUR = 3_600 * SECOND;
const DAY = 24 * HOUR;
const get = (tenant = 'acme', signal?: AbortSignal) => bench.tokens.getToken({ tenant, signal });
const textOf = async (tenant?: string) => (await get(tenant)).accessToken;

describe('getToken', () => {
  it('posts the credentials of the tenant as a form, and returns the token', async () => {
    bench = await TokenBench.start();
    const token = await get();
    expect(token).toEqual({
      accessToken: 'token-1',
      tokenType: 'Bearer',
      scope: 'idp_api',
      expiresAt: expect.any(Date),
    });
    expect(Math.abs(token.expiresAt.getTime() - Date.now() - HOUR)).toBeLessThan(10 * SECOND);
    expect(Object.fromEntries(bench.posts[0] ?? [])).toEqual({
      client_id: 'acme-api',
      client_secret: 'acme secret/+&',
      grant_type: 'client_credentials',
      scope: 'idp_api',
    });
  });

  it('answers tenants that take turns the same tokens, each with its own end', async () => {
    bench = await TokenBench.start(granted(), { acme: {}, other: {} });
    const first = [await get(), await get('other')];
    bench.clock.ahead = SECOND;
    const again = [await get(), await get('other')];
    expect(again).toEqual(first);
    expect(first[0]?.accessToken).not.toBe(first[1]?.accessToken);
    // What a caller does with its answer changes that of nobody else.
    Object.assign(again[0] ?? {}, { accessToken: 'changed' });
    expect(await get()).toEqual(first[0]);
  });

  it('sends id and secret in the header with `basic`, form-encoded before they are joined; no scope where it is null', async () => {
    bench = await TokenBench.start(granted(), { acme: { clientAuth: 'basic', scope: null } });
    await get();
    const pair = Buffer.from(bench.authorizations[0]?.replace('Basic ', '') ?? '', 'base64').toString();
    expect(pair).toBe('acme-api:acme+secret%2F%2B%26');
    expect(Object.fromEntries(bench.posts[0] ?? [])).toEqual({
      grant_type: 'client_credentials',
    });
  });

  it('signs a new assertion for each attempt: the provider accepts one once', async () => {
    const { privateKey } = generateKeyPairSync('ec', { namedCurve: 'P-256' });
    bench = await TokenBench.start(
      (form, count, response) =>
        count < 3 ? refused('server_error', 503)(form, count, response) : granted()(form, count, response),
      {
        acme: {
          clientSecret: undefined,
          clientAuth: { privateKey, kid: 'a', audience: 'https://as.example' },
        },
      },
    );
    await get();
    const assertions = bench.posts.map((form) => form.get('client_assertion') ?? '');
    expect(assertions).toHaveLength(3);
    const claims = assertions.map((assertion) => decodeJwt(assertion));
    expect(new Set(claims.map(({ jti }) => jti)).size).toBe(3);
    for (const { aud, iat, exp } of claims) {
      expect(aud).toBe('https://as.example');
      expect(Number(exp) - Number(iat)).toBe(60);
    }
  });

  it('requires a tenant where there are several', async () => {
    bench = await TokenBench.start(granted(), { acme: {}, globex: {} });
    await expect(bench.tokens.getToken()).rejects.toMatchObject({ code: 'tenant_required' });
    await expect(get('nobody')).rejects.toMatchObject({ code: 'unknown_tenant' });
    await bench.stop();
    bench = await TokenBench.start();
    await expect(bench.tokens.getToken()).resolves.toMatchObject({ accessToken: 'token-1' });
  });

  it('returns the cached token while it is valid', async () => {
    bench = await TokenBench.start();
    for (let call = 0; call < 5; call += 1) {
      expect(await textOf()).toBe('token-1');
    }
    expect(bench.posts).toHaveLength(1);
    expect(bench.outcomes).toEqual(['fetched', 'hit', 'hit', 'hit', 'hit']);
  });

  it('sends one request for a thousand callers', async () => {
    bench = await TokenBench.start(async (form, count, response) => {
      await pause(50);
      return granted()(form, count, response);
    });
    const texts = await Promise.all(Array.from({ length: 1_000 }, () => textOf()));
    expect(new Set(texts)).toEqual(new Set(['token-1']));
    expect(bench.posts).toHaveLength(1);
    expect(bench.outcomes.filter((outcome) => outcome === 'shared')).toHaveLength(999);
  });

  it('keeps the tokens of tenants separate where their credentials are equal', async () => {
    const same = { clientId: 'same', clientSecret: 'the same secret' };
    bench = await TokenBench.start(granted(), { acme: same, globex: same });
    expect([await textOf('acme'), await textOf('globex')]).toEqual(['token-1', 'token-2']);
    await bench.tokens.invalidate({ tenant: 'acme' });
    expect([await textOf('acme'), await textOf('globex')]).toEqual(['token-3', 'token-2']);
  });
});

describe('renewal', () => {
  const lifetime = (seconds: unknown): Answer => granted({ expires_in: seconds });

  it('starts in the early window, while the old token is used', async () => {
    let isSlow = false;
    bench = await TokenBench.start(async (form, count, response) => {
      if (isSlow) {
        await pause(100);
      }
      return granted()(form, count, response);
    });
    await get();
    bench.clock.ahead = HOUR - 61 * SECOND;
    expect(await textOf()).toBe('token-1');
    expect(bench.posts).toHaveLength(1);
    isSlow = true;
    bench.clock.ahead = HOUR - 59 * SECOND;
    expect(await Promise.all([textOf(), textOf(), textOf()])).toEqual(['token-1', 'token-1', 'token-1']);
    await eventually(() => bench.outcomes.includes('renewed-early'));
    expect(await textOf()).toBe('token-2');
    expect(bench.posts).toHaveLength(2);
  });

  it('starts up to half of the window later, randomly', async () => {
    bench = await TokenBench.start();
    bench.clock.chance = 1;
    await get();
    bench.clock.ahead = HOUR - 31 * SECOND;
    await get();
    await pause(50);
    expect(bench.posts).toHaveLength(1);
    bench.clock.ahead = HOUR - 29 * SECOND;
    await get();
    await eventually(() => bench.posts.length === 2);
  });

  it.each<[string, Answer, number]>([
    ['fails', (_form, _count, response) => sendJson(response, {}, 503), 5_500],
    ['is refused', refused('invalid_client', 401), 30_500],
  ])('that %s early is not reported, and not repeated for a while', async (_what, answer, quiet) => {
    bench = await TokenBench.start(granted(), { acme: {} }, { attempts: 1 });
    await get();
    bench.answer = answer;
    bench.clock.ahead = HOUR - 59 * SECOND;
    for (let call = 0; call < 20; call += 1) {
      expect(await textOf()).toBe('token-1');
      await pause(5);
    }
    expect(bench.posts).toHaveLength(2);
    bench.clock.ahead += quiet - 1_000;
    expect(await textOf()).toBe('token-1');
    await pause(20);
    expect(bench.posts).toHaveLength(2);
    bench.clock.ahead += 1_000;
    expect(await textOf()).toBe('token-1');
    await eventually(() => bench.posts.length === 3);
  });

  it('is awaited by all callers when the old token expired', async () => {
    bench = await TokenBench.start();
    await get();
    bench.clock.ahead = HOUR + SECOND;
    expect(await Promise.all([textOf(), textOf(), textOf()])).toEqual(['token-2', 'token-2', 'token-2']);
    expect(bench.outcomes).toEqual(['fetched', 'fetched', 'shared', 'shared']);
  });

  it.each([0, -1, '0'])('is due after the call that fetched it where expires_in is %p', async (seconds) => {
    bench = await TokenBench.start(async (form, count, response) => {
      await pause(20);
      return lifetime(seconds)(form, count, response);
    });
    expect(await Promise.all([textOf(), textOf()])).toEqual(['token-1', 'token-1']);
    expect(await textOf()).toBe('token-2');
  });

  it('counts the lifetime from the start of the answered request', async () => {
    bench = await TokenBench.start(async (form, count, response) => {
      if (count === 1) {
        bench.clock.ahead += 3 * SECOND;
        return sendJson(response, {}, 503);
      }
      bench.clock.ahead += 3 * SECOND;
      return lifetime(10)(form, count, response);
    });
    const { expiresAt } = await get();
    const left = expiresAt.getTime() - bench.clock.epochMs();
    expect(left).toBeGreaterThan(5 * SECOND);
    expect(left).toBeLessThanOrEqual(7 * SECOND);
  });
});

describe('a caller who leaves', () => {
  const slow: Answer = async (form, count, response) => {
    await pause(50);
    return granted()(form, count, response);
  };

  it('gets aborted, and the renewal continues for the others', async () => {
    bench = await TokenBench.start(slow);
    const controller = new AbortController();
    const [leaving, staying] = [get('acme', controller.signal), textOf()];
    controller.abort();
    await expect(leaving).rejects.toMatchObject({ code: 'aborted' });
    await expect(staying).resolves.toBe('token-1');
    expect(bench.posts).toHaveLength(1);
  });

  it('does not stop the renewal, whose token is cached', async () => {
    bench = await TokenBench.start(slow);
    const controller = new AbortController();
    const leaving = get('acme', controller.signal);
    await eventually(() => bench.posts.length === 1);
    controller.abort();
    await expect(leaving).rejects.toMatchObject({ code: 'aborted' });
    await eventually(async () => (await textOf()) === 'token-1');
    expect(bench.posts).toHaveLength(1);
  });

  it('before the call gets aborted, although a token is cached', async () => {
    bench = await TokenBench.start();
    await get();
    await expect(get('acme', AbortSignal.abort())).rejects.toMatchObject({ code: 'aborted' });
  });
});

describe('a caller who comes late', () => {
  it('does not fail by the deadline of earlier callers', async () => {
    bench = await TokenBench.start(
      () => undefined,
      { acme: {} },
      { deadline: 200, attemptTimeout: 200, attempts: 1 },
    );
    const early = get();
    await pause(100);
    const late = get();
    bench.answer = granted();
    await expect(early).rejects.toMatchObject({
      code: expect.stringMatching(/deadline_exceeded|token_unavailable/),
    });
    await expect(late).resolves.toMatchObject({ accessToken: 'token-2' });
  });
});

describe('a token the service refused', () => {
  it('is dropped; a newer one is kept', async () => {
    bench = await TokenBench.start();
    const first = await textOf();
    await bench.refuse(first);
    await bench.refuse(first);
    expect(await textOf()).toBe('token-2');
    await bench.refuse(first);
    expect(await textOf()).toBe('token-2');
    expect(bench.posts).toHaveLength(2);
    expect(bench.outcomes).toEqual(['fetched', 'forced', 'hit']);
  });

  it('is dropped by invalidate where it is the named token', async () => {
    bench = await TokenBench.start();
    await get();
    await bench.tokens.invalidate({ rejected: 'another' });
    expect(await textOf()).toBe('token-1');
    await bench.tokens.invalidate({ rejected: 'token-1' });
    expect(await textOf()).toBe('token-2');
    await bench.tokens.invalidate();
    expect(await textOf()).toBe('token-3');
    await expect(bench.tokens.invalidate({ tenant: 'nobody' })).rejects.toMatchObject({
      code: 'unknown_tenant',
    });
  });
});

describe('invalidate during a renewal', () => {
  it.each([
    ['first', [0, 1]],
    ['last', [1, 0]],
  ])('drops the token that was requested before, where it arrives %s', async (_when, order) => {
    const release: (() => void)[] = [];
    bench = await TokenBench.start(async (...request) => {
      await new Promise<void>((resolve) => release.push(resolve));
      return granted()(...request);
    });
    const before = textOf();
    await eventually(() => bench.posts.length === 1);
    await bench.tokens.invalidate();
    const after = textOf();
    await eventually(() => bench.posts.length === 2);
    const texts = [before, after];
    for (const index of order) {
      release[index]?.();
      expect(await texts[index]).toBe(`token-${index + 1}`);
    }
    expect(await textOf()).toBe('token-2');
    expect(bench.posts).toHaveLength(2);
  });

  it('forgives the refusal that was asked for before', async () => {
    let refuse = (): void => undefined;
    bench = await TokenBench.start(async (...request) => {
      await new Promise<void>((resolve) => (refuse = resolve));
      return refused('invalid_client', 401)(...request);
    });
    const before = get();
    await eventually(() => bench.posts.length === 1);
    await bench.tokens.invalidate();
    refuse();
    await expect(before).rejects.toMatchObject({ code: 'token_rejected' });
    bench.answer = granted();
    expect(await textOf()).toBe('token-2');
  });
});

describe('a permanent refusal', () => {
  it.each([
    ['invalid_client', 401],
    ['invalid_scope', 400],
    ['access_denied', 403],
    ['invalid_client', 200],
  ])('is cached: %s with %i', async (error, status) => {
    bench = await TokenBench.start(refused(error, status, 'as described'));
    const expected = {
      code: 'token_rejected',
      oauthError: error,
      oauthErrorDescription: 'as described',
      status,
      tenant: 'acme',
    };
    await expect(get()).rejects.toMatchObject({ ...expected, attempts: 1 });
    await expect(get()).rejects.toMatchObject({ ...expected, attempts: 0 });
    expect(bench.posts).toHaveLength(1);
    expect(bench.outcomes).toEqual(['failed', 'failed']);
  });

  it('is cached for 30 s', async () => {
    bench = await TokenBench.start(refused('invalid_client'));
    await expect(get()).rejects.toMatchObject({ code: 'token_rejected' });
    bench.clock.ahead = 29 * SECOND;
    await expect(get()).rejects.toMatchObject({ attempts: 0 });
    bench.answer = granted();
    bench.clock.ahead = 31 * SECOND;
    await expect(textOf()).resolves.toBe('token-2');
  });

  it.each([
    ['temporarily_unavailable', 400],
    ['server_error', 400],
  ])('is not %s', async (error, status) => {
    bench = await TokenBench.start(refused(error, status));
    await expect(get()).rejects.toMatchObject({ code: 'token_unavailable' });
    bench.answer = granted();
    await expect(textOf()).resolves.toBe('token-2');
  });

  it.each([400, 403, 404])('is not a %i without an OAuth error', async (status) => {
    bench = await TokenBench.start(
      (_form, _count, response) => void response.writeHead(status).end('<html>'),
    );
    await expect(get()).rejects.toMatchObject({
      code: 'token_rejected',
      oauthError: `http_${status}`,
      status,
    });
    bench.answer = granted();
    await expect(textOf()).resolves.toBe('token-2');
  });

  it('shows nothing of the request that it repeats', async () => {
    bench = await TokenBench.start((form, _count, response) => {
      const secret = form.get('client_secret') ?? '';
      const echoed = [
        secret,
        encodeURIComponent(secret),
        Buffer.from(secret).toString('base64'),
        form.toString(),
      ];
      const description = `wrong: ${echoed.join(' | ')}`;
      return sendJson(response, { error: 'invalid_client', error_description: description }, 401);
    });
    const error: unknown = await get().catch((reason: unknown) => reason);
    const shown = [inspect(error, { depth: Infinity }), JSON.stringify(error), String(error)].join('\n');
    expect(error).toMatchObject({
      code: 'token_rejected',
      oauthErrorDescription: '[removed]',
    });
    for (const form of [
      'acme secret/+&',
      'acme%20secret',
      'acme+secret',
      Buffer.from('acme secret').toString('base64').slice(0, 12),
    ]) {
      expect(shown).not.toContain(form);
    }
  });
});

describe('a temporary failure', () => {
  it.each([
    ['503', 503, 'token_unavailable'],
    ['429', 429, 'rate_limited'],
  ])('is not cached: %s', async (_what, status, code) => {
    bench = await TokenBench.start(
      (_form, _count, response) => sendJson(response, {}, status),
      { acme: {} },
      { attempts: 2 },
    );
    await expect(get()).rejects.toMatchObject({ code, status, attempts: 2 });
    bench.answer = granted();
    await expect(textOf()).resolves.toBe('token-3');
  });

  it('is malformed_response where the reply is invalid', async () => {
    bench = await TokenBench.start(() => ({ token: 'what?' }));
    await expect(get()).rejects.toMatchObject({
      code: 'malformed_response',
      status: 200,
      attempts: 1,
      tenant: 'acme',
    });
  });

  it('is deadline_exceeded with the number of requests sent', async () => {
    bench = await TokenBench.start(() => undefined, { acme: {} }, { deadline: 100 });
    await expect(get()).rejects.toMatchObject({ code: 'deadline_exceeded', attempts: 1, tenant: 'acme' });
  });
});

describe('a secret that is a function', () => {
  it('is called for each token request, and not for a cached token', async () => {
    let asked = 0;
    const clientSecret = async () => `secret-number-${(asked += 1)}`;
    bench = await TokenBench.start(granted(), { acme: { clientSecret } });
    await get();
    await get();
    expect(asked).toBe(1);
    await bench.tokens.invalidate();
    await get();
    expect(bench.posts.map((form) => form.get('client_secret'))).toEqual([
      'secret-number-1',
      'secret-number-2',
    ]);
  });

  it.each([
    ['invalid_client', 401],
    // Keycloak's word for a wrong secret.
    ['unauthorized_client', 400],
  ])('is called again once after %s, since it may have been rotated', async (error, status) => {
    let asked = 0;
    const clientSecret = () => ['the old secret', 'the new secret'][asked++] ?? 'none';
    bench = await TokenBench.start(
      (form, count, response) =>
        form.get('client_secret') === 'the new secret'
          ? granted()(form, count, response)
          : refused(error, status)(form, count, response),
      { acme: { clientSecret } },
    );
    expect(await textOf()).toBe('token-2');
    expect(asked).toBe(2);
  });

  it('that returns the same secret is not sent again, which could lock the client', async () => {
    let asked = 0;
    const clientSecret = () => {
      asked += 1;
      return 'the only secret';
    };
    bench = await TokenBench.start(refused('invalid_client', 401), { acme: { clientSecret } });
    await expect(get()).rejects.toMatchObject({ code: 'token_rejected', attempts: 1 });
    expect([asked, bench.posts.length]).toEqual([2, 1]);
  });

  it('that is refused twice fails, with both requests counted', async () => {
    let asked = 0;
    bench = await TokenBench.start(refused('invalid_client', 401), {
      acme: { clientSecret: () => `secret-no-${(asked += 1)}` },
    });
    await expect(get()).rejects.toMatchObject({ code: 'token_rejected', attempts: 2 });
    expect([asked, bench.posts.length]).toEqual([2, 2]);
  });

  it.each([
    [
      'throws',
      () => {
        throw new Error('the vault is sealed');
      },
    ],
    ['rejects', () => Promise.reject(new Error('the vault is sealed'))],
    ['returns nothing', () => ''],
  ])('that %s fails with token_unavailable, with its error as the cause', async (what, clientSecret) => {
    bench = await TokenBench.start(granted(), { acme: { clientSecret } });
    await expect(get()).rejects.toMatchObject({
      code: 'token_unavailable',
      attempts: 0,
      ...(what === 'returns nothing' ? {} : { cause: new Error('the vault is sealed') }),
    });
    expect(bench.posts).toHaveLength(0);
  });

  it('that never settles ends at the deadline', async () => {
    const clientSecret = () => new Promise<string>(() => {});
    bench = await TokenBench.start(granted(), { acme: { clientSecret } }, { deadline: 100 });
    await expect(get()).rejects.toMatchObject({ code: 'deadline_exceeded', attempts: 0 });
  });
});

describe('closing', () => {
  it('ends a renewal that waits for a secret, and leaves no timer', async () => {
    const clientSecret = () => new Promise<string>(() => {});
    bench = await TokenBench.start(granted(), { acme: { clientSecret } }, { deadline: 600_000 });
    const waiting = get();
    setImmediate(() => bench.deadlines.close());
    await expect(waiting).rejects.toMatchObject({ code: 'service_unavailable', attempts: 0 });
  });
});

describe('nestjs-exhibitor:token', () => {
  it('reports tenant, outcome and code only', async () => {
    bench = await TokenBench.start();
    await get();
    bench.answer = refused('invalid_client', 401, 'acme secret/+&');
    await bench.tokens.invalidate();
    await expect(get()).rejects.toMatchObject({ code: 'token_rejected' });
    expect(bench.messages).toEqual([
      { tenant: 'acme', outcome: 'fetched' },
      { tenant: 'acme', outcome: 'failed', code: 'token_rejected' },
    ]);
  });
});

describe('expires_in', () => {
  it.each([
    ['a number of seconds', 120, 120_000],
    ['a fraction', 1.5, 1_500],
    ['its digits as a string', '120', 120_000],
    ['digits between spaces', ' 120 ', 120_000],
    ['zero', 0, 0],
    ['negative', -5, 0],
    ['negative, as a string', '-5', 0],
    ['more than a day', 86_401, DAY],
    ['huge', 1e300, DAY],
    ['huge, as JSON reads 1e999', Infinity, DAY],
    ['huge, as a string', '9'.repeat(400), DAY],
    ['missing', undefined, HOUR],
    ['null', null, HOUR],
    ['not a number', NaN, HOUR],
    ['words', 'an hour', HOUR],
    ['empty', '', HOUR],
    ['another notation', '0x10', HOUR],
    ['true', true, HOUR],
    ['a list', [3600], HOUR],
    ['an object', {}, HOUR],
  ])('of %s', (_what, value, lifetime) => {
    expect(lifetimeOf(value)).toBe(lifetime);
  });
});

describe('the early window', () => {
  it('is the last minute or tenth of a lifetime, shortened randomly by up to half', () => {
    fc.assert(
      fc.property(fc.nat(DAY), fc.double({ min: 0, max: 1, noNaN: true }), (lifetime, chance) => {
        const widest = Math.min(60_000, lifetime / 10);
        expect(earlyWindow(lifetime, chance)).toBeLessThanOrEqual(widest);
        expect(earlyWindow(lifetime, chance)).toBeGreaterThanOrEqual(widest / 2);
      }),
    );
  });
});

describe('a token reply', () => {
  const whole = { access_token: 'token', token_type: 'Bearer', expires_in: 3600, scope: 'idp_api' };

  it('grants a token', () => {
    expect(parseTokenReply(whole, 'idp_api')).toEqual({
      kind: 'granted',
      accessToken: 'token',
      scope: 'idp_api',
      expiresIn: 3600,
    });
  });

  it.each(['bearer', 'BEARER', 'Bearer'])('may write its type in any case: %s', (type) => {
    expect(parseTokenReply({ ...whole, token_type: type }, null).kind).toBe('granted');
  });

  it('without a scope grants the requested one', () => {
    const { scope: _scope, ...silent } = whole;
    expect(parseTokenReply(silent, 'a b')).toMatchObject({ scope: 'a b' });
    expect(parseTokenReply(silent, null)).toMatchObject({ scope: undefined });
  });

  it.each([
    ['without access_token', { access_token: undefined }],
    ['with an empty access_token', { access_token: '' }],
    ['whose access_token is a number', { access_token: 1 }],
    ['whose access_token ends the header', { access_token: 'token\r\nX-Tenant-Id: other' }],
    ['whose access_token has a space', { access_token: 'token other' }],
    ['whose access_token is not ASCII', { access_token: 'tökén' }],
    ['without token_type', { token_type: undefined }],
    ['of another type', { token_type: 'mac' }],
    ['whose type is a list', { token_type: ['Bearer'] }],
  ])('%s is malformed', (_what, fields) => {
    expect(parseTokenReply({ ...whole, ...fields }, null).kind).toBe('malformed');
  });

  it.each([null, 'token', 1, true, [], [whole]])('that is not an object is malformed: %p', (body) => {
    expect(parseTokenReply(body, null).kind).toBe('malformed');
  });

  it('is never accepted without a token that is valid in a header', () => {
    fc.assert(
      fc.property(fc.jsonValue(), anyText(), (value, accessToken) => {
        const read = parseTokenReply({ ...whole, access_token: accessToken, extra: value }, null);
        if (read.kind === 'granted') {
          expect(read.accessToken).toMatch(/^[\x21-\x7e]+$/);
        }
        parseTokenReply(value, null);
      }),
    );
  });
});

describe('the shown part of a description', () => {
  const text = anyText({ minLength: 6, maxLength: 40 }).filter((value) => value.trim().length >= 6);

  it('contains no secret: raw, URL-encoded, base64 or hexadecimal, at any position', () => {
    const shapes: ((secret: string, before: string) => string)[] = [
      (secret) => secret,
      (secret) => encodeURIComponent(secret),
      (secret) => encodeURIComponent(secret).toLowerCase(),
      (secret) => new URLSearchParams({ client_secret: secret }).toString(),
      (secret) => Buffer.from(secret).toString('base64'),
      (secret) => Buffer.from(secret).toString('base64url'),
      (secret, before) => Buffer.from(`${before}:${secret}`).toString('base64'),
      (secret, before) => Buffer.from(`${before}:${secret}`).toString('hex'),
      (secret) => Buffer.from(secret).toString('hex').toUpperCase(),
    ];
    fc.assert(
      fc.property(
        fc.stringMatching(/^[\x21-\x7e]{8,40}$/),
        fc.string({ maxLength: 6 }),
        fc.constantFrom(...shapes),
        (secret, before, shape) => {
          const shown = hideSecrets(`the client sent ${shape(secret, before)} which is wrong`, [secret]);
          const unpacked = [...shown.matchAll(/[\w+/=-]{8,}/g)].map(([run]) =>
            Buffer.from(run, 'base64').toString(),
          );
          const digits = [...shown.matchAll(/[\da-f]{8,}/gi)].map(([run]) =>
            Buffer.from(run, 'hex').toString(),
          );
          for (const form of [shown, decodeURIComponentSafely(shown), ...unpacked, ...digits]) {
            expect(form.includes(secret)).toBe(false);
          }
        },
      ),
      { numRuns: 300 },
    );
  });

  it('is one line of at most 300 characters', () => {
    fc.assert(
      fc.property(anyText({ maxLength: 2_000 }), text, (description, secret) => {
        const shown = hideSecrets(description, [secret]);
        expect(shown.length).toBeLessThanOrEqual(301);
        expect(shown).toMatch(/^[^\p{Cc}]*$/u);
      }),
    );
  });

  it.each([
    ['nothing', ''],
    ['a token, which is much shorter when it is removed', `eyJ${'a'.repeat(700)} `],
    ['a long token, which is much shorter when it is removed', `eyJ${'a'.repeat(1_100)} `],
    ['ten addresses', `${'a'.repeat(60)}@example.com `.repeat(10)],
  ])('holds no part of a secret or an address that a cut splits, after %s', (_what, before) => {
    const secret = '7Gk2xQ9pLm4Zt8Rv'.repeat(6);
    const address = 'zoe.victim.of.the.cut@example.com';
    for (const [part, whole] of [
      ['7Gk2', secret],
      ['zoe.', address],
    ] as const) {
      for (let at = 0; at < 2_000; at += 23) {
        const shown = hideSecrets(`${before}${'. '.repeat(at / 2)}${whole} after it`, [secret]);
        expect([at, shown.includes(part)]).toEqual([at, false]);
      }
    }
  });
});

function decodeURIComponentSafely(value: string): string {
  try {
    return decodeURIComponent(value);
  } catch {
    return value;
  }
}
