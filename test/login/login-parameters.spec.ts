import { beforeAll, describe, expect, it } from '@jest/globals';
import { TokenValidator } from '../../lib/index.js';
import { BoothController } from '../support/booth.controller.js';
import type { Host } from '../support/host.js';
import { CLIENT_ID, type LoginOverrides, type ScriptedProvider } from '../support/provider.js';
import { sign } from '../support/provider-keys.js';
import { changes, type Claims } from '../support/provider-script.js';
import { Visitor } from '../support/visitor.js';
import { beginWith, ChoosingController } from './choosing.controller.js';
import { withProvider } from './hosts.js';
import { expectRefusal, identityOf, toHost, type Arrival } from './journey.js';

const OF_TENANT = { prompt: 'consent', maxAge: 600, brandingTenantId: 'of-the-tenant' };

let provider: ScriptedProvider;
const start = withProvider((started) => (provider = started));
const controllers = [BoothController, ChoosingController];

/** The response of the provider, whose address the browser may change. */
async function answered(
  visitor: Visitor,
  host: Host,
  parameters: unknown,
  change: (address: URL) => void = () => undefined,
): Promise<Arrival> {
  const { location = '' } = await beginWith(visitor, host, parameters);
  const address = new URL(location);
  change(address);
  const reply = await visitor.visit(address);
  const target = new URL(reply.location ?? '');
  return { method: 'GET', callback: `${target.origin}${target.pathname}`, parameters: target.searchParams };
}

const authenticated =
  (claims: Claims) =>
  (all: Claims): void =>
    void Object.assign(all, claims);

const secondsAgo = (seconds: number): number => Math.floor(Date.now() / 1000) - seconds;

describe('the parameters of a login', () => {
  let host: Host;
  let plain: Host;
  beforeAll(async () => {
    host = await start({ controllers, login: OF_TENANT });
    plain = await start({ controllers });
  });

  const sentFor = async (at: Host, parameters: unknown): Promise<Record<string, string>> => {
    const { location = '' } = await beginWith(new Visitor(), at, parameters);
    const { client_id, redirect_uri, response_type, scope, state, nonce, ...rest } = Object.fromEntries(
      new URL(location).searchParams,
    );
    const { code_challenge, code_challenge_method, ...sent } = rest;
    const always = [client_id, redirect_uri, response_type, scope, state, nonce];
    expect([...always, code_challenge, code_challenge_method]).not.toContain(undefined);
    return sent;
  };

  it('are sent over those of the tenant, and nothing else is', async () => {
    expect(await sentFor(plain, {})).toEqual({});
    const ofTenant = { prompt: 'consent', max_age: '600', tenantId: 'of-the-tenant' };
    expect(await sentFor(host, {})).toEqual(ofTenant);
    expect(await sentFor(host, null)).toEqual(ofTenant);
    expect(
      await sentFor(host, {
        prompt: 'login select_account',
        loginHint: 'zoë+fair@example.com & more',
        acrValues: 'urn:mfa phr',
        uiLocales: 'de-CH fr',
        maxAge: 60,
        brandingTenantId: 'of-the-login',
      }),
    ).toEqual({
      prompt: 'login select_account',
      login_hint: 'zoë+fair@example.com & more',
      acr_values: 'urn:mfa phr',
      ui_locales: 'de-CH fr',
      max_age: '60',
      tenantId: 'of-the-login',
    });
  });

  it('ask for the smaller age of the two', async () => {
    expect((await sentFor(host, { maxAge: 601 }))['max_age']).toBe('600');
    expect((await sentFor(host, { maxAge: 0 }))['max_age']).toBe('0');
    expect((await sentFor(plain, { maxAge: 601 }))['max_age']).toBe('601');
  });

  it.each<[string, unknown]>([
    ['an empty prompt', { prompt: '' }],
    ['a prompt with a line feed', { prompt: 'login\nconsent' }],
    ['an empty hint', { loginHint: '' }],
    ['a hint with a control character', { loginHint: 'pat\u0000' }],
    ['a long hint', { loginHint: 'x'.repeat(513) }],
    ['a long branding', { brandingTenantId: 'x'.repeat(513) }],
    ['a language with a NUL', { uiLocales: 'de\u0000' }],
    ['a hint that is a list', { loginHint: ['pat', 'zoe'] }],
    ['a context with a tab', { acrValues: 'mfa\tphr' }],
    ['many contexts', { acrValues: 'mfa '.repeat(300) }],
    ['a negative age', { maxAge: -1 }],
    ['a fraction', { maxAge: 0.5 }],
    ['an age as text', { maxAge: '0' }],
    ['another parameter', { redirect_uri: 'https://evil.example/' }],
    ['a parameter of this module', { state: 'mine' }],
    ['no object', 'prompt=login'],
    ['a list', ['login']],
  ])('are refused with %s: 400, and no login is started', async (_what, parameters) => {
    const reply = await beginWith(new Visitor(), host, parameters);
    expect([reply.status, JSON.parse(reply.text)]).toEqual([
      400,
      expect.objectContaining({ code: 'invalid_argument' }),
    ]);
    expect(reply.text).toContain('getLoginParameters');
    expect(reply.text).not.toMatch(/evil|phr|redirect_uri/);
    expect([reply.location, reply.setCookies]).toEqual([undefined, []]);
  });

  it('enforce maxAge at the callback, also where the browser removes it from the address', async () => {
    const visitor = new Visitor();
    for (const [maxAge, authTime] of [
      [0, secondsAgo(40)],
      [60, secondsAgo(100)],
      [0, undefined],
    ] as const) {
      provider.script = { backToken: { claims: authenticated({ auth_time: authTime }) } };
      const arrival = await answered(visitor, plain, { maxAge }, (url) => url.searchParams.delete('max_age'));
      expectRefusal(await toHost(visitor, arrival), 'auth_time');
    }
    provider.script = { backToken: { claims: authenticated({ auth_time: secondsAgo(10) }) } };
    expect((await toHost(visitor, await answered(visitor, plain, { maxAge: 0 }))).status).toBe(303);
    // The control: a login without it accepts an authentication of any age.
    provider.script = { backToken: { claims: authenticated({ auth_time: secondsAgo(9_000) }) } };
    expect((await toHost(visitor, await answered(visitor, plain, {}))).status).toBe(303);
  });

  it('do not exceed the age that the tenant allows', async () => {
    const visitor = new Visitor();
    provider.script = { backToken: { claims: authenticated({ auth_time: secondsAgo(700) }) } };
    expectRefusal(await toHost(visitor, await answered(visitor, host, { maxAge: 3_600 })), 'auth_time');
    provider.script = { backToken: { claims: authenticated({ auth_time: secondsAgo(500) }) } };
    expect((await toHost(visitor, await answered(visitor, host, { maxAge: 3_600 }))).status).toBe(303);
  });
});

