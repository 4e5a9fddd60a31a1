import { afterAll, afterEach, beforeAll, beforeEach, expect, it } from '@jest/globals';
import { describeInChromium } from './chromium.js';
import { startSample, type RunningSample } from './running-sample.js';
import { Visitor } from './visitor.js';

describeInChromium('A whole event in the browser', (browser) => {
  let sample: RunningSample;
  let visitor: Visitor;
  const progress = () => visitor.page.getByRole('progressbar');
  const whole = () => `${sample.url}/events/world-2026/exhibitors`;
  const listed = () => sample.sandbox.requests.filter(({ operation }) => operation === 'list');

  beforeAll(async () => {
    sample = await startSample();
  });
  afterAll(() => sample.stop());

  beforeEach(async () => {
    sample.sandbox.signInAs('olga.one');
    visitor = await Visitor.arrive(browser());
    await visitor.page.goto(`${sample.url}/auth/login`);
    sample.sandbox.clearRequests();
  });
  afterEach(async () => {
    sample.sandbox.clearFaults();
    sample.sandbox.latency = 0;
    await visitor.leave();
  });

  it('moves a progress bar to the end for 1,234 exhibitors, never back', async () => {
    await visitor.page.addInitScript(recordProgress);
    sample.sandbox.latency = 20;
    await visitor.page.goto(whole());
    await visitor.page.getByText('1,234 of 1,234 exhibitors').waitFor();
    await visitor.page.getByRole('button', { name: 'Load again' }).waitFor();

    const seen = await visitor.page.evaluate(() => (globalThis as unknown as Recorded).progressSeen);
    expect(seen.length).toBeGreaterThanOrEqual(25);
    expect(seen).toEqual(seen.toSorted((a, b) => a - b));
    expect(seen[0]).toBe(0);
    expect(seen.at(-1)).toBe(1);
    expect(await visitor.page.locator('tbody tr').count()).toBe(1234);
    expect(visitor.troubles).toEqual([]);
  });

  it('reads the event once: the page it shows first, and 25 pages for the whole', async () => {
    await visitor.page.goto(whole());
    await visitor.page.getByText('1,234 of 1,234 exhibitors').waitFor();
    // An EventSource that was not closed would be back within three seconds.
    await visitor.page.waitForTimeout(3_500);
    expect(listed()).toHaveLength(1 + 25);
  });

  it('stops asking the service when the tab is closed midway', async () => {
    sample.sandbox.latency = 150;
    await visitor.page.goto(whole());
    await visitor.page.getByText(/^[1-9]\d\d of 1,234 exhibitors/).waitFor();
    await visitor.page.close();

    await until(() => sample.sandbox.openRequests === 0);
    const asked = listed().length;
    await new Promise((resolve) => setTimeout(resolve, 600));
    expect(listed()).toHaveLength(asked);
    expect(asked).toBeLessThan(25);
    expect(listed().some(({ aborted }) => aborted)).toBe(true);
  });

  it('stops when asked to, and starts over when asked again', async () => {
    sample.sandbox.latency = 150;
    await visitor.page.goto(whole());
    await visitor.page.getByText(/^[1-9]\d\d of 1,234 exhibitors/).waitFor();
    await visitor.page.getByRole('button', { name: 'Stop' }).click();
    await until(() => sample.sandbox.openRequests === 0);
    expect(await progress().evaluate(share)).toBeLessThan(1);

    sample.sandbox.latency = 0;
    await visitor.page.getByRole('button', { name: 'Load again' }).click();
    await visitor.page.getByText('1,234 of 1,234 exhibitors').waitFor();
    expect(await visitor.page.locator('tbody tr').count()).toBe(1234);
  });

  it('says so when the service fails midway, keeps what has come, and tries again when asked', async () => {
    sample.sandbox.latency = 100;
    await visitor.page.goto(whole());
    await visitor.page.getByText(/^[1-9]\d\d of 1,234 exhibitors/).waitFor();
    sample.sandbox.failNext('list', { kind: 'body', body: 'not JSON: internal detail' }, Infinity);

    const alert = visitor.page.getByRole('alert');
    await alert.waitFor();
    expect(await alert.innerText()).toBe(
      'The exhibitor service gave an unexpected answer. We could not use what it sent. ' +
        'Please try again; if this stays, tell the organiser.',
    );
    const rows = await visitor.page.locator('tbody tr').count();
    expect(rows).toBeGreaterThanOrEqual(100);
    expect(rows).toBeLessThan(1234);
    await visitor.screenshot('live-failed');

    sample.sandbox.clearFaults();
    sample.sandbox.latency = 0;
    await visitor.page.getByRole('button', { name: 'Try again' }).click();
    await visitor.page.getByText('1,234 of 1,234 exhibitors').waitFor();
    expect(await alert.isVisible()).toBe(false);
    expect(await visitor.page.locator('tbody tr').count()).toBe(1234);
  });

  it('shows an event nobody has registered for', async () => {
    await visitor.page.goto(`${sample.url}/events/empty-2026/exhibitors`);
    await visitor.page.getByText('0 of 0 exhibitors').waitFor();
    expect(await progress().evaluate(share)).toBe(1);
    expect(await visitor.text()).toContain('Nobody has registered for this event yet.');
    expect(visitor.troubles).toEqual([]);
  });

  it('shows names as text, whatever they hold', async () => {
    const name = `<img src=x onerror="document.title='hacked'"> & <script>document.title='hacked'</script>`;
    const record = { id: 'x', name, contactEmails: ['olga.one@example.com'] };
    sample.sandbox.setExhibitors('boutique-2026', [record], 'acme');
    await visitor.page.goto(`${sample.url}/events/boutique-2026/exhibitors`);
    await visitor.page.getByText('1 of 1 exhibitor').waitFor();
    expect(await visitor.page.locator('tbody th').allInnerTexts()).toEqual([name]);
    await visitor.page.goto(`${sample.url}/events/boutique-2026/mine`);
    expect(await visitor.heading()).toBe(name);
    expect(await visitor.page.title()).not.toBe('hacked');
    expect(visitor.troubles).toEqual([]);
  });

  it('works as plain pages where scripts do not run', async () => {
    const plain = await Visitor.arrive(browser(), { javaScriptEnabled: false });
    await plain.page.goto(`${sample.url}/auth/login?returnTo=/events/world-2026/exhibitors`);
    expect(await plain.text()).toContain('1,234 exhibitors, page 1 of 25');
    expect(await plain.page.getByRole('progressbar').count()).toBe(0);
    await plain.page.getByRole('link', { name: 'Next' }).click();
    expect(await plain.text()).toContain('page 2 of 25');
    const expected = sample.sandbox.exhibitors('world-2026', 'acme').slice(50, 100);
    expect(await plain.page.locator('tbody th').allInnerTexts()).toEqual(expected.map(({ name }) => name));
    await plain.screenshot('plain-page');

    await plain.page.goto(`${whole()}?page=25`);
    expect(await plain.page.locator('tbody tr').count()).toBe(34);
    expect(await plain.page.getByRole('link', { name: 'Next' }).count()).toBe(0);
    expect(plain.troubles).toEqual([]);
    await plain.leave();
  });

  it('lets the application close while somebody is watching, and tells them', async () => {
    sample.sandbox.latency = 500;
    await visitor.page.goto(whole());
    await visitor.page.getByText('50 of 1,234 exhibitors').waitFor();
    await sample.app.close();
    await visitor.page.getByRole('alert').waitFor();
    await visitor.page.getByRole('button', { name: 'Try again' }).waitFor();
    await until(() => sample.sandbox.openRequests === 0);
  });
});

interface Recorded {
  progressSeen: number[];
}

/** Runs in the page: notes every share of the bar from the start on. */
function recordProgress(): void {
  const seen: number[] = [];
  (globalThis as unknown as Recorded).progressSeen = seen;
  const page = (
    globalThis as unknown as { document: { addEventListener: Function; querySelector: Function } }
  ).document;
  const Observer = (
    globalThis as unknown as { MutationObserver: new (callback: () => void) => { observe: Function } }
  ).MutationObserver;
  page.addEventListener('DOMContentLoaded', () => {
    const bar = page.querySelector('progress');
    seen.push(bar.value / bar.max);
    new Observer(() => seen.push(bar.value / bar.max)).observe(bar, { attributes: true });
  });
}

function share(bar: unknown): number {
  const { value, max } = bar as { value: number; max: number };
  return value / max;
}

/** Waits for what the sandbox learns a moment later; a generous limit, since a test machine may be busy. */
async function until(holds: () => boolean): Promise<void> {
  const limit = Date.now() + 10_000;
  while (!holds()) {
    if (Date.now() > limit) throw new Error(`still not so: ${holds}`);
    await new Promise((resolve) => setTimeout(resolve, 20));
  }
}
