import { readFileSync } from 'node:fs';
import { afterAll, beforeAll, expect } from '@jest/globals';
import type * as playwright from 'playwright-core';
import type { Browser, BrowserContextOptions, Page } from 'playwright-core';
import { nativeRequire } from './native-require.js';
import { describeWith, type Program } from './programs.js';

/** Jest takes 3 s for this bundle in each suite. */
const { chromium }: typeof playwright = nativeRequire('playwright-core');

const FLAGS = [
  '--headless',
  '--no-sandbox',
  '--disable-gpu',
  '--disable-quic',
  '--no-first-run',
  '--disable-background-networking',
  '--disable-component-update',
  '--disable-sync',
  // One process for several sites: half the time of a login. Cookies do not depend on processes.
  '--disable-site-isolation-trials',
];

const CHROMIUM: Program = {
  name: 'Chromium',
  files: ['chromium', 'chromium-browser', 'google-chrome', 'google-chrome-stable'],
  variable: 'CHROME_PATH',
  elsewhere: '/Applications/Google Chrome.app/Contents/MacOS/Google Chrome',
};

/** A suite in a real Chromium. */
export function describeInChromium(title: string, suite: (browser: () => Browser) => void): void {
  describeWith(CHROMIUM, title, (executablePath) => {
    let browser: Browser | undefined;
    beforeAll(async () => {
      browser = await chromium.launch({ executablePath, args: FLAGS });
    });
    afterAll(() => browser?.close());
    suite(() => browser ?? noBrowser());
  });
}

function noBrowser(): never {
  throw new Error('the browser is not running');
}

const VIEWPORT = { width: 1100, height: 760 };

/** Runs axe in a page, whatever its policy; answers what it finds. */
const AXE = `${readFileSync(nativeRequire.resolve('axe-core/axe.min.js'), 'utf8')};
  axe.run().then(({ violations }) => violations.map(({ id, nodes }) => id + ": " + nodes[0].html))`;

/** Checks that a page passes axe and fits, narrow and dark, wide and light. */
export async function expectFits(page: Page): Promise<void> {
  for (const [width, colorScheme] of [
    [390, 'dark'],
    [1280, 'light'],
  ] as const) {
    await page.setViewportSize({ width, height: 600 });
    await page.emulateMedia({ colorScheme });
    expect(await page.evaluate('document.documentElement.scrollWidth')).toBeLessThanOrEqual(width);
    expect(await page.evaluate(AXE)).toEqual([]);
  }
}

/** A page in the browser, with everything that goes wrong on it. */
export class BrowserVisitor {
  /** Console errors and warnings, page errors, failed requests and replies of 400 and above. */
  readonly troubles: string[] = [];

  private constructor(readonly page: Page) {
    page.on('console', (message) => {
      if (['error', 'warning'].includes(message.type())) {
        this.troubles.push(`console: ${message.text()}`);
      }
    });
    page.on('pageerror', (error) => this.troubles.push(`page: ${error.message}`));
    page.on('response', (response) => {
      if (response.status() >= 400) {
        this.troubles.push(`${response.status()} ${response.url()}`);
      }
    });
    page.on('requestfailed', (request) => {
      const reason = request.failure()?.errorText;
      // Caused by the browser itself: it closes the event stream at the end, and stops loading an icon of a page it leaves.
      if (reason !== 'net::ERR_ABORTED') {
        this.troubles.push(`failed: ${request.url()} ${reason}`);
      }
    });
  }

  /** Opens a page in a context of its own. */
  static async arrive(browser: Browser, options: BrowserContextOptions = {}): Promise<BrowserVisitor> {
    const context = await browser.newContext({ viewport: VIEWPORT, ...options });
    return new BrowserVisitor(await context.newPage());
  }

  /** Chooses a person on the sign-in page of the sandbox. */
  async signInAs(name: string): Promise<void> {
    await this.page.getByRole('button', { name }).click();
  }

  /** The visible text of the page, white space collapsed. */
  async text(): Promise<string> {
    return (await this.page.locator('body').innerText()).replace(/\s+/g, ' ');
  }

  /** Waits until the page with this heading is loaded. */
  async arrivesAt(heading: string): Promise<void> {
    const level = { level: 1 };
    try {
      await this.page
        .getByRole('heading', { ...level, name: heading, exact: true })
        .waitFor({ timeout: 10_000 });
    } catch {
      const instead = await this.page.getByRole('heading', level).allInnerTexts();
      throw new Error(`expected the page "${heading}", but it is "${instead.join()}"`);
    }
  }

  async leave(): Promise<void> {
    await this.page.context().close();
  }
}
