import { beforeAll, describe, expect, it } from '@jest/globals';
import { TokenValidator } from '../../lib/index.js';
import { BoothController } from '../support/booth.controller.js';
import type { Host } from '../support/host.js';
import { CLIENT_ID, type LoginOverrides, type ScriptedProvider } from '../support/provider.js';
import { sign } from '../support/provider-keys.js';
import { changes, says, type Claims } from '../support/provider-script.js';
import { Visitor, type Reply } from '../support/visitor.js';
import { beginWith, ChoosingController } from './choosing.controller.js';
import { withProvider } from './hosts.js';
import { expectError, expectRefusal, identityOf } from './journey.js';

const OF_TENANT = { prompt: 'consent', maxAge: 600, brandingTenantId: 'of-the-tenant' };

let provider: ScriptedProvider;
const startAt = withProvider((started) => (provider = started));
const start = (login: LoginOverrides = {}): Promise<Host> =>
  startAt({ controllers: [BoothController, ChoosingController], login });

/** Logs in with these parameters, of which the browser removes `max_age` from the address. */
async function logInWith(visitor: Visitor, host: Host, parameters: unknown): Promise<Reply> {
  const { location = '' } = await beginWith(visitor, host, parameters);
  const address = new URL(location);
  address.searchParams.delete('max_age');
  return visitor.visit((await visitor.visit(address)).location ?? '');
}

const secondsAgo = (seconds: number): number => Math.floor(Date.now() / 1000) - seconds;

describe('the parameters of a login', () => {
  let host: Host;
  let plain: Host;
  beforeAll(async () => {
    [host, plain] = [await start(OF_TENANT), await start()];
  });

  /** What is sent beside what every login sends. */
  const sentFor = async (at: Host, parameters: unknown): Promise<Record<string, string>> => {
    const { location = '' } = await beginWith(new Visitor(), at, parameters);
    const sent = Object.fromEntries(new URL(location).searchParams);
    const usual = ['client_id', 'redirect_uri', 'response_type', 'scope', 'state', 'nonce'];
    for (const name of [...usual, 'code_challenge', 'code_challenge_method']) {
      expect(sent[name]).toBeDefined();
      delete sent[name];
    }
    return sent;
  };

  it('are sent over those of the tenant, and nothing else is', async () => {
    const ofTenant = { prompt: 'consent', max_age: '600', tenantId: 'of-the-tenant' };
    expect(await sentFor(plain, {})).toEqual({});
    expect(await sentFor(host, {})).toEqual(ofTenant);
    expect(await sentFor(host, null)).toEqual(ofTenant);
    const given = { prompt: 'login select_account', maxAge: 60, brandingTenantId: 'of-the-login' };
    const texts = {
      loginHint: 'zoë+fair@example.com & more',
      acrValues: 'urn:mfa phr',
      uiLocales: 'de-CH fr',
    };
    expect(await sentFor(host, { ...given, ...texts })).toEqual({
      prompt: given.prompt,
      login_hint: texts.loginHint,
      acr_values: texts.acrValues,
      ui_locales: texts.uiLocales,
      max_age: '60',
      tenantId: 'of-the-login',
    });
  });

  it('are asked of the host only where a login may start, and the path of a callback where its state matches', async () => {
    const visitor = new Visitor();
    const image = { 'sec-fetch-site': 'cross-site', 'sec-fetch-mode': 'no-cors', 'sec-fetch-dest': 'image' };
    const noJson = `${host.url}/choose?parameters=x`;
    expect((await visitor.visit(noJson, { headers: image })).status).toBe(400);
    expect((await visitor.visit(noJson)).status).toBe(500);
    for (const query of ['', '?code=x&state=0-made-up', '?error=access_denied&state=0-made-up']) {
      expect((await visitor.visit(`${host.url}/failing-callback${query}`)).status).toBe(401);
    }
  });

  it('ask for the smaller age of the two', async () => {
    expect((await sentFor(host, { maxAge: 601 }))['max_age']).toBe('600');
    expect((await sentFor(host, { maxAge: 0 }))['max_age']).toBe('0');
    expect((await sentFor(plain, { maxAge: 601 }))['max_age']).toBe('601');
  });

  it.each<[string, unknown]>([
    ['an empty prompt', { prompt: '' }],
    ['a prompt with a line feed', { prompt: 'login\nconsent' }],
    ['a hint with a control character', { loginHint: 'pat\u0000' }],
    ['a long hint', { loginHint: 'x'.repeat(513) }],
    ['a long branding', { brandingTenantId: 'x'.repeat(513) }],
    ['a language with a NUL', { uiLocales: 'de\u0000' }],
    ['a hint that is a list', { loginHint: ['pat', 'zoe'] }],
    ['a context with a tab', { acrValues: 'mfa\tphr' }],
    ['a negative age', { maxAge: -1 }],
    ['a fraction', { maxAge: 0.5 }],
    ['an age as text', { maxAge: '0' }],
    ['another parameter', { redirect_uri: 'https://evil.example/' }],
    ['a parameter of this module', { state: 'mine' }],
    ['no object', 'prompt=login'],
    ['a list', ['login']],
  ])('are refused with %s: 400, and no login is started', async (_what, parameters) => {
    const reply = await beginWith(new Visitor(), host, parameters);
    expectError(reply, 400, 'invalid_argument');
    expect(reply.text).toContain('getLoginParameters');
    expect(reply.text).not.toMatch(/evil|phr|redirect_uri/);
    expect([reply.location, reply.setCookies]).toEqual([undefined, []]);
  });

  it.each<
    [what: string, isOfTenant: boolean, maxAge: number | undefined, age: number | undefined, status: number]
  >([
    ['too long ago for maxAge 0', false, 0, 40, 401],
    ['too long ago for maxAge 60', false, 60, 100, 401],
    ['at no time, with maxAge 0', false, 0, undefined, 401],
    ['within the tolerance of maxAge 0', false, 0, 10, 303],
    ['at any time, without maxAge', false, undefined, 9_000, 303],
    ['too long ago for the tenant, whatever the login allows', true, 3_600, 700, 401],
    ['recently enough for the tenant', true, 3_600, 500, 303],
  ])('enforce maxAge at the callback: %s', async (_what, isOfTenant, maxAge, age, status) => {
    provider.script = says({ auth_time: age === undefined ? undefined : secondsAgo(age) });
    const reply = await logInWith(new Visitor(), isOfTenant ? host : plain, { maxAge });
    expect(reply.status).toBe(status);
    if (status === 401) {
      expectRefusal(reply, 'auth_time');
    }
  });

  it('are enforced by TokenValidator, too: the age that the tenant allows', async () => {
    const validate = async (authTime: number): Promise<unknown> => {
      const claims = { iss: provider.url, sub: 'pat', aud: CLIENT_ID, auth_time: authTime };
      const payload = JSON.stringify({ ...claims, iat: secondsAgo(0), exp: secondsAgo(-300) });
      return host.app.get(TokenValidator).validate(await sign(payload, provider.key), { use: 'id_token' });
    };
    await expect(validate(secondsAgo(700))).rejects.toMatchObject({ reason: 'auth_time' });
    await expect(validate(secondsAgo(500))).resolves.toMatchObject({ sub: 'pat' });
  });
});

