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
import { COOKIE_SECRET, HOST_KINDS, startHost, type Host, type HostKind } from '../support/host.js';
import { KEYS, type SigningKey } from '../support/provider-keys.js';
import { startSandbox } from '../support/sandbox.js';
import { formFields, Visitor, type Reply } from '../support/visitor.js';
import { beginWith, ChoosingController } from './choosing.controller.js';
import type { Flow } from './flows.js';
import { expectRefusal, identityOf, toHost, toProvider } from './journey.js';

const LOGIN_KEY = KEYS.es256;
const API_KEY = KEYS.next;
const WEB_SECRET = 'a secret of the web client';

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
    { client_id: 'discovering', client_secret: WEB_SECRET },
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

async function started(host: Promise<Host>): Promise<Host> {
  hosts.push(await host);
  return host;
}

interface Given {
  kind?: HostKind;
  tenant?: 'acme' | 'globex';
  responseType?: Flow;
  publicClient?: boolean;
  login?: Partial<LoginOptions>;
  cookieName?: string;
}

/** A host at the sandbox. */
function start({
  kind,
  tenant = 'acme',
  responseType,
  publicClient,
  login,
  cookieName,
}: Given = {}): Promise<Host> {
  return started(
    startHost({
      kind,
      controllers: [BoothController, ChoosingController],
      options: (redirectUri) => {
        const options = sandbox.tenantOptions(tenant, { redirectUri, responseType, publicClient });
        return {
          tenant: { ...options, login: { ...options.login, ...login } },
          secrets: [COOKIE_SECRET],
          cookies: { name: cookieName },
        };
      },
    }),
  );
}

describe.each(HOST_KINDS)('a login by code on %s', (kind) => {
  it('leads from the login route to the exhibitors of the event, and ends with the logout', async () => {
    const host = await start({ kind });
    const visitor = new Visitor();
    sandbox.signInAs('sam.several@example.com');
    const before = await visitor.visit(`${host.url}/events/world-2026/mine`);
    expect(before.status).toBe(401);
    expect(JSON.parse(before.text)).toEqual({
      statusCode: 401,
      message: 'nobody is logged in',
      error: 'Unauthorized',
      code: 'unauthenticated',
    });

    const callback = await visitor.follow(
      `${host.url}/auth/login?eventId=world-2026&returnTo=/events/world-2026/mine`,
      (url) => url.pathname === '/events/world-2026/mine',
    );
    expect(callback.status).toBe(303);
    expect(callback.headers.get('cache-control')).toBe('no-store');
    expect(callback.headers.get('referrer-policy')).toBe('no-referrer');

    const mine = await visitor.visit(`${host.url}/events/world-2026/mine`);
    expect(mine.status).toBe(200);
    expect(JSON.parse(mine.text)).toHaveLength(3);
    expect(mine.headers.get('cache-control')).toBe('private, no-store');

    const me = JSON.parse((await visitor.visit(`${host.url}/me`)).text) as {
      identity: object;
      tenant: string;
    };
    expect(me).toMatchObject({
      tenant: 'default',
      identity: { email: 'sam.several@example.com', eventId: 'world-2026', subject: 'sam.several' },
    });

    const logout = await visitor.visit(`${host.url}/auth/logout`, { method: 'POST' });
    expect(logout.status).toBe(303);
    expect((await visitor.visit(`${host.url}/events/world-2026/mine`)).status).toBe(401);
  });
});

describe.each<[HostKind, Flow]>([
  ['express', 'code id_token'],
  ['fastify', 'code token id_token'],
])('a hybrid login on %s', (kind, responseType) => {
  it(`completes ${responseType} by form_post with 303`, async () => {
    const host = await start({ kind, responseType });
    sandbox.signInAs('olga.one@example.com');
    const visitor = new Visitor();
    // The sandbox redirects between its own pages, which the visitor follows.
    const page = await visitor.follow(`${host.url}/auth/login?returnTo=/mine`);
    const { action, fields } = formFields(page.text);
    expect(Object.keys(fields)).toEqual(expect.arrayContaining(['code', 'id_token', 'state']));
    expect('access_token' in fields).toBe(responseType === 'code token id_token');
    const reply = await visitor.visit(action, { form: fields });
    expect([reply.status, reply.location]).toEqual([303, `${host.url}/mine`]);
    expect(reply.headers.get('cache-control')).toBe('no-store');
    expect(await identityOf(visitor, host)).toMatchObject({ subject: 'olga.one' });
  });
});

