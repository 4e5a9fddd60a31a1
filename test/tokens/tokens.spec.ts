import { generateKeyPairSync } from 'node:crypto';
import { inspect } from 'node:util';
import { afterEach, describe, expect, it } from '@jest/globals';
import { decodeJwt } from 'jose';
import { granted, refused, TokenBench, type Answer } from './token-bench.js';
import { sendJson } from '../support/server.js';
import { eventually, pause } from '../support/wait.js';
import { startSandbox } from '../support/sandbox.js';

let bench: TokenBench;
afterEach(() => bench?.stop());

const SECOND = 1_000;
const HOUR = 3_600 * SECOND;
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
    expect(Object.isFrozen(again[0])).toBe(true);
  });

  it('sends id and secret in the header with `basic`, form-encoded before they are joined', async () => {
    bench = await TokenBench.start(granted(), { acme: { clientAuth: 'basic' } });
    await get();
    const pair = Buffer.from(bench.authorizations[0]?.replace('Basic ', '') ?? '', 'base64').toString();
    expect(pair).toBe('acme-api:acme+secret%2F%2B%26');
    expect(Object.fromEntries(bench.posts[0] ?? [])).toEqual({
      grant_type: 'client_credentials',
      scope: 'idp_api',
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

  it('requests the scope of the tenant, and none where it is null', async () => {
    bench = await TokenBench.start(granted(), { one: { scope: 'a b' }, none: { scope: null } });
    await get('one');
    await get('none');
    expect(bench.posts.map((form) => form.get('scope'))).toEqual(['a b', null]);
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

  it('works against the sandbox', async () => {
    bench = await TokenBench.start();
    const sandbox = await startSandbox();
    const { tenantId, clientId, clientSecret } = sandbox.tenantOptions('globex');
    const other = await TokenBench.start(granted(), {
      globex: { tenantId, clientId, clientSecret, authUrl: sandbox.url },
    });
    await expect(other.tokens.getToken()).resolves.toMatchObject({ tokenType: 'Bearer', scope: 'idp_api' });
    await other.stop();
    await sandbox.stop();
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

  it('that fails early is not reported, and not repeated for 5 s', async () => {
    bench = await TokenBench.start(granted(), { acme: {} }, { attempts: 1 });
    await get();
    bench.answer = (_form, _count, response) => sendJson(response, {}, 503);
    bench.clock.ahead = HOUR - 59 * SECOND;
    for (let call = 0; call < 20; call += 1) {
      expect(await textOf()).toBe('token-1');
      await pause(5);
    }
    expect(bench.posts).toHaveLength(2);
    bench.clock.ahead += 5_500;
    expect(await textOf()).toBe('token-1');
    await eventually(() => bench.posts.length === 3);
  });

  it('that is refused early is not reported while the old token is valid', async () => {
    bench = await TokenBench.start();
    await get();
    bench.answer = refused('invalid_client', 401);
    bench.clock.ahead = HOUR - 59 * SECOND;
    for (let call = 0; call < 5; call += 1) {
      expect(await textOf()).toBe('token-1');
      await pause(10);
    }
    expect(bench.posts).toHaveLength(2);
    bench.clock.ahead = HOUR + SECOND;
    await expect(get()).rejects.toMatchObject({ code: 'token_rejected' });
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

  it.each([undefined, 'soon', null])('is due after an hour where expires_in is %p', async (seconds) => {
    bench = await TokenBench.start(lifetime(seconds));
    await get();
    bench.clock.ahead = HOUR - 61 * SECOND;
    expect(await textOf()).toBe('token-1');
    bench.clock.ahead = HOUR + SECOND;
    expect(await textOf()).toBe('token-2');
  });

  it('is due after a day at the latest', async () => {
    bench = await TokenBench.start(lifetime(1e12));
    await get();
    bench.clock.ahead = 24 * HOUR + SECOND;
    expect(await textOf()).toBe('token-2');
  });

  it('counts the lifetime from the start of the answered request', async () => {
    bench = await TokenBench.start(async (form, count, response) => {
      if (count === 1) {
        return sendJson(response, {}, 503, { 'retry-after': '2' });
      }
      bench.clock.ahead += 3 * SECOND;
      return lifetime(10)(form, count, response);
    });
    const { expiresAt } = await get();
    const left = expiresAt.getTime() - bench.clock.epochMs();
    expect(left).toBeGreaterThan(5 * SECOND);
    expect(left).toBeLessThanOrEqual(7 * SECOND);
  });

  it('accepts short lifetimes', async () => {
    bench = await TokenBench.start(lifetime(2));
    await get();
    bench.clock.ahead = 1.5 * SECOND;
    expect(await textOf()).toBe('token-1');
    bench.clock.ahead = 2.1 * SECOND;
    expect(await textOf()).toBe('token-2');
  });
});

describe('a caller who leaves', () => {
  const slow: Answer = async (form, count, response) => {
    await pause(150);
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
    await pause(300);
    expect(await textOf()).toBe('token-1');
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
      { deadline: 600, attemptTimeout: 600, attempts: 1 },
    );
    const early = get();
    await pause(300);
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

  it('is dropped by invalidate', async () => {
    bench = await TokenBench.start(refused('invalid_scope'));
    await expect(get()).rejects.toMatchObject({ code: 'token_rejected' });
    bench.answer = granted();
    await bench.tokens.invalidate();
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
    bench = await TokenBench.start(() => undefined, { acme: {} }, { deadline: 300 });
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

  it('that is a plain string is sent once', async () => {
    bench = await TokenBench.start(refused('invalid_client', 401));
    await expect(get()).rejects.toMatchObject({ code: 'token_rejected' });
    expect(bench.posts).toHaveLength(1);
  });

  it.each([
    [
      'throws',
      () => {
        throw new Error('the vault is sealed');
      },
    ],
    ['rejects', () => Promise.reject(new Error('the vault is sealed'))],
  ])('that %s fails with token_unavailable, with its error as the cause', async (_what, clientSecret) => {
    bench = await TokenBench.start(granted(), { acme: { clientSecret } });
    await expect(get()).rejects.toMatchObject({
      code: 'token_unavailable',
      attempts: 0,
      cause: new Error('the vault is sealed'),
    });
    expect(bench.posts).toHaveLength(0);
  });

  it('that returns nothing fails with token_unavailable, and nothing is sent', async () => {
    bench = await TokenBench.start(granted(), { acme: { clientSecret: () => '' } });
    await expect(get()).rejects.toMatchObject({ code: 'token_unavailable', attempts: 0 });
    expect(bench.posts).toHaveLength(0);
  });

  it('that never settles ends at the deadline', async () => {
    const clientSecret = () => new Promise<string>(() => {});
    bench = await TokenBench.start(granted(), { acme: { clientSecret } }, { deadline: 200 });
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
