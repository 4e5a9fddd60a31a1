import { existsSync, mkdirSync } from 'node:fs';
import { delimiter, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { afterAll, beforeAll, describe } from '@jest/globals';
import { chromium, type Browser, type BrowserContextOptions, type Page } from 'playwright-core';

const NAMES = ['chromium', 'chromium-browser', 'google-chrome', 'google-chrome-stable'];
const ON_MACOS = '/Applications/Google Chrome.app/Contents/MacOS/Google Chrome';
const FLAGS = [
  '--headless',
  '--no-sandbox',
  '--disable-gpu',
  '--disable-quic',
  '--no-first-run',
  '--disable-background-networking',
  '--disable-component-update',
  '--disable-sync',
];

const executable = findChromium();

/** `undefined` where there is none. `CHROME_PATH` names one in an unusual place. */
function findChromium(): string | undefined {
  const named = process.env['CHROME_PATH'];
  if (named) {
    return named;
  }
  const folders = (process.env['PATH'] ?? '').split(delimiter);
  const candidates = folders.flatMap((folder) => NAMES.map((name) => join(folder, name)));
  return [...candidates, ON_MACOS].find((candidate) => existsSync(candidate));
}

/**
 * A suite in a real Chromium. On a machine without one it is passed over with a line that says so; where `CI` is set
 * that is a failure, since nobody would read the line.
 */
export function describeInChromium(name: string, suite: (browser: () => Browser) => void): void {
  if (executable === undefined) {
    const line = `Chromium was not found: "${name}" is not tested. Install it, or set CHROME_PATH.`;
    if (process.env['CI']) {
      throw new Error(line);
    }
    process.stderr.write(`${line}\n`);
    describe.skip(name, () => suite(noBrowser));
    return;
  }
  describe(name, () => {
    let browser: Browser | undefined;
    beforeAll(async () => {
      browser = await chromium.launch({ executablePath: executable, args: FLAGS });
    });
    afterAll(() => browser?.close());
    suite(() => browser ?? noBrowser());
  });
}

function noBrowser(): never {
  throw new Error('the browser is not running');
}

const SCREENSHOTS = fileURLToPath(new URL('../screenshots/', import.meta.url));

/** A page in a browser context of its own, with everything that goes wrong on it. */
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
      // The browser's own doing: the event stream is closed at the end, a page is left while its icon loads.
      if (reason !== 'net::ERR_ABORTED') {
        this.troubles.push(`failed: ${request.url()} ${reason}`);
      }
    });
  }

  static async arrive(browser: Browser, options: BrowserContextOptions = {}): Promise<BrowserVisitor> {
    const context = await browser.newContext({ viewport: { width: 1100, height: 760 }, ...options });
    return new BrowserVisitor(await context.newPage());
  }

  /** Chooses a person on the sign-in page of the sandbox. */
  async signInAs(name: string): Promise<void> {
    await this.page.getByRole('button', { name }).click();
  }

  /** What a person reads on the page, with white space as it is seen. */
  async text(): Promise<string> {
    return (await this.page.locator('body').innerText()).replace(/\s+/g, ' ');
  }

  /** Waits for the page with this heading, which a click may still be loading. */
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

  async screenshot(name: string): Promise<void> {
    mkdirSync(SCREENSHOTS, { recursive: true });
    await this.page.screenshot({ path: `${SCREENSHOTS}${name}.png` });
  }

  async leave(): Promise<void> {
    await this.page.context().close();
  }
}
