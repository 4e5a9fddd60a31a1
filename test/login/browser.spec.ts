import type { IncomingMessage, ServerResponse } from 'node:http';
import { afterAll, beforeAll, describe, expect, it } from '@jest/globals';
import { Controller, Get, Header, Query, UseGuards } from '@nestjs/common';
import type { BrowserContext, Page } from 'playwright-core';
import {
  CurrentExhibitor,
  escapeHtml,
  ExhibitorGuard,
  type Exhibitor,
  type ExhibitorIdentity,
} from '../../lib/index.js';
import type { ExhibitorSandbox } from '../../lib/development/testing/index.js';
import { BoothController } from '../support/booth.controller.js';
import { describeInChromium, expectFits } from '../support/browser.js';
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

/** Pages of a host with `routes`. */
@Controller()
class StandController {
  @Get('events/:eventId/stand')
  @UseGuards(ExhibitorGuard)
  @Header('Content-Type', 'text/html; charset=utf-8')
  stand(@CurrentExhibitor() { name }: Exhibitor): string {
    return `<h1>${escapeHtml(name)}</h1>`;
  }

  @Get('bye')
  bye(): string {
    return 'bye';
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

  describe('the pages of routes', () => {
    let host: Host;
    let page: Page;
    const stand = (event: string, query = ''): string => `${host.url}/events/${event}/stand${query}`;
    const heading = (of: Page) => of.getByRole('heading', { level: 1 }).innerText();
    beforeAll(async () => {
      await context.clearCookies();
      const own = (contactEmails: string[]) => (name: string, index: number) => ({
        id: `x-${index}`,
        name,
        contactEmails,
      });
      const odd = ['<b>A</b> & "B"', 'شركة المعارض', 'W'.repeat(120)];
      const many = [...odd, ...Array.from({ length: 197 }, (_, index) => `Stand ${index}`)];
      sandbox.setExhibitors('two', ['Zenith', 'Acorn'].map(own(['sam.several@example.com'])), 'acme');
      sandbox.setExhibitors('many', many.map(own(['sam.several@example.com'])), 'acme');
      sandbox.setExhibitors('one', ['Kestrel'].map(own(['olga.one@example.com'])), 'acme');
      const started = await startHost({
        controllers: [StandController],
        options: (redirectUri, url) => {
          const tenant = sandbox.tenantOptions('acme', { redirectUri: onOtherSite(redirectUri) });
          const postLogoutRedirectUri = `${onOtherSite(url)}/bye`;
          return {
            isGlobal: true,
            routes: 'auth',
            tenant: { ...tenant, login: { ...tenant.login, endSession: true, postLogoutRedirectUri } },
            secrets: [COOKIE_SECRET],
          };
        },
      });
      host = { ...started, url: onOtherSite(started.url) };
      page = await context.newPage();
    });
    afterAll(async () => {
      await page?.close();
      await host?.close();
    });

    it('lead to the choice of an exhibitor, by keyboard alone, and show any names as text', async () => {
      await page.goto(stand('two'));
      await page.getByRole('button', { name: 'Sam Several' }).click();
      await page.waitForURL(`${host.url}/auth/choose?*`);
      await expectFits(page);
      await page.keyboard.press('Tab');
      await page.keyboard.press('Tab');
      await page.keyboard.press('Enter');
      await page.waitForURL(stand('two'));
      expect(await heading(page)).toBe('Acorn');
      await page.goto(stand('many'));
      const names = page.locator('.choose button');
      expect(await names.count()).toBe(200);
      expect((await names.allInnerTexts()).slice(0, 2)).toEqual(['<b>A</b> & "B"', 'شركة المعارض']);
      const direction = 'getComputedStyle(document.querySelectorAll(".choose button")[1]).direction';
      expect(await page.evaluate(direction)).toBe('rtl');
      await expectFits(page);
    });

    it('offer another account, and a form to log out that ends the session at the provider', async () => {
      await page.goto(stand('one'));
      expect(await heading(page)).toBe('You have no exhibitor here');
      await expectFits(page);
      await page.getByRole('link', { name: 'Use another account' }).click();
      await page.getByRole('button', { name: 'Nora None' }).click();
      await page.waitForURL(stand('one'));
      expect(await heading(page)).toBe('You have no exhibitor here');
      await page.getByRole('button', { name: 'Log out' }).click();
      await page.waitForURL(`${host.url}/bye`);
      await page.goto(stand('one'));
      await page.getByRole('button', { name: 'Cancel' }).click();
      await page.waitForURL(`${host.url}/auth/failed?*`);
      expect(await heading(page)).toBe('The login was cancelled');
      await page.getByRole('link', { name: 'Use another account' }).click();
      await page.getByRole('button', { name: 'Olga One' }).click();
      await page.waitForURL(stand('one'));
      expect(await heading(page)).toBe('Kestrel');
    });

    it('are seen by none of twelve tabs that a browser restores while the provider has a session', async () => {
      await context.clearCookies({ domain: 'localhost' });
      const restored = await Promise.all(
        Array.from({ length: 12 }, async (_, index) => {
          const one = await context.newPage();
          await one.goto(stand('one', `?tab=${index}`));
          const seen = [one.url(), await heading(one)];
          await one.close();
          return seen;
        }),
      );
      expect(restored).toEqual(restored.map((_, index) => [stand('one', `?tab=${index}`), 'Kestrel']));
    });
  });
});