it('a login authenticates in the header, with id and secret form-encoded before they are joined', async () => {
  // Its secrets have reserved characters.
  const host = await start({ tenant: 'globex', login: { clientAuth: 'basic' } });
  sandbox.signInAs('olga.one@example.com');
  sandbox.clearRequests();
  const visitor = new Visitor();
  await visitor.follow(`${host.url}/auth/login`, (url) => url.href === `${host.url}/`);
  expect(await identityOf(visitor, host)).toMatchObject({ subject: 'olga.one' });
  const { headers, body, query } = sandbox.requests.find(({ path }) => path === '/connect/token') ?? {};
  const pair = Buffer.from(String(headers?.authorization).replace('Basic ', ''), 'base64').toString();
  expect(pair).toBe('globex-web:globex-web-secret-for%2Bdevelopment%2Fonly%26%3D%2520%3A%3F');
  expect(body).not.toHaveProperty('client_id');
  expect(body).not.toHaveProperty('client_secret');
  expect(query).toEqual({});
});

/** The assertion of the last token request, verified with its key. */
async function lastAssertion({ publicKey }: SigningKey) {
  const { form, authorization } = certified.tokenRequests.at(-1) ?? {};
  expect(authorization).toBeUndefined();
  expect(form?.has('client_secret')).toBe(false);
  expect(form?.get('client_assertion_type')).toBe('urn:ietf:params:oauth:client-assertion-type:jwt-bearer');
  const { protectedHeader, payload } = await jwtVerify(
    form?.get('client_assertion') ?? '',
    createPublicKey(publicKey.export({ type: 'spki', format: 'pem' })),
  );
  return { header: protectedHeader, claims: payload };
}

describe('private_key_jwt at the certified provider', () => {
  let host: Host;
  beforeAll(async () => {
    host = await started(
      startHost({
        options: (redirectUri): { tenant: TenantOptions; secrets: string[] } => ({
          tenant: {
            tenantId: 't',
            baseUrl: certified.url,
            authUrl: certified.url,
            endpoints: {
              authorize: `${certified.url}/auth`,
              token: `${certified.url}/token`,
              userinfo: `${certified.url}/me`,
            },
            clientId: 'api',
            clientAuth: { privateKey: API_KEY.privateKey, kid: API_KEY.kid },
            login: {
              clientId: 'web',
              clientAuth: {
                privateKey: LOGIN_KEY.privateKey.export({ type: 'pkcs8', format: 'pem' }).toString(),
              },
              redirectUri,
              issuer: certified.url,
              keys: KEYS.rs256.pem,
            },
          },
          secrets: [COOKIE_SECRET],
        }),
      }),
    );
  });

  it('authenticates a login, with the issuer as audience', async () => {
    const visitor = new Visitor();
    await visitor.follow(`${host.url}/auth/login`, (url) => url.href === `${host.url}/`);
    expect(await identityOf(visitor, host)).toMatchObject({ subject: 'pat', email: 'pat@example.com' });
    const { header, claims } = await lastAssertion(LOGIN_KEY);
    expect(header).toEqual({ alg: 'ES256', typ: 'client-authentication+jwt' });
    expect(claims).toEqual({
      iss: 'web',
      sub: 'web',
      aud: certified.url,
      jti: expect.any(String),
      iat: expect.any(Number),
      exp: Number(claims.iat) + 60,
    });
  });

  it('authenticates the API client, with the URL of the token endpoint as audience', async () => {
    const tokens = host.app.get(TokenService);
    await expect(tokens.getToken()).resolves.toMatchObject({ tokenType: 'Bearer' });
    const first = await lastAssertion(API_KEY);
    expect(first.header).toEqual({ alg: 'RS256', typ: 'JWT', kid: API_KEY.kid });
    expect(first.claims).toMatchObject({ iss: 'api', sub: 'api', aud: `${certified.url}/token` });
    await tokens.invalidate();
    await expect(tokens.getToken()).resolves.toMatchObject({ tokenType: 'Bearer' });
    expect((await lastAssertion(API_KEY)).claims.jti).not.toBe(first.claims.jti);
  });
});

