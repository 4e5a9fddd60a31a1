import { afterAll, beforeAll, describe, expect, it } from '@jest/globals';
import type { BrowserContext, Page } from 'playwright-core';
import type { ExhibitorIdentity } from '../../lib/index.js';
import type { ExhibitorSandbox } from '../../lib/testing/index.js';
import { describeInChromium } from '../support/browser.js';
import { COOKIE_SECRET, startHost, type Host, type HostKind } from '../support/host.js';
import type { Flow } from './flows.js';
import { startSandbox } from '../support/sandbox.js';

const CASES: readonly (readonly [HostKind, Flow])[] = [
  ['express', 'code'],
  ['fastify', 'code token id_token'],
];

/** To a browser, `localhost` and 127.0.0.1, where the provider is, are different sites. */
const onOtherSite = (url: string): string => url.replace('127.0.0.1', 'localhost');

describeInChromium('a login in a browser with the provider on another site', (browser) => {
  let sandbox: ExhibitorSandbox;
  let context: BrowserContext;
  let tab: Page;
  beforeAll(async () => {
    sandbox = await startSandbox();
    context = await browser().newContext();
    tab = await context.newPage();
  });
  afterAll(async () => {
    await context?.close();
    await sandbox?.stop();
  });

  describe.each(CASES)('on %s by %s', (kind, responseType) => {
    let host: Host;
    let callbacks: string[];
    beforeAll(async () => {
      await context.clearCookies();
      const started = await startHost({
        kind,
        options: (redirectUri) => ({
          tenant: sandbox.tenantOptions('acme', { redirectUri: onOtherSite(redirectUri), responseType }),
          secrets: [COOKIE_SECRET],
        }),
      });
      host = { ...started, url: onOtherSite(started.url) };
    });
    afterAll(() => host?.close());

    async function startLogin(page: Page, path: string): Promise<void> {
      callbacks = [];
      page.on('response', (response) => {
        const { origin, pathname } = new URL(response.url());
        if (origin === host.url && pathname === '/auth/callback') {
          callbacks.push(`${response.request().method()} ${response.status()}`);
        }
      });
      await page.goto(`${host.url}/auth/login?returnTo=${encodeURIComponent(path)}`);
    }

    /** Chooses a person on the page of the provider and waits for the page of the host. */
    async function signIn(page: Page, name: string, path: string): Promise<void> {
      await page.getByRole('button', { name }).click();
      await page.waitForURL(`${host.url}${path}`);
    }

    const identityOn = async (page: Page): Promise<ExhibitorIdentity> =>
      (JSON.parse(await page.locator('body').innerText()) as { identity: ExhibitorIdentity }).identity;

    it('leads to the requested page with an identity, also in two tabs at once, and after the back button', async () => {
      const second = await context.newPage();
      await startLogin(second, '/me?tab=second');
      await startLogin(tab, '/me?tab=first');
      await signIn(tab, 'Olga One', '/me?tab=first');
      expect(callbacks).toEqual([responseType === 'code' ? 'GET 303' : 'POST 303']);
      expect(await identityOn(tab)).toMatchObject({ subject: 'olga.one', email: 'olga.one@example.com' });
      await signIn(second, 'Sam Several', '/me?tab=second');
      expect(await identityOn(second)).toMatchObject({ subject: 'sam.several' });
      const cookies = await context.cookies(host.url);
      const ours = cookies.filter(({ name }) => name.startsWith('exhibitor-'));
      expect(ours.map(({ name, httpOnly, sameSite, path }) => [name, httpOnly, sameSite, path])).toEqual([
        ['exhibitor-identity', true, 'Lax', '/'],
      ]);
      // A browser has one identity: that of the login that was finished last, also after the back button.
      await second.close();
      await tab.goBack();
      await tab.goto(`${host.url}/me`);
      expect(await identityOn(tab)).toMatchObject({ subject: 'sam.several' });
    });
  });
});
