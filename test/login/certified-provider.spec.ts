/** Logins and logouts at a certified provider: that of the sandbox, and the package with its own paths. */
import { createPublicKey } from 'node:crypto';
import { afterAll, afterEach, beforeAll, describe, expect, it } from '@jest/globals';
import { jwtVerify } from 'jose';
import {
  TokenService,
  type LoginOptions,
  type LoginParameters,
  type TenantOptions,
} from '../../lib/index.js';
import type { ExhibitorSandbox } from '../../lib/testing/index.js';
import { BoothController } from '../support/booth.controller.js';
import { CertifiedProvider } from '../support/certified-provider.js';
import { COOKIE_SECRET, startHost, type Host } from '../support/host.js';
import { KEYS, type SigningKey } from '../support/provider-keys.js';
import { startSandbox } from '../support/sandbox.js';
import { formFields, Visitor, type Reply } from '../support/visitor.js';
import { beginWith, ChoosingController } from './choosing.controller.js';
import { identityOf, isLoggedIn, logOut } from './journey.js';

const LOGIN_KEY = KEYS.es256;
const API_KEY = KEYS.next;

const clientWith = (key: SigningKey) => ({
  token_endpoint_auth_method: 'private_key_jwt' as const,
  token_endpoint_auth_signing_alg: key.alg as 'RS256',
  jwks: { keys: [{ ...key.jwk }] },
});

let sandbox: ExhibitorSandbox;
let certified: CertifiedProvider;
const hosts: Host[] = [];
beforeAll(async () => {
  sandbox = await startSandbox();
  certified = await CertifiedProvider.start([
    { client_id: 'web', ...clientWith(LOGIN_KEY) },
    {
      client_id: 'api',
      grant_types: ['client_credentials'],
      response_types: [],
      redirect_uris: [],
      scope: 'idp_api',
      ...clientWith(API_KEY),
    },
  ]);
});
afterEach(() => sandbox.signInAs(undefined));
afterAll(async () => {
  await Promise.all(hosts.map((host) => host.close()));
  await Promise.all([sandbox?.stop(), certified?.stop()]);
});

async function startWith(tenant: (redirectUri: string) => TenantOptions, cookieName?: string): Promise<Host> {
  const controllers = [BoothController, ChoosingController];
  const cookies = { name: cookieName };
  const host = await startHost({
    controllers,
    options: (redirectUri) => ({ tenant: tenant(redirectUri), secrets: [COOKIE_SECRET], cookies }),
  });
  hosts.push(host);
  return host;
}

/** A host at the sandbox. */
const start = (
  login: Partial<LoginOptions> = {},
  { publicClient = false, cookieName }: { publicClient?: boolean; cookieName?: string } = {},
): Promise<Host> =>
  startWith((redirectUri) => {
    const options = sandbox.tenantOptions('acme', { redirectUri, publicClient });
    return { ...options, login: { ...options.login, ...login } };
  }, cookieName);

/** Logs in and stops at the start page of the host, or at the login page. */
const follow = (visitor: Visitor, { url }: Host): Promise<Reply> =>
  visitor.follow(`${url}/auth/login`, ({ href }) => href === `${url}/`);

/** Expects a login as this person, without the login page. */
async function expectLogin(visitor: Visitor, host: Host, subject: string): Promise<void> {
  sandbox.signInAs(subject === 'pat' ? undefined : subject);
  await follow(visitor, host);
  sandbox.signInAs(undefined);
  expect(await identityOf(visitor, host)).toMatchObject({ subject, email: `${subject}@example.com` });
}

/** The assertion of the last token request, verified with its key. */
async function lastAssertion({ publicKey }: SigningKey) {
  const { form, authorization } = certified.tokenRequests.at(-1) ?? {};
  expect([authorization, form?.has('client_secret')]).toEqual([undefined, false]);
  expect(form?.get('client_assertion_type')).toBe('urn:ietf:params:oauth:client-assertion-type:jwt-bearer');
  const key = createPublicKey(publicKey.export({ type: 'spki', format: 'pem' }));
  return jwtVerify(form?.get('client_assertion') ?? '', key);
}

it('private_key_jwt authenticates a login by discovery and the API client, each with its audience', async () => {
  const { url } = certified;
  const pem = LOGIN_KEY.privateKey.export({ type: 'pkcs8', format: 'pem' }).toString();
  const host = await startWith((redirectUri) => ({
    tenantId: 't',
    baseUrl: url,
    authUrl: url,
    endpoints: { token: `${url}/token` },
    clientId: 'api',
    clientAuth: { privateKey: API_KEY.privateKey, kid: API_KEY.kid },
    login: {
      clientId: 'web',
      clientAuth: { privateKey: pem },
      redirectUri,
      issuer: url,
      discovery: true,
    },
  }));
  await expectLogin(new Visitor(), host, 'pat');
  const { protectedHeader, payload } = await lastAssertion(LOGIN_KEY);
  expect(protectedHeader).toEqual({ alg: 'ES256', typ: 'client-authentication+jwt' });
  const [jti, iat] = [expect.any(String), expect.any(Number)];
  expect(payload).toEqual({ iss: 'web', sub: 'web', aud: url, jti, iat, exp: Number(payload.iat) + 60 });

  const tokens = host.app.get(TokenService);
  await expect(tokens.getToken()).resolves.toMatchObject({ tokenType: 'Bearer' });
  const first = await lastAssertion(API_KEY);
  expect(first.protectedHeader).toEqual({ alg: 'RS256', typ: 'JWT', kid: API_KEY.kid });
  expect(first.payload).toMatchObject({ iss: 'api', sub: 'api', aud: `${url}/token` });
  await tokens.invalidate();
  await tokens.getToken();
  expect((await lastAssertion(API_KEY)).payload.jti).not.toBe(first.payload.jti);
});