it('discovery finds the endpoints, and that `iss` is sent', async () => {
  const host = await started(
    startHost({
      options: (redirectUri) => ({
        tenant: {
          ...sandbox.tenantOptions('acme'),
          login: {
            clientId: 'discovering',
            clientSecret: WEB_SECRET,
            clientAuth: 'basic',
            redirectUri,
            issuer: certified.url,
            discovery: true,
          },
        },
        secrets: [COOKIE_SECRET],
      }),
    }),
  );
  const visitor = new Visitor();
  await visitor.follow(`${host.url}/auth/login`, (url) => url.href === `${host.url}/`);
  expect(await identityOf(visitor, host)).toMatchObject({ subject: 'pat', email: 'pat@example.com' });
  const arrival = await toProvider(visitor, host);
  arrival.parameters.delete('iss');
  expectRefusal(await toHost(visitor, arrival), 'issuer');
});

it('the parameters of a login probe in silence, log in as somebody else, and ask again', async () => {
  const host = await start({ kind: 'fastify' });
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
  expect(await identityOf(visitor, host)).toMatchObject({
    subject: 'olga.one',
    claims: { auth_time: expect.any(Number) },
  });
});

describe('a logout', () => {
  const logOut = (visitor: Visitor, { url }: Host): Promise<Reply> =>
    visitor.visit(`${url}/auth/logout`, { method: 'POST' });

  const isLoggedIn = async (visitor: Visitor, host: Host): Promise<boolean> =>
    (await identityOf(visitor, host)) !== undefined;

  /** Logs in as Olga without the login page; from then on the provider has its own session. */
  async function arrive(visitor: Visitor, host: Host): Promise<void> {
    sandbox.signInAs('olga.one');
    await visitor.follow(`${host.url}/auth/login`, (url) => url.href === `${host.url}/`);
    sandbox.signInAs(undefined);
    expect(await identityOf(visitor, host)).toMatchObject({ subject: 'olga.one' });
  }

  /** Logs out, and submits the form of the provider's page. Answers where that leads. */
  async function leave(visitor: Visitor, host: Host): Promise<string | undefined> {
    const { location = '' } = await logOut(visitor, host);
    const page = await visitor.visit(location);
    const { action, fields } = formFields(page.text);
    return (await visitor.visit(action, { form: { ...fields, logout: 'yes' } })).location;
  }

  /** The next login: of the same person in silence, or the login page. */
  async function nextLogin(visitor: Visitor, host: Host): Promise<string> {
    const { text } = await visitor.follow(`${host.url}/auth/login`, (url) => url.href === `${host.url}/`);
    return text.includes('Choose the person')
      ? 'login page'
      : String((await identityOf(visitor, host))?.subject);
  }

  it('lets the next person log in; without it, the next login is silently the same person', async () => {
    const plain = await start();
    const visitor = new Visitor();
    await arrive(visitor, plain);
    await logOut(visitor, plain);
    expect(await nextLogin(visitor, plain)).toBe('olga.one');

    const landing = 'http://localhost:1/bye';
    const host = await start({ login: { endSession: true, postLogoutRedirectUri: landing } });
    await arrive(visitor, host);
    expect(await leave(visitor, host)).toBe(landing);
    expect(sandbox.requests.map(({ operation }) => operation)).toContain('endsession');
    expect(await nextLogin(visitor, host)).toBe('login page');
  });

  it('works with client_id where the ID token is not kept, and for a public client', async () => {
    const landing = 'http://localhost:1/bye';
    const host = await start({
      login: { endSession: true, postLogoutRedirectUri: landing },
      publicClient: true,
    });
    const visitor = new Visitor();
    await arrive(visitor, host);
    visitor.cookies('127.0.0.1').delete('exhibitor-id-token');
    expect(await leave(visitor, host)).toBe(landing);
    expect(await nextLogin(visitor, host)).toBe('login page');
  });

  it('reaches the other hosts by the back channel, and nobody else', async () => {
    const [host, other] = [
      await start({ login: { endSession: true } }),
      await start({ cookieName: 'other' }),
    ];
    sandbox.setBackChannelLogoutUri('acme', `${other.url}/auth/backchannel-logout`);
    try {
      const [visitor, elsewhere] = [new Visitor(), new Visitor()];
      for (const each of [visitor, elsewhere]) {
        await arrive(each, host);
        await arrive(each, other);
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
