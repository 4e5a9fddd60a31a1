/** One walk through the sample in a real browser for each adapter. What its pages say without scripts is in `pages.spec.ts`. */
import { afterAll, afterEach, beforeAll, describe, expect, it } from '@jest/globals';
import { BrowserVisitor, describeInChromium, expectFits } from '../support/browser.js';
import { startServer } from '../support/server.js';
import { exhibitorsOf, startSample, type RunningSample } from './running-sample.js';
import { eventually } from '../support/wait.js';
import { openRequests } from '../support/sandbox.js';

describeInChromium('The portal', (browser) => {
  let sample: RunningSample;
  let visitor: BrowserVisitor;

  const startOn = (platform: 'express' | 'fastify') => {
    beforeAll(async () => {
      sample = await startSample(platform);
      visitor = await BrowserVisitor.arrive(browser());
    });
    afterEach(() => {
      sample.sandbox.clearFaults();
      sample.sandbox.latency = 0;
    });
    afterAll(() => Promise.all([visitor?.leave(), sample?.close()]));
  };

  const main = () => visitor.page.getByRole('main');
  const panel = () => visitor.page.getByRole('complementary', { name: 'What to try' });
  const toggle = (name: string) => visitor.page.getByRole('button', { name });
  const rows = () => visitor.page.locator('tbody tr').count();

  describe('on Express', () => {
    startOn('express');
    const own = () => exhibitorsOf(sample, 'sam.several', 'world-2026');

    it('shows the five events and their sizes', async () => {
      await visitor.page.goto(sample.url);
      expect(await visitor.page.title()).toBe('Trade events · Acme Fairs');
      await visitor.arrivesAt('Your booth at every event');
      const cards = await main().getByRole('listitem').allInnerTexts();
      expect(cards.map((card) => card.replace(/\s+/g, ' '))).toEqual([
        'World Industry Expo 2026 Hanover · 20–24 April 2026 1,234 exhibitors My booth All exhibitors',
        'National Building Show 2026 Birmingham · 9–11 June 2026 251 exhibitors My booth All exhibitors',
        'Regional Craft Fair 2026 Graz · 3–5 July 2026 50 exhibitors My booth All exhibitors',
        'Boutique Design Days 2026 Copenhagen · 17–18 September 2026 7 exhibitors My booth All exhibitors',
        'Empty Hall Preview 2026 Rotterdam · 12 November 2026 No exhibitors yet My booth All exhibitors',
      ]);
      expect(await visitor.text()).not.toContain('Logged in as');
      await fits();
    });

    it('leads over the provider to the choice of an exhibitor, and shows it', async () => {
      await visitor.page.getByRole('link', { name: 'My booth at World Industry Expo 2026' }).click();
      await visitor.arrivesAt('Sign in');
      expect(new URL(visitor.page.url()).origin).toBe(sample.sandbox.url);
      await visitor.signInAs('Sam Several');
      await visitor.arrivesAt('Choose an exhibitor');
      const [first, second, third] = own();
      const choices = main().getByRole('button');
      const labels = [first, second, third].map(
        (one) => new RegExp(`^${one?.['name']} · .*${one?.['booth']}`),
      );
      expect(await choices.allInnerTexts()).toEqual(labels.map((label) => expect.stringMatching(label)));
      await fits();
      await choices.first().click();
      await visitor.arrivesAt(String(first?.['name']));
      await visitor.page.getByRole('link', { name: 'Another exhibitor' }).click();
      await choices.nth(1).click();
      await visitor.arrivesAt(String(second?.['name']));
      expect(visitor.page.url()).toBe(`${sample.url}/events/world-2026/mine`);
      const text = await visitor.text();
      expect(text).toContain('Logged in as sam.several@example.com');
      for (const field of ['hall', 'booth', 'country', 'id']) {
        expect(text).toContain(String(second?.[field]));
      }
      await fits();
    });

    it('loads 1,234 exhibitors once and in order, while the progress bar moves forward only', async () => {
      await visitor.page.addInitScript(RECORD);
      sample.sandbox.clearRequests();
      sample.sandbox.latency = 20;
      await visitor.page.getByRole('link', { name: 'All exhibitors' }).click();
      await visitor.page.getByText('1,234 of 1,234 exhibitors').waitFor();
      await visitor.page.getByRole('button', { name: 'Load again' }).waitFor();
      const seen = await visitor.page.evaluate<number[]>('progressSeen');
      expect(seen.length).toBeGreaterThanOrEqual(25);
      expect(seen).toEqual(seen.toSorted((a, b) => a - b));
      expect([seen[0], seen.at(-1)]).toEqual([0, 1]);
      expect(await visitor.page.locator('tbody th').allInnerTexts()).toEqual(
        sample.sandbox.exhibitors('world-2026', 'acme').map(({ name }) => name),
      );
      // The stream is closed, so that the browser does not connect again.
      expect(await visitor.page.evaluate('streams.map(({ readyState }) => readyState)')).toEqual([CLOSED]);
      expect(await main().getByRole('link', { name: 'Next' }).count()).toBe(0);
      // Page 1 for the first response, then all 25.
      expect(sample.sandbox.requests.filter(({ operation }) => operation === 'list')).toHaveLength(1 + 25);
      await panel().getByText('200 × 26').waitFor();
    });

    it('stops on Stop and starts again on Load again', async () => {
      sample.sandbox.latency = 250;
      await toggle('Load again').click();
      await visitor.page.getByText(MIDWAY).waitFor();
      await toggle('Stop').click();
      await eventually(() => openRequests(sample.sandbox) === 0, 10_000);
      expect(await visitor.page.getByRole('progressbar').evaluate(share)).toBeLessThan(1);
      sample.sandbox.latency = 0;
      await toggle('Load again').click();
      await visitor.page.getByText('1,234 of 1,234 exhibitors').waitFor();
      expect(await rows()).toBe(1234);
    });

    it('shows names as text, with any characters', async () => {
      const name = `<img src=x onerror="document.title='hacked'"> & <script>document.title='hacked'</script>`;
      const names = [name, 'Unbroken'.repeat(30), 'שם בע"מ.'];
      const contactEmails = ['sam.several@example.com'];
      const records = names.map((one, index) => ({ id: `x-${index}`, name: one, contactEmails }));
      sample.sandbox.setExhibitors('boutique-2026', records, 'acme');
      await visitor.page.goto(`${sample.url}/events/boutique-2026/exhibitors`);
      await visitor.page.getByText('3 of 3 exhibitors').waitFor();
      expect(await visitor.page.locator('tbody th').allInnerTexts()).toEqual(names);
      expect(await visitor.page.title()).not.toBe('hacked');
      await fits();
      await visitor.page.goto(`${sample.url}/events/boutique-2026/mine`);
      await fits();
      await main().getByRole('button').nth(1).click();
      await visitor.arrivesAt(String(names[1]));
      await fits();
    });

    it('ends the login at the provider too, and the next one is of another person', async () => {
      await visitor.page.goto(`${sample.url}/events/world-2026/mine`);
      await visitor.arrivesAt(String(own()[1]?.['name']));
      await visitor.page.getByRole('button', { name: 'Log out' }).click();
      await visitor.arrivesAt('Your booth at every event');
      expect(visitor.page.url()).toBe(sample.url);
      expect(await visitor.text()).not.toContain('sam.several@example.com');
      await visitor.page.getByRole('link', { name: 'Log in' }).click();
      await visitor.arrivesAt('Sign in');
      await visitor.signInAs('Olga One');
      await visitor.page.getByText('Logged in as olga.one@example.com').waitFor();
    });

    it('switches to another person without a logout', async () => {
      // The provider knows who it is: a new login is silently the same person.
      await visitor.page.goto(`${sample.url}/auth/login`);
      await visitor.page.getByText('Logged in as olga.one@example.com').waitFor();
      await visitor.page.getByRole('link', { name: 'Change the person' }).click();
      await visitor.arrivesAt('Sign in');
      await visitor.signInAs('Sam Several');
      await visitor.page.getByText('Logged in as sam.several@example.com').waitFor();
    });

    it('showed no error in the console in all these steps', () => {
      expect(visitor.troubles).toEqual([]);
    });

    it('is not logged out, and selects nothing, by a form of another site', async () => {
      // One that Sam may select, so that only the origin of the request can be the reason of a refusal.
      const [booth] = exhibitorsOf(sample, 'sam.several', 'regional-2026');
      const elsewhere = await startServer((request, response) => {
        const event = '<input type="hidden" name="eventId" value="regional-2026">';
        const button = `${event}<button name="exhibitorId" value="${booth?.id}">Win</button>`;
        response.setHeader('content-type', 'text/html');
        response.end(`<form method="post" action="${sample.url}${request.url}">${button}</form>`);
      });
      for (const path of ['/auth/logout', '/auth/choose']) {
        // To a browser, `localhost` and 127.0.0.1 are different sites.
        await visitor.page.goto(`${elsewhere.url.replace('127.0.0.1', 'localhost')}${path}`);
        const reply = visitor.page.waitForResponse((response) => response.url() === `${sample.url}${path}`);
        await visitor.page.getByRole('button', { name: 'Win' }).click();
        expect([400, 401, 403]).toContain((await reply).status());
      }
      await visitor.page.goto(`${sample.url}/events/regional-2026/mine`);
      expect(await visitor.text()).toContain('Logged in as sam.several@example.com');
      await visitor.arrivesAt('Choose an exhibitor');
      await elsewhere.stop();
    });

    it('shows a message when the service fails midway, keeps the rows, and retries on request', async () => {
      sample.sandbox.latency = 250;
      await visitor.page.goto(`${sample.url}/events/world-2026/exhibitors`);
      await visitor.page.getByText(MIDWAY).waitFor();
      sample.sandbox.failNext('list', { kind: 'body', body: 'not JSON: internal detail' }, Infinity);
      const alert = visitor.page.getByRole('alert');
      await alert.waitFor();
      expect(await alert.innerText()).toBe(
        'The list is not complete. The exhibitor service did not answer as it should. Please try again.',
      );
      expect(await rows()).toBeGreaterThanOrEqual(50);
      expect(await rows()).toBeLessThan(1234);
      sample.sandbox.clearFaults();
      sample.sandbox.latency = 0;
      await toggle('Try again').click();
      await visitor.page.getByText('1,234 of 1,234 exhibitors').waitFor();
      expect(await alert.isVisible()).toBe(false);
      expect(await rows()).toBe(1234);
    });

    it('shows a message when the login has ended in the meantime', async () => {
      const again = toggle('Load again');
      await again.waitFor();
      await visitor.page.context().clearCookies();
      await again.click();
      await visitor.page.getByText('The server rejected the request. Please reload the page.').waitFor();
      await visitor.page.getByText('Not loaded').waitFor();
    });

    it('has a panel that stays folded on the next page, by the keyboard', async () => {
      const folded = () => panel().getByText('What the module did');
      await visitor.page.goto(sample.url);
      await visitor.page.getByText('What to try').focus();
      await visitor.page.keyboard.press('Enter');
      // The event that remembers it comes a turn after the panel is folded.
      await visitor.page.waitForFunction("document.cookie.includes('tour-folded=yes')");
      await visitor.page.goto(`${sample.url}/nowhere`);
      expect(await folded().isVisible()).toBe(false);
      await panel().locator('summary').first().click();
      await fits();
    });
  });

  describe('on Fastify', () => {
    startOn('fastify');

    it('is the same', async () => {
      const { page } = visitor;
      await page.goto(`${sample.url}/events/regional-2026/mine`);
      await visitor.signInAs('Sam Several');
      await visitor.arrivesAt('Choose an exhibitor');
      await main().getByRole('button').nth(2).click();
      await page.getByText('acme-regional-2026-').waitFor();
      await page.getByRole('button', { name: '500', exact: true }).click();
      await page.getByText('The module tried three times and got the answer.').waitFor();
      await page.getByRole('link', { name: 'All exhibitors' }).click();
      await page.getByText('50 of 50 exhibitors').waitFor();
      expect((await page.goto(`${sample.url}/events/%ff/mine`))?.status()).toBe(404);
      await page.goto(sample.url);
      await page.getByRole('button', { name: 'Log out' }).click();
      await page.getByRole('link', { name: 'Log in' }).waitFor();
    });
  });

  /** With the code of its panel open. */
  async function fits(): Promise<void> {
    const { page } = visitor;
    await panel().getByText('The code behind it').click();
    await expectFits(page);
    await page.setViewportSize({ width: 390, height: 600 });
    expect((await page.getByRole('banner').boundingBox())?.height).toBeLessThan(80);
    await page.setViewportSize({ width: 1280, height: 600 });
  }
});

/** The list has started and is not complete. */
const MIDWAY = /^(?!1,234 )[\d,]+ of 1,234 exhibitors/;

/** Runs in each page: records every value of the bar, and every event stream that is opened. */
const RECORD = `
  globalThis.progressSeen = [];
  globalThis.streams = [];
  const { EventSource } = globalThis;
  globalThis.EventSource = class extends EventSource {
    constructor(...args) {
      super(...args);
      streams.push(this);
    }
  };
  addEventListener('DOMContentLoaded', () => {
    const bar = document.querySelector('progress');
    if (bar === null) return;
    const note = () => progressSeen.push(bar.value / bar.max);
    note();
    new MutationObserver(note).observe(bar, { attributes: true });
  });
`;
const CLOSED = 2;

function share(bar: unknown): number {
  const { value, max } = bar as { value: number; max: number };
  return value / max;
}
