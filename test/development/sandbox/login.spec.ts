/** The provider of a sandbox: people, its page, and `signInAs`. Whole logins are those of hosts, in `test/login/`. */
import { createHash } from 'node:crypto';
import { decodeJwt, type JWTPayload } from 'jose';
import { defaultSeed } from 'nestjs-exhibitor/testing';
import { apiHeaders, eventUrl, jsonOf, type Tokens } from './rest-client.js';
import { useSandbox } from '../../support/lifetimes.js';
import { Visitor } from '../../support/visitor.js';

const PAGE = /^\/connect\/login\//;

const seed = defaultSeed();
seed.people.push(
  { sub: 'pat', name: 'Pat <b>& Co</b>', email: 'pat@example.com', emailOnlyInUserinfo: true },
  { sub: 'tess', name: 'Tess', email: 'tess@example.com', emailVerified: 'false' },
);
const sandbox = await useSandbox({ seed });
afterEach(() => sandbox.signInAs(undefined));
const [acme, globex] = [sandbox.tenantOptions('acme'), sandbox.tenantOptions('globex')];

const authorizeUrl = ({ login }: typeof acme, more: Record<string, string> = {}) =>
  `${sandbox.url}/connect/authorize?${new URLSearchParams({
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

/** What the code in a callback is good for. */
const finish = async ({ searchParams }: URL, { login } = acme) => {
  const form = {
    grant_type: 'authorization_code',
    code: searchParams.get('code') ?? '',
    redirect_uri: login.redirectUri,
    client_id: login.clientId,
    client_secret: login.clientSecret ?? '',
  };
  const body = new URLSearchParams(form);
  const tokens = await jsonOf<Tokens>(fetch(`${sandbox.url}/connect/token`, { method: 'POST', body }));
  const headers = { authorization: `Bearer ${tokens.access_token}` };
  const userinfo = await jsonOf<JWTPayload>(fetch(`${sandbox.url}/connect/userinfo`, { headers }));
  return { tokens, claims: decodeJwt(tokens.id_token), userinfo };
};

/** The whole code flow of one visitor. */
const logIn = async (tenant = acme, more: Record<string, string> = {}, visitor = new Visitor()) =>
  finish((await open(tenant, more, visitor)).url, tenant);

describe('with signInAs', () => {
  const address = (email: string, verifiedAs: unknown = true) => ({ email, email_verified: verifiedAs });
  const uma = address('uma.unverified@example.com', false);
  const tess = address('tess@example.com', 'false');
  const zoe = address('zoë+fair@example.com');
  it.each<[person: string, inToken: object, inUserinfo: object, scope?: string]>([
    ['mo.mailless', {}, {}],
    ['uma.unverified', uma, uma],
    ['tess', tess, tess],
    ['zoë+fair@example.com', zoe, zoe],
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
    expect(callback.href.startsWith(`${acme.login.redirectUri}?`)).toBe(true);
    expect((await finish(callback)).claims).toMatchObject({ auth_time: expect.any(Number) });
  });

  it.each([
    ['http://127.0.0.1:1/x', true],
    ['http://localhost:8080/auth/callback?keep=1', true],
    ['http://[::1]:3000/', true],
    ['https://example.com/cb', false],
    ['http://127.0.0.1.example.com/cb', false],
    ['http://10.0.0.1/cb', false],
  ])('ends at redirect addresses on loopback only: %s is one: %s', async (redirectUri, isAccepted) => {
    sandbox.signInAs('olga.one');
    const { reply, url } = await open(sandbox.tenantOptions('acme', { redirectUri }));
    expect(url.href.startsWith(redirectUri) && url.searchParams.has('code')).toBe(isAccepted);
    expect(reply.text.includes('This sign-in cannot continue')).toBe(!isAccepted);
    expect(reply.status).toBe(isAccepted ? 303 : 400);
  });

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
});

describe('the page', () => {
  it('lists the people, escaped, allows its own style only, and continues as the one chosen', async () => {
    const visitor = new Visitor();
    const { reply, url } = await open(acme, {}, visitor);
    const page = reply.text;
    expect(page).toContain('for development only');
    expect(page).toContain('<p class="tenant">Acme Fairs</p>');
    expect(page.match(/name="person"/g)).toHaveLength(sandbox.people.length);
    expect(page).toContain('Pat &#60;b&#62;&#38; Co&#60;/b&#62;');
    expect(page).not.toContain('<b>');
    const hash = createHash('sha256')
      .update(/<style>(.*)<\/style>/s.exec(page)?.[1] ?? '')
      .digest('base64');
    const policy = reply.headers.get('content-security-policy');
    expect(policy).toContain(`default-src 'none'; style-src 'sha256-${hash}';`);

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
    expect(back.href.startsWith(`${acme.login.redirectUri}?`)).toBe(true);
    expect(Object.fromEntries(back.searchParams)).toMatchObject({ error: 'access_denied', state: 'state-1' });
  });

  it('is separate from another one of the same browser', async () => {
    const visitor = new Visitor();
    const [first, second] = [await open(acme, {}, visitor), await open(globex, {}, visitor)];
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
