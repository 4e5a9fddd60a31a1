import { createHash, randomBytes } from 'node:crypto';
import { createLocalJWKSet, createRemoteJWKSet, importSPKI, jwtVerify, type JWTPayload } from 'jose';
import { defaultSeed, type ExhibitorSandbox, type SandboxTenantOptions } from 'nestjs-exhibitor/testing';
import { apiHeaders, eventUrl, jsonOf, type Tokens } from './rest-client.js';
import { Visitor } from '../support/visitor.js';
import { jwksOf, publicPemOf, startSandbox } from '../support/sandbox.js';

const CALLBACK = 'http://127.0.0.1:3000/auth/callback';

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

const redeem = async (
  tenant: SandboxTenantOptions,
  code: string | null,
  more: Record<string, string> = {},
) => {
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

const mail = ({ email, email_verified }: Record<string, unknown>) => ({ email, email_verified });

describe('login at the sandbox', () => {
  let sandbox: ExhibitorSandbox;
  beforeAll(async () => {
    const seed = defaultSeed();
    seed.people.push(
      { sub: 'pat', name: 'Pat <b>& Co</b>', email: 'pat@example.com', emailOnlyInUserinfo: true },
      { sub: 'tess', name: 'Tess', email: 'tess@example.com', emailVerified: 'false' },
    );
    sandbox = await startSandbox({ seed });
  });
  afterEach(() => sandbox.signInAs(undefined));
  afterAll(() => sandbox?.stop());

  const userinfo = async (token: string): Promise<Record<string, unknown>> =>
    jsonOf(fetch(`${sandbox.url}/connect/userinfo`, { headers: { authorization: `Bearer ${token}` } }));

  const verified = async (idToken: string, tenant: SandboxTenantOptions): Promise<JWTPayload> => {
    const { payload } = await jwtVerify(idToken, await importSPKI(publicPemOf(sandbox), 'RS256'), {
      issuer: tenant.login.issuer,
      audience: tenant.login.clientId,
    });
    return payload;
  };

  /** The whole code flow of one visitor. */
  const logIn = async (tenant = sandbox.tenantOptions('acme'), more: Record<string, string> = {}) => {
    const { url } = await new Visitor().open(authorizeUrl(tenant, more));
    const tokens = await jsonOf<Tokens>(redeem(tenant, url.searchParams.get('code')));
    return {
      tokens,
      claims: await verified(tokens.id_token, tenant),
      userinfo: await userinfo(tokens.access_token),
    };
  };

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
      const { url } = await new Visitor().open(authorizeUrl(tenant, pkce));
      const code = expect.any(String);
      expect(Object.fromEntries(url.searchParams)).toEqual({ code, state: 'state-1', iss: sandbox.url });
      const reply = await redeem(tenant, url.searchParams.get('code'), { code_verifier: 'x'.repeat(43) });
      expect(reply.status).toBe(400);
      const { url: second } = await new Visitor().open(authorizeUrl(tenant, pkce));
      const tokens = await jsonOf<Tokens>(
        redeem(tenant, second.searchParams.get('code'), { code_verifier: verifier }),
      );

      expect(tokens).toMatchObject({ token_type: 'Bearer', expires_in: 3600, access_token: code });
      expect(tokens).not.toHaveProperty('refresh_token');
      const person = { sub: 'olga.one', email: 'olga.one@example.com' };
      expect(await verified(tokens.id_token, tenant)).toMatchObject({
        ...person,
        nonce: 'nonce-1',
        email_verified: true,
        name: 'Olga One',
      });
      expect(await userinfo(tokens.access_token)).toMatchObject(person);
    });

    it('requires PKCE of the client without a secret', async () => {
      sandbox.signInAs('olga.one');
      const { url } = await new Visitor().open(
        authorizeUrl(sandbox.tenantOptions('acme', { publicClient: true })),
      );

      expect(url.searchParams.get('error')).toBe('invalid_request');
    });

    it.each([
      ['mo.mailless', {}],
      ['uma.unverified', { email: 'uma.unverified@example.com', email_verified: false }],
      ['tess', { email: 'tess@example.com', email_verified: 'false' }],
      ['zoë+fair@example.com', { email: 'zoë+fair@example.com', email_verified: true }],
    ])('sends exactly the e-mail claims of %s, in the id_token and in userinfo', async (person, expected) => {
      sandbox.signInAs(person);
      const { claims, userinfo: info } = await logIn();

      expect(mail(claims)).toEqual(mail(expected));
      expect(mail(info)).toEqual(mail(expected));
    });

    it('can send the e-mail address in userinfo only', async () => {
      sandbox.signInAs('pat');
      const { claims, userinfo: info } = await logIn();

      expect(claims).not.toHaveProperty('email');
      expect(info).toMatchObject({ email: 'pat@example.com' });
    });

    it('sends no e-mail address without the profile scope', async () => {
      sandbox.signInAs('olga.one');
      const { claims, userinfo: info } = await logIn(sandbox.tenantOptions('acme'), { scope: 'openid' });

      expect([claims['email'], info['email']]).toEqual([undefined, undefined]);
    });

    it('applies to all visitors at every tenant until it is changed', async () => {
      sandbox.signInAs('olga.one');
      for (const key of ['acme', 'globex']) {
        expect((await logIn(sandbox.tenantOptions(key))).claims.sub).toBe('olga.one');
      }
      sandbox.signInAs('sam.several');
      expect((await logIn()).claims.sub).toBe('sam.several');
      sandbox.signInAs(undefined);
      expect((await new Visitor().open(authorizeUrl(sandbox.tenantOptions('acme')))).url.pathname).toMatch(
        /^\/connect\/login\//,
      );
    });

    it('switches a browser that is signed in as another person', async () => {
      const tenant = sandbox.tenantOptions('acme');
      const visitor = new Visitor();
      const subjects: unknown[] = [];
      for (const person of ['olga.one', 'sam.several', 'sam.several', 'olga.one']) {
        sandbox.signInAs(person);
        const { url } = await visitor.open(authorizeUrl(tenant));
        const tokens = await jsonOf<Tokens>(redeem(tenant, url.searchParams.get('code')));
        subjects.push((await verified(tokens.id_token, tenant)).sub);
      }

      expect(subjects).toEqual(['olga.one', 'sam.several', 'sam.several', 'olga.one']);
    });

    it('answers an authorization request at once, also with prompt=login and max_age', async () => {
      sandbox.signInAs('olga.one');
      const tenant = sandbox.tenantOptions('acme');
      const more = { prompt: 'login', max_age: '0' };
      const reply = await fetch(authorizeUrl(tenant, more), { redirect: 'manual' });
      const callback = new URL(reply.headers.get('location') ?? '');
      expect(callback.href.startsWith(`${CALLBACK}?`)).toBe(true);
      const tokens = await jsonOf<Tokens>(redeem(tenant, callback.searchParams.get('code')));
      expect(await verified(tokens.id_token, tenant)).toMatchObject({ auth_time: expect.any(Number) });
    });

    it('accepts only seeded people', () => {
      expect(() => sandbox.signInAs('stranger')).toThrow(/has no such person; it has nora\.none/);
    });
  });

  describe('by hybrid flow', () => {
    it.each(['code id_token', 'code token id_token'] as const)(
      'posts the reply to "%s" from a form',
      async (type) => {
        sandbox.signInAs('sam.several');
        const tenant = sandbox.tenantOptions('globex', {
          responseType: type,
          redirectUri: 'http://[::1]:8080/any/path',
        });
        const { reply } = await new Visitor().open(authorizeUrl(tenant, { response_mode: 'form_post' }));
        const page = reply.text;
        const fields = Object.fromEntries(
          [...page.matchAll(/<input type="hidden" name="([^"]+)" value="([^"]*)"/g)].map(
            ([, name, value]) => [name, value],
          ),
        );

        expect(page).toContain('<form method="post" action="http://[::1]:8080/any/path">');
        expect(fields).toMatchObject({
          state: 'state-1',
          code: expect.any(String),
          id_token: expect.any(String),
        });
        expect('access_token' in fields).toBe(type === 'code token id_token');
        const front = await verified(fields['id_token'] ?? '', tenant);
        expect(front).toMatchObject({ sub: 'sam.several', nonce: 'nonce-1', c_hash: expect.any(String) });
        const tokens = await jsonOf<Tokens>(redeem(tenant, fields['code'] ?? ''));
        expect((await verified(tokens.id_token, tenant)).sub).toBe('sam.several');
      },
    );
  });

  describe('on the page', () => {
    it('lists the people, escaped, and continues as the one chosen', async () => {
      const visitor = new Visitor();
      const tenant = sandbox.tenantOptions('acme');
      const { reply, url } = await visitor.open(authorizeUrl(tenant));
      const page = reply.text;

      expect(page).toContain('for development only');
      expect(page).toContain('Acme Fairs');
      expect(page.match(/name="person"/g)).toHaveLength(sandbox.people.length);
      expect(page).toContain('Pat &lt;b&gt;&amp; Co&lt;/b&gt;');
      expect(page).not.toContain('<b>');

      const { url: back } = await visitor.post(url, { person: 'zoe.fair' });
      const tokens = await jsonOf<Tokens>(redeem(tenant, back.searchParams.get('code')));
      expect((await verified(tokens.id_token, tenant)).sub).toBe('zoe.fair');
    });

    it('allows its own style and nothing else', async () => {
      const { reply } = await new Visitor().open(authorizeUrl(sandbox.tenantOptions('acme')));
      const style = /<style>(.*)<\/style>/s.exec(reply.text)?.[1] ?? '';
      const hash = createHash('sha256').update(style).digest('base64');

      expect(reply.headers.get('content-security-policy')).toMatch(/^default-src 'none'; style-src 'sha256-/);
      expect(reply.headers.get('content-security-policy')).toContain(`'sha256-${hash}'`);
    });

    it('shows the brand of the tenantId that was sent', async () => {
      const { reply } = await new Visitor().open(
        authorizeUrl(sandbox.tenantOptions('acme'), { tenantId: sandbox.tenantOptions('initech').tenantId }),
      );

      expect(reply.text).toContain('<p class="tenant">Initech Trade Shows</p>');
    });

    it('can be cancelled: access_denied', async () => {
      const visitor = new Visitor();
      const { url } = await visitor.open(authorizeUrl(sandbox.tenantOptions('acme')));
      const { url: back } = await visitor.post(url, { cancel: 'yes' });

      expect(back.href.startsWith(`${CALLBACK}?`)).toBe(true);
      expect(Object.fromEntries(back.searchParams)).toMatchObject({
        error: 'access_denied',
        state: 'state-1',
      });
    });

    it('continues without a page in a browser that is signed in, unless prompt=login', async () => {
      const visitor = new Visitor();
      const tenant = sandbox.tenantOptions('acme');
      const { url } = await visitor.open(authorizeUrl(tenant));
      await visitor.post(url, { person: 'olga.one' });

      const silent = await visitor.open(authorizeUrl(tenant));
      expect(silent.url.searchParams.get('code')).toEqual(expect.any(String));
      const forced = await visitor.open(authorizeUrl(tenant, { prompt: 'login' }));
      expect(forced.reply.status).toBe(200);
      expect(forced.url.pathname).toMatch(/^\/connect\/login\//);
    });

    it('keeps two open pages of one browser separate', async () => {
      const visitor = new Visitor();
      const [acme, globex] = [sandbox.tenantOptions('acme'), sandbox.tenantOptions('globex')];
      const first = await visitor.open(authorizeUrl(acme));
      const second = await visitor.open(authorizeUrl(globex));
      const secondBack = await visitor.post(second.url, { person: 'sam.several' });
      const firstBack = await visitor.post(first.url, { person: 'olga.one' });
      const olga = await jsonOf<Tokens>(redeem(acme, firstBack.url.searchParams.get('code')));
      const sam = await jsonOf<Tokens>(redeem(globex, secondBack.url.searchParams.get('code')));

      expect((await userinfo(olga.access_token))['sub']).toBe('olga.one');
      expect((await userinfo(sam.access_token))['sub']).toBe('sam.several');
    });

    it('answers 400 to an unknown person and to an expired page', async () => {
      const visitor = new Visitor();
      const { url } = await visitor.open(authorizeUrl(sandbox.tenantOptions('acme')));

      expect((await visitor.post(url, { person: 'stranger' })).reply.status).toBe(400);
      expect((await new Visitor().open(`${sandbox.url}/connect/login/over`)).reply.status).toBe(400);
    });
  });

  describe('redirect addresses', () => {
    it.each(['http://127.0.0.1:1/x', 'http://localhost:8080/auth/callback?keep=1', 'http://[::1]:3000/'])(
      'accepts %s',
      async (redirectUri) => {
        sandbox.signInAs('olga.one');
        const { url } = await new Visitor().open(
          authorizeUrl(sandbox.tenantOptions('acme', { redirectUri })),
        );

        expect(url.href.startsWith(redirectUri)).toBe(true);
        expect(url.searchParams.get('code')).toEqual(expect.any(String));
      },
    );

    it.each(['https://example.com/cb', 'http://127.0.0.1.example.com/cb', 'http://10.0.0.1/cb'])(
      'refuses %s',
      async (redirectUri) => {
        sandbox.signInAs('olga.one');
        const { reply } = await new Visitor().open(
          authorizeUrl(sandbox.tenantOptions('acme', { redirectUri })),
        );

        expect(reply.status).toBe(400);
        expect(reply.text).toContain('This sign-in cannot continue');
      },
    );
  });

  describe('the REST API', () => {
    it('grants no access: neither the access token nor the id_token of a login opens it', async () => {
      sandbox.signInAs('olga.one');
      const { tokens } = await logIn();
      const headers = await apiHeaders(sandbox, 'acme');
      for (const token of [tokens.access_token, tokens.id_token]) {
        const reply = await fetch(eventUrl(sandbox, 'boutique-2026'), {
          headers: { ...headers, authorization: `Bearer ${token}` },
        });
        expect(reply.status).toBe(401);
      }
    });

    it('refuses to issue an API token by login', async () => {
      sandbox.signInAs('olga.one');
      const { url } = await new Visitor().open(
        authorizeUrl(sandbox.tenantOptions('acme'), { resource: `${sandbox.url}/api/v1` }),
      );

      expect(url.searchParams.get('error')).toBe('invalid_target');
    });
  });

  it('publishes its key as PEM, as JWKS and at a URL', async () => {
    sandbox.signInAs('olga.one');
    const { tokens } = await logIn();
    const { keys: url } = sandbox.tenantOptions('acme', { keys: 'url' }).login;
    const { keys: pem } = sandbox.tenantOptions('acme', { keys: 'pem' }).login;

    expect(pem).toBe(publicPemOf(sandbox));
    const local = createLocalJWKSet({ keys: [...jwksOf(sandbox).keys] });
    await expect(jwtVerify(tokens.id_token, local)).resolves.toBeDefined();
    await expect(jwtVerify(tokens.id_token, createRemoteJWKSet(new URL(String(url))))).resolves.toBeDefined();
  });
});