it('TokenValidator enforces the age that the tenant allows, too', async () => {
  const host = await start({ login: OF_TENANT });
  const validate = async (authTime: number): Promise<unknown> => {
    const claims = { iss: provider.url, sub: 'pat', aud: CLIENT_ID, auth_time: authTime };
    const token = await sign(
      JSON.stringify({ ...claims, iat: secondsAgo(0), exp: secondsAgo(-300) }),
      provider.key,
    );
    return host.app.get(TokenValidator).validate(token, { use: 'id_token' });
  };
  await expect(validate(secondsAgo(700))).rejects.toMatchObject({ reason: 'auth_time' });
  await expect(validate(secondsAgo(500))).resolves.toMatchObject({ sub: 'pat' });
});

describe('an identity', () => {
  const AUTHENTICATION = { auth_time: secondsAgo(5), acr: 'urn:mfa' };
  const logIn = async (login: LoginOverrides): Promise<Claims | undefined> => {
    const [visitor, host] = [new Visitor(), await start({ controllers, login })];
    expect((await toHost(visitor, await answered(visitor, host, {}))).status).toBe(303);
    return (await identityOf(visitor, host))?.claims;
  };

  it('keeps auth_time and acr, whatever else it keeps', async () => {
    const claims = authenticated({ ...AUTHENTICATION, nickname: 'Patty' });
    provider.script = { backToken: { claims } };
    expect(await logIn({ keepClaims: ['nickname'] })).toEqual({ ...AUTHENTICATION, nickname: 'Patty' });
    expect(await logIn({ keepClaims: [] })).toEqual(AUTHENTICATION);
    provider.script = {
      backToken: { claims: authenticated({ ...AUTHENTICATION, biography: 'x'.repeat(5_000) }) },
    };
    expect(await logIn({})).toEqual(AUTHENTICATION);
  });

  it('has them from the ID token alone: userinfo is about the person, not about this login', async () => {
    provider.script = {
      email: 'userinfo',
      backToken: { claims: authenticated({ auth_time: undefined }) },
      userinfo: changes({ ...AUTHENTICATION, amr: ['otp'], nickname: 'Patty' }),
    };
    const claims = await logIn({});
    expect(claims).toMatchObject({ nickname: 'Patty' });
    expect(Object.keys(claims ?? {})).not.toEqual(expect.arrayContaining(['acr']));
    expect(claims).not.toHaveProperty('auth_time');
    expect(claims).not.toHaveProperty('amr');
  });
});
