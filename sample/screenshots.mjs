/**
 * Takes pictures with Chromium: those of the README and of docs/login.md into `docs/images/`, or with `npm run screenshots -- FOLDER` of
 * each page of the sample, 1280 and 390 pixels wide, light and dark, into a folder. `CHROME_PATH` is another browser, `SAMPLE_PLATFORM=fastify` the
 * other platform.
 */
import { spawn } from 'node:child_process';
import { existsSync, mkdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { NestFactory } from '@nestjs/core';
import { ExhibitorModule } from 'nestjs-exhibitor';
import { ExhibitorSandbox } from 'nestjs-exhibitor/testing';
import { chromium } from 'playwright-core';

const ROOT = fileURLToPath(new URL('..', import.meta.url));
const [folder] = process.argv.slice(2);
const PORTS = { PORT: '3917', SANDBOX_PORT: '4917' };
const ORIGIN = `http://127.0.0.1:${PORTS.PORT}`;
const BROWSERS = ['/usr/bin/chromium', '/usr/bin/chromium-browser', '/usr/bin/google-chrome'];
const executablePath = process.env.CHROME_PATH ?? BROWSERS.find((file) => existsSync(file));

const logInAs = async (page, name, tenant, path) => {
  await page.goto(`${ORIGIN}/${tenant}/auth/login?prompt=login&returnTo=${encodeURIComponent(path)}`);
  await page.getByRole('button', { name }).click();
};
const fault = (page, name) => page.getByRole('button', { name, exact: true }).click();

/** A picture by name: how to get to its page, and what must be visible. */
const PAGES = {
  start: (page) => page.goto(`${ORIGIN}/acme`),
  globex: (page) => page.goto(`${ORIGIN}/globex`),
  'not-found': (page) => page.goto(`${ORIGIN}/acme/events/unknown/mine`),
  cancelled: async (page) => {
    await page.goto(`${ORIGIN}/acme/auth/login?returnTo=/acme/events/world-2026/mine`);
    await page.getByRole('button', { name: 'Cancel' }).click();
  },
  'no-exhibitor': (page) => logInAs(page, 'Nora None', 'acme', '/acme/events/world-2026/mine'),
  choose: (page) => logInAs(page, 'Sam Several', 'acme', '/acme/events/world-2026/mine'),
  booth: (page) => page.locator('main form button').first().click(),
  'globex-booth': (page) => logInAs(page, 'Olga One', 'globex', '/globex/events/world-2026/mine'),
  list: async (page) => {
    await logInAs(page, 'Olga One', 'acme', '/acme/events/world-2026/exhibitors');
    await page.getByText('1,234 of 1,234 exhibitors').waitFor();
    await page.waitForTimeout(2_500);
  },
  'list-page': (page) => page.goto(`${ORIGIN}/acme/events/world-2026/exhibitors?page=3`),
  'list-beyond': (page) => page.goto(`${ORIGIN}/acme/events/world-2026/exhibitors?page=999`),
  'list-empty': (page) => page.goto(`${ORIGIN}/acme/events/empty-2026/exhibitors`),
  search: (page) => page.goto(`${ORIGIN}/acme/events/world-2026/exhibitors/search?q=zenith`),
  'search-nothing': (page) => page.goto(`${ORIGIN}/acme/events/world-2026/exhibitors/search?q=nothing`),
  retried: async (page) => {
    await page.goto(`${ORIGIN}/acme/events/national-2026/mine`);
    await unfold(page);
    await fault(page, '500');
  },
  down: async (page) => {
    await page.goto(`${ORIGIN}/acme/events/regional-2026/exhibitors?page=1`);
    await unfold(page);
    await fault(page, 'Service down');
  },
};
const OF_README = { 1280: ['retried'], 390: ['list', 'globex'] };

async function unfold(page) {
  if (!(await page.locator('[data-tour]').evaluate((panel) => panel.open))) {
    await page.locator('[data-tour] > summary').click();
  }
}

/** A third of the size of the PNG. Chromium takes no pictures in this format, but converts them. */
async function webpOf(png, page) {
  const url = await page.evaluate(async (data) => {
    const image = await createImageBitmap(await (await fetch(`data:image/png;base64,${data}`)).blob());
    const canvas = document.createElement('canvas');
    Object.assign(canvas, { width: image.width, height: image.height });
    canvas.getContext('2d').drawImage(image, 0, 0);
    return canvas.toDataURL('image/webp', 0.9);
  }, png.toString('base64'));
  return Buffer.from(url.slice(url.indexOf(',') + 1), 'base64');
}

async function shoot(browser, { width, colorScheme, target }) {
  const context = await browser.newContext({
    viewport: { width, height: width < 600 ? 844 : 800 },
    colorScheme,
  });
  const page = await context.newPage();
  const converter = await context.newPage();
  for (const [name, open] of Object.entries(PAGES)) {
    await open(page);
    await page.waitForLoadState();
    const file = join(target, `${name}-${width}-${colorScheme}`);
    if (folder !== undefined) {
      await page.screenshot({ path: `${file}.png` });
    } else if (OF_README[width].includes(name)) {
      writeFileSync(`${file}.webp`, await webpOf(await page.screenshot(), converter));
    }
  }
  await unfold(page);
  await fault(page, 'Remove the fault');
  await context.close();
}

/** The pages that the module shows by itself, for docs/login.md. */
async function shootOwnPages(browser, target) {
  const url = 'http://127.0.0.1:3918';
  const sandbox = await ExhibitorSandbox.start();
  const tenant = sandbox.tenantOptions('acme', { redirectUri: `${url}/auth/callback` });
  const secrets = ['a secret of the pictures, long enough to seal cookies'];
  const host = ExhibitorModule.forRoot({ isGlobal: true, routes: 'auth', tenant, secrets });
  const app = await NestFactory.create(host, { logger: ['error'] });
  await app.listen(new URL(url).port, '127.0.0.1');
  for (const colorScheme of ['light', 'dark']) {
    const context = await browser.newContext({ viewport: { width: 390, height: 400 }, colorScheme });
    const page = await context.newPage();
    await page.goto(`${url}/auth/choose?eventId=world-2026`);
    await page.getByRole('button', { name: 'Cancel' }).click();
    await page.getByRole('heading', { name: 'The login was cancelled' }).waitFor();
    await page.screenshot({ path: join(target, `failed-390-${colorScheme}.png`) });
    await page.getByRole('link', { name: 'Use another account' }).click();
    await page.getByRole('button', { name: 'Sam Several' }).click();
    await page.getByRole('heading', { name: 'Choose an exhibitor' }).waitFor();
    await page.screenshot({ path: join(target, `choose-390-${colorScheme}.png`) });
    await context.close();
  }
  await app.close();
  await sandbox.stop();
}

const sample = spawn(process.execPath, [join(ROOT, 'sample/dist/start.js')], {
  env: { ...process.env, ...PORTS },
  stdio: ['ignore', 'pipe', 'inherit'],
});
for await (const line of sample.stdout.iterator({ destroyOnReturn: false })) {
  if (String(line).includes('Sample ready')) {
    break;
  }
}
const browser = await chromium.launch({ executablePath, args: ['--no-sandbox'] });
const target = folder ?? join(ROOT, 'docs/images');
mkdirSync(target, { recursive: true });
try {
  if (folder === undefined) {
    await shootOwnPages(browser, target);
  }
  for (const width of [1280, 390]) {
    for (const colorScheme of ['light', 'dark']) {
      await shoot(browser, { width, colorScheme, target });
    }
  }
} finally {
  await browser.close();
  sample.kill();
}