describe('an identity', () => {
  const AUTHENTICATION = { auth_time: secondsAgo(5), acr: 'urn:mfa' };
  const claimsOf = async (login: LoginOverrides): Promise<Claims | undefined> => {
    const [visitor, host] = [new Visitor(), await start(login)];
    expect((await logInWith(visitor, host, {})).status).toBe(303);
    return (await identityOf(visitor, host))?.claims;
  };

  it('keeps auth_time and acr, whatever else it keeps', async () => {
    provider.script = says({ ...AUTHENTICATION, nickname: 'Patty' });
    expect(await claimsOf({ keepClaims: ['nickname'] })).toEqual({ ...AUTHENTICATION, nickname: 'Patty' });
    expect(await claimsOf({ keepClaims: [] })).toEqual(AUTHENTICATION);
    provider.script = says({ ...AUTHENTICATION, biography: 'x'.repeat(5_000) });
    expect(await claimsOf({})).toEqual(AUTHENTICATION);
  });

  it('has them from the ID token alone: userinfo is about the person, not about this login', async () => {
    const userinfo = changes({ ...AUTHENTICATION, amr: ['otp'], nickname: 'Patty' });
    provider.script = { email: 'userinfo', ...says({ auth_time: undefined }), userinfo };
    const claims = (await claimsOf({})) ?? {};
    expect(claims).toMatchObject({ nickname: 'Patty' });
    expect(Object.keys(claims).filter((name) => ['acr', 'auth_time', 'amr'].includes(name))).toEqual([]);
  });
});
