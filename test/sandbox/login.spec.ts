import { createHash, randomBytes } from 'node:crypto';
import { createLocalJWKSet, createRemoteJWKSet, importSPKI, jwtVerify, type JWTPayload } from 'jose';
import { defaultSeed, type SandboxTenantOptions } from 'nestjs-exhibitor/testing';
import { apiHeaders, eventUrl, jsonOf, type Tokens } from './rest-client.js';
import { useSandbox } from '../support/lifetimes.js';
import { formFields, Visitor } from '../support/visitor.js';
import { jwksOf, publicPemOf } from '../support/sandbox.js';

const CALLBACK = 'http://127.0.0.1:3000/auth/callback';
const PAGE = /^\/connect\/login\//;

const seed = defaultSeed();
seed.people.push(
  { sub: 'pat', name: 'Pat <b>& Co</b>', email: 'pat@example.com', emailOnlyInUserinfo: true },
  { sub: 'tess', name: 'Tess', email: 'tess@example.com', emailVerified: 'false' },
);
const sandbox = await useSandbox({ seed });
afterEach(() => sandbox.signInAs(undefined));
const [acme, globex] = [sandbox.tenantOptions('acme'), sandbox.tenantOptions('globex')];

const authorizeUrl = ({ authUrl, login }: SandboxTenantOptions, more: Record<string, string> = {}) =>
  `${authUrl}/connect/authorize?${new URLSearchParams({
    client_id: login.clientId,
    redirect_uri: login.redirectUri,
    response_type: login.responseType,
    scope: 'openid profile',
    state: 'state-1',
    nonce: 'nonce-1',
    ...more,
  })}`;

const open = (tenant = acme, more: Record<string, string> = {}, visitor = new Visitor()) =>
  visitor.open(authorizeUrl(tenant, more));

const redeem = (tenant: SandboxTenantOptions, code: string | null, more: Record<string, string> = {}) => {
  const { clientId, clientSecret, redirectUri } = tenant.login;
  return fetch(`${tenant.authUrl}/connect/token`, {
    method: 'POST',
    body: new URLSearchParams({
      grant_type: 'authorization_code',
      code: code ?? '',
      redirect_uri: redirectUri,
      client_id: clientId,
      ...(clientSecret && { client_secret: clientSecret }),
      ...more,
    }),
  });
};

const verified = async (idToken: string, tenant: SandboxTenantOptions): Promise<JWTPayload> => {
  const { payload } = await jwtVerify(idToken, await importSPKI(publicPemOf(sandbox), 'RS256'), {
    issuer: tenant.login.issuer,
    audience: tenant.login.clientId,
  });
  return payload;
};

/** What the code in a callback is good for. */
const finish = async ({ searchParams }: URL, tenant = acme, more: Record<string, string> = {}) => {
  const tokens = await jsonOf<Tokens>(redeem(tenant, searchParams.get('code'), more));
  const headers = { authorization: `Bearer ${tokens.access_token}` };
  const userinfo = await jsonOf<JWTPayload>(fetch(`${sandbox.url}/connect/userinfo`, { headers }));
  return { tokens, claims: await verified(tokens.id_token, tenant), userinfo };
};

/** The whole code flow of one visitor. */
const logIn = async (tenant = acme, more: Record<string, string> = {}, visitor = new Visitor()) =>
  finish((await open(tenant, more, visitor)).url, tenant);