it('the parameters of a login probe in silence, log in as somebody else, and ask again', async () => {
  const host = await start();
  const visitor = new Visitor();
  /** Where the browser is led: to the host with an answer, or to the login page. */
  const ledTo = async (parameters: LoginParameters): Promise<string> => {
    const { location = '' } = await beginWith(visitor, host, parameters);
    const { reply, url } = await visitor.open(location);
    if (url.origin !== host.url) {
      return reply.text.includes('Choose the person') ? 'login page' : reply.text;
    }
    return url.searchParams.get('error') ?? String((await visitor.visit(url)).status);
  };
  expect(await ledTo({ prompt: 'none' })).toBe('login_required');
  sandbox.signInAs('olga.one');
  expect(await ledTo({})).toBe('303');
  sandbox.signInAs(undefined);
  expect(await ledTo({ prompt: 'none' })).toBe('303');
  expect(await ledTo({})).toBe('303');
  expect(await ledTo({ prompt: 'login', loginHint: 'sam', uiLocales: 'de' })).toBe('login page');
  expect(await ledTo({ maxAge: 0 })).toBe('login page');
  expect((await identityOf(visitor, host))?.claims).not.toHaveProperty('auth_time');
  expect(await ledTo({ maxAge: 3_600 })).toBe('303');
  const claims = { auth_time: expect.any(Number) };
  expect(await identityOf(visitor, host)).toMatchObject({ subject: 'olga.one', claims });
});

describe('a logout', () => {
  const LANDING = 'http://localhost:1/bye';
  const END = { endSession: true, postLogoutRedirectUri: LANDING };

  /** Logs out, and submits the form of the provider's page. Answers where that leads. */
  async function leave(visitor: Visitor, host: Host): Promise<string | undefined> {
    const { location = '' } = await logOut(visitor, host);
    const { action, fields } = formFields((await visitor.visit(location)).text);
    return (await visitor.visit(action, { form: { ...fields, logout: 'yes' } })).location;
  }

  /** The next login: of the same person in silence, or the login page. */
  async function nextLogin(visitor: Visitor, host: Host): Promise<string> {
    const { text } = await follow(visitor, host);
    return text.includes('Choose the person')
      ? 'login page'
      : String((await identityOf(visitor, host))?.subject);
  }

  it('lets the next person log in; without it, the next login is silently the same person', async () => {
    const [plain, host] = [await start(), await start(END)];
    const visitor = new Visitor();
    await expectLogin(visitor, plain, 'olga.one');
    await logOut(visitor, plain);
    expect(await nextLogin(visitor, plain)).toBe('olga.one');

    await expectLogin(visitor, host, 'olga.one');
    expect(await leave(visitor, host)).toBe(LANDING);
    expect(sandbox.requests.map(({ operation }) => operation)).toContain('endsession');
    expect(await nextLogin(visitor, host)).toBe('login page');
  });

  it('works with client_id where the ID token is not kept, and for a public client', async () => {
    const host = await start(END, { publicClient: true });
    const visitor = new Visitor();
    await expectLogin(visitor, host, 'olga.one');
    visitor.cookies().delete('exhibitor-id-token');
    expect(await leave(visitor, host)).toBe(LANDING);
    expect(await nextLogin(visitor, host)).toBe('login page');
  });

  it('reaches the other hosts by the back channel, and nobody else', async () => {
    const host = await start({ endSession: true });
    const other = await start({}, { cookieName: 'other' });
    sandbox.setBackChannelLogoutUri('acme', `${other.url}/auth/backchannel-logout`);
    try {
      const [visitor, elsewhere] = [new Visitor(), new Visitor()];
      for (const each of [visitor, elsewhere]) {
        await expectLogin(each, host, 'olga.one');
        await expectLogin(each, other, 'olga.one');
      }
      expect((await identityOf(visitor, other))?.sid).toEqual(expect.any(String));
      await leave(visitor, host);
      expect([await isLoggedIn(visitor, host), await isLoggedIn(visitor, other)]).toEqual([false, false]);
      // The same person in another browser has another session at the provider.
      expect(await isLoggedIn(elsewhere, other)).toBe(true);
    } finally {
      sandbox.setBackChannelLogoutUri('acme', undefined);
    }
  });
});
