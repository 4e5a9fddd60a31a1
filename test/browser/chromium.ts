import { existsSync } from 'node:fs';
import { delimiter, join } from 'node:path';
import { afterAll, beforeAll, describe } from '@jest/globals';
import { chromium, type Browser } from 'playwright-core';

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