describe('with signInAs', () => {
  it.each([
    ['a secret', false],
    ['no secret', true],
  ])('completes code with PKCE and %s', async (_, publicClient) => {
    sandbox.signInAs('olga.one@example.com');
    const tenant = sandbox.tenantOptions('acme', { publicClient });
    const verifier = randomBytes(32).toString('base64url');
    const pkce = {
      code_challenge: createHash('sha256').update(verifier).digest('base64url'),
      code_challenge_method: 'S256',
    };
    const { url } = await open(tenant, pkce);
    const code = expect.any(String);
    expect(Object.fromEntries(url.searchParams)).toEqual({ code, state: 'state-1', iss: sandbox.url });
    const reply = await redeem(tenant, url.searchParams.get('code'), { code_verifier: 'x'.repeat(43) });
    expect(reply.status).toBe(400);

    const second = await open(tenant, pkce);
    const { tokens, claims, userinfo } = await finish(second.url, tenant, { code_verifier: verifier });
    expect(tokens).toMatchObject({ token_type: 'Bearer', expires_in: 3600, access_token: code });
    expect(tokens).not.toHaveProperty('refresh_token');
    const person = { sub: 'olga.one', email: 'olga.one@example.com' };
    expect(claims).toMatchObject({ ...person, nonce: 'nonce-1', email_verified: true, name: 'Olga One' });
    expect(userinfo).toMatchObject(person);
    const plain = await open(tenant);
    expect(plain.url.searchParams.get('error')).toBe(publicClient ? 'invalid_request' : null);
  });

  const address = (email: string, verifiedAs: unknown = true) => ({ email, email_verified: verifiedAs });
  it.each<[person: string, inToken: object, inUserinfo: object, scope?: string]>([
    ['mo.mailless', {}, {}],
    [
      'uma.unverified',
      address('uma.unverified@example.com', false),
      address('uma.unverified@example.com', false),
    ],
    ['tess', address('tess@example.com', 'false'), address('tess@example.com', 'false')],
    ['zoë+fair@example.com', address('zoë+fair@example.com'), address('zoë+fair@example.com')],
    ['pat', {}, { email: 'pat@example.com' }],
    ['olga.one', {}, {}, 'openid'],
  ])(
    'sends exactly the e-mail claims of %s',
    async (person, inToken, inUserinfo, scope = 'openid profile') => {
      sandbox.signInAs(person);
      const { claims, userinfo } = await logIn(acme, { scope });
      const mail = ({ email, email_verified }: JWTPayload) => ({ email, email_verified });
      expect([mail(claims), mail(userinfo)]).toEqual([inToken, inUserinfo]);
    },
  );

  it('applies to all visitors at every tenant until it is changed, also to a browser that is signed in', async () => {
    const visitor = new Visitor();
    const subjects: unknown[] = [];
    for (const person of ['olga.one', 'sam.several', 'sam.several', 'olga.one']) {
      sandbox.signInAs(person);
      subjects.push((await logIn(acme, {}, visitor)).claims.sub);
    }
    expect(subjects).toEqual(['olga.one', 'sam.several', 'sam.several', 'olga.one']);
    expect((await logIn(globex)).claims.sub).toBe('olga.one');
    sandbox.signInAs(undefined);
    expect((await open()).url.pathname).toMatch(PAGE);
    expect(() => sandbox.signInAs('stranger')).toThrow(/has no such person; it has nora\.none/);
  });

  it('answers an authorization request at once, also with prompt=login and max_age', async () => {
    sandbox.signInAs('olga.one');
    const url = authorizeUrl(acme, { prompt: 'login', max_age: '0' });
    const reply = await fetch(url, { redirect: 'manual' });
    const callback = new URL(reply.headers.get('location') ?? '');
    expect(callback.href.startsWith(`${CALLBACK}?`)).toBe(true);
    expect((await finish(callback)).claims).toMatchObject({ auth_time: expect.any(Number) });
  });

  it.each(['code id_token', 'code token id_token'] as const)(
    'posts the reply to "%s" from a form',
    async (type) => {
      sandbox.signInAs('sam.several');
      const redirectUri = 'http://[::1]:8080/any/path';
      const tenant = sandbox.tenantOptions('globex', { responseType: type, redirectUri });
      const { reply } = await open(tenant, { response_mode: 'form_post' });
      const { action, fields } = formFields(reply.text);
      expect(action).toBe(redirectUri);
      expect(fields['state']).toBe('state-1');
      expect('access_token' in fields).toBe(type === 'code token id_token');
      const front = await verified(fields['id_token'] ?? '', tenant);
      expect(front).toMatchObject({ sub: 'sam.several', nonce: 'nonce-1', c_hash: expect.any(String) });
      const tokens = await jsonOf<Tokens>(redeem(tenant, fields['code'] ?? ''));
      expect((await verified(tokens.id_token, tenant)).sub).toBe('sam.several');
    },
  );

  it.each(['http://127.0.0.1:1/x', 'http://localhost:8080/auth/callback?keep=1', 'http://[::1]:3000/'])(
    'accepts the redirect address %s',
    async (redirectUri) => {
      sandbox.signInAs('olga.one');
      const { url } = await open(sandbox.tenantOptions('acme', { redirectUri }));
      expect(url.href.startsWith(redirectUri)).toBe(true);
      expect(url.searchParams.get('code')).toEqual(expect.any(String));
    },
  );

  it.each(['https://example.com/cb', 'http://127.0.0.1.example.com/cb', 'http://10.0.0.1/cb'])(
    'refuses the redirect address %s',
    async (redirectUri) => {
      sandbox.signInAs('olga.one');
      const { reply } = await open(sandbox.tenantOptions('acme', { redirectUri }));
      const text = expect.stringContaining('This sign-in cannot continue');
      expect(reply).toMatchObject({ status: 400, text });
    },
  );

  it('opens no REST API: neither by the tokens of a login, nor by one that asks for it', async () => {
    sandbox.signInAs('olga.one');
    const { tokens } = await logIn();
    const headers = await apiHeaders(sandbox, 'acme');
    for (const token of [tokens.access_token, tokens.id_token]) {
      const given = { ...headers, authorization: `Bearer ${token}` };
      expect((await fetch(eventUrl(sandbox, 'boutique-2026'), { headers: given })).status).toBe(401);
    }
    const { url } = await open(acme, { resource: `${sandbox.url}/api/v1` });
    expect(url.searchParams.get('error')).toBe('invalid_target');
  });

  it('signs with the key that it publishes as PEM, as JWKS and at a URL', async () => {
    sandbox.signInAs('olga.one');
    const { tokens } = await logIn();
    const { keys: url } = sandbox.tenantOptions('acme', { keys: 'url' }).login;
    const sets = [createLocalJWKSet(jwksOf(sandbox)), createRemoteJWKSet(new URL(String(url)))];
    for (const keys of sets) {
      await expect(jwtVerify(tokens.id_token, keys)).resolves.toBeDefined();
    }
  });
});

