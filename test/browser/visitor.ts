import { mkdirSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import type { Browser, BrowserContextOptions, Page } from 'playwright-core';

const SCREENSHOTS = fileURLToPath(new URL('../screenshots/', import.meta.url));

/** One person at a browser of their own, with everything that went wrong on their screen. */
export class Visitor {
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

  static async arrive(browser: Browser, options: BrowserContextOptions = {}): Promise<Visitor> {
    const context = await browser.newContext({ viewport: { width: 1100, height: 760 }, ...options });
    return new Visitor(await context.newPage());
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
