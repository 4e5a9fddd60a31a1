import type { IncomingMessage, ServerResponse } from 'node:http';
import { afterAll, beforeAll, describe, expect, it } from '@jest/globals';
import { Controller, Get, Header, Query } from '@nestjs/common';
import type { BrowserContext, Page } from 'playwright-core';
import type { ExhibitorIdentity } from '../../lib/index.js';
import type { ExhibitorSandbox } from '../../lib/development/testing/index.js';
import { BoothController } from '../support/booth.controller.js';
import { describeInChromium } from '../support/browser.js';
import { COOKIE_SECRET, startHost, type Host, type HostKind } from '../support/host.js';
import type { Flow } from './flows.js';
import { startSandbox } from '../support/sandbox.js';
import { eventually } from '../support/wait.js';

const CASES: readonly (readonly [HostKind, Flow])[] = [
  ['express', 'code'],
  ['fastify', 'code token id_token'],
];

/** A page with a link that the browser loads ahead. */
@Controller()
class LinksController {
  @Get('links')
  @Header('Content-Type', 'text/html; charset=utf-8')
  links(@Query('to') to: string): string {
    const rules = { prefetch: [{ source: 'list', urls: [to], eagerness: 'immediate' }] };
    return `<script type="speculationrules">${JSON.stringify(rules)}</script><a href="${to.replaceAll('&', '&amp;')}">Go</a>`;
  }
}

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
    /** Statuses of what the browser has loaded ahead. */
    let ahead: number[] = [];
    /** The callback does not reach the guard yet. */
    let isHeld = false;
    beforeAll(async () => {
      await context.clearCookies();
      const started = await startHost({
        kind,
        controllers: [BoothController, LinksController],
        configure: (app) =>
          app.use((request: IncomingMessage, response: ServerResponse, next: () => void) => {
            if (request.headers['sec-purpose'] !== undefined) {
              response.on('finish', () => ahead.push(response.statusCode));
            }
            if (isHeld) {
              response.end('held');
            } else {
              next();
            }
          }),
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

    it('starts and ends by a click on a link that was loaded ahead', async () => {
      const page = await context.newPage();
      /** Opens a page whose link to the host is loaded ahead, and clicks it once the host has refused that. */
      const follow = async (address: string): Promise<void> => {
        ahead = [];
        await page.goto(`${host.url}/links?to=${encodeURIComponent(address)}`);
        await eventually(() => ahead.length > 0);
        expect(ahead).toEqual([503]);
        await page.getByRole('link').click();
      };
      await context.clearCookies();
      await follow(`${host.url}/auth/login?returnTo=/me`);
      await page.getByRole('button', { name: 'Olga One' }).waitFor();
      if (responseType === 'code') {
        isHeld = true;
        await page.getByRole('button', { name: 'Olga One' }).click();
        await page.waitForURL(`${host.url}/auth/callback?*`);
        isHeld = false;
        await follow(page.url());
        await page.waitForURL(`${host.url}/me`);
        expect(await identityOn(page)).toMatchObject({ subject: 'olga.one' });
      }
      await page.close();
    });
  });
});