describe('the page', () => {
  it('lists the people, escaped, allows its own style only, and continues as the one chosen', async () => {
    const visitor = new Visitor();
    const { reply, url } = await open(acme, {}, visitor);
    const page = reply.text;
    expect(page).toContain('for development only');
    expect(page).toContain('Acme Fairs');
    expect(page.match(/name="person"/g)).toHaveLength(sandbox.people.length);
    expect(page).toContain('Pat &lt;b&gt;&amp; Co&lt;/b&gt;');
    expect(page).not.toContain('<b>');
    const style = /<style>(.*)<\/style>/s.exec(page)?.[1] ?? '';
    const hash = createHash('sha256').update(style).digest('base64');
    const policy = reply.headers.get('content-security-policy');
    expect(policy).toMatch(/^default-src 'none'; style-src 'sha256-/);
    expect(policy).toContain(`'sha256-${hash}'`);

    const { url: back } = await visitor.post(url, { person: 'zoe.fair' });
    expect((await finish(back)).claims.sub).toBe('zoe.fair');
  });

  it('shows the brand of the tenantId that was sent', async () => {
    const { reply } = await open(acme, { tenantId: sandbox.tenantOptions('initech').tenantId });
    expect(reply.text).toContain('<p class="tenant">Initech Trade Shows</p>');
  });

  it('can be cancelled: access_denied', async () => {
    const visitor = new Visitor();
    const { url: back } = await visitor.post((await open(acme, {}, visitor)).url, { cancel: 'yes' });
    expect(back.href.startsWith(`${CALLBACK}?`)).toBe(true);
    expect(Object.fromEntries(back.searchParams)).toMatchObject({ error: 'access_denied', state: 'state-1' });
  });

  it('is not shown to a browser that is signed in, unless prompt=login', async () => {
    const visitor = new Visitor();
    await visitor.post((await open(acme, {}, visitor)).url, { person: 'olga.one' });
    const silent = await open(acme, {}, visitor);
    expect(silent.url.searchParams.get('code')).toEqual(expect.any(String));
    const forced = await open(acme, { prompt: 'login' }, visitor);
    expect([forced.reply.status, forced.url.pathname]).toEqual([200, expect.stringMatching(PAGE)]);
  });

  it('is separate from another one of the same browser', async () => {
    const visitor = new Visitor();
    const first = await open(acme, {}, visitor);
    const second = await open(globex, {}, visitor);
    const secondBack = await visitor.post(second.url, { person: 'sam.several' });
    const firstBack = await visitor.post(first.url, { person: 'olga.one' });
    expect((await finish(firstBack.url)).userinfo.sub).toBe('olga.one');
    expect((await finish(secondBack.url, globex)).userinfo.sub).toBe('sam.several');
  });

  it('answers 400 to an unknown person, and where it has expired', async () => {
    const visitor = new Visitor();
    const { url } = await open(acme, {}, visitor);
    expect((await visitor.post(url, { person: 'stranger' })).reply.status).toBe(400);
    expect((await new Visitor().open(`${sandbox.url}/connect/login/over`)).reply.status).toBe(400);
  });
});
