/** Logins and logouts at a certified provider: that of the sandbox. */
import { afterAll, afterEach, describe, expect, it } from '@jest/globals';
import type { LoginOptions, LoginParameters } from '../../lib/index.js';
import { BoothController } from '../support/booth.controller.js';
import { COOKIE_SECRET, startHost, type Host } from '../support/host.js';
import { useSandbox } from '../support/lifetimes.js';
import { formFields, Visitor, type Reply } from '../support/visitor.js';
import { beginWith, ChoosingController } from './choosing.controller.js';
import { identityOf, isLoggedIn, logOut } from './journey.js';

const sandbox = await useSandbox();
const hosts: Host[] = [];
afterEach(() => sandbox.signInAs(undefined));
afterAll(() => Promise.all(hosts.map((host) => host.close())));

async function start(
  login: Partial<LoginOptions> = {},
  { publicClient = false, cookieName }: { publicClient?: boolean; cookieName?: string } = {},
): Promise<Host> {
  const host = await startHost({
    controllers: [BoothController, ChoosingController],
    options: (redirectUri) => {
      const options = sandbox.tenantOptions('acme', { redirectUri, publicClient });
      const tenant = { ...options, login: { ...options.login, ...login } };
      return { tenant, secrets: [COOKIE_SECRET], cookies: { name: cookieName } };
    },
  });
  hosts.push(host);
  return host;
}

/** Logs in and stops at the start page of the host, or at the login page. */
const follow = (visitor: Visitor, { url }: Host): Promise<Reply> =>
  visitor.follow(`${url}/auth/login`, ({ href }) => href === `${url}/`);

/** Expects a login as this person, without the login page. */
async function expectLogin(visitor: Visitor, host: Host, subject: string): Promise<void> {
  sandbox.signInAs(subject);
  await follow(visitor, host);
  sandbox.signInAs(undefined);
  expect(await identityOf(visitor, host)).toMatchObject({ subject, email: `${subject}@example.com` });
}

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
