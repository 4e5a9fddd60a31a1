import { afterAll, afterEach, beforeAll, beforeEach, expect, it } from '@jest/globals';
import { BrowserVisitor, describeInChromium } from '../support/browser.js';
import { startSample, type RunningSample } from './running-sample.js';
import { eventually, pause } from '../support/wait.js';

describeInChromium('The list of a whole event in the browser', (browser) => {
  let sample: RunningSample;
  let visitor: BrowserVisitor;
  const progress = () => visitor.page.getByRole('progressbar');
  const whole = () => `${sample.url}/events/world-2026/exhibitors`;
  const listed = () => sample.sandbox.requests.filter(({ operation }) => operation === 'list');

  beforeAll(async () => {
    sample = await startSample();
    visitor = await BrowserVisitor.arrive(browser());
  });
  afterAll(async () => {
    await visitor?.leave();
    await sample?.stop();
  });

  beforeEach(async () => {
    sample.sandbox.signInAs('olga.one');
    visitor = await visitor.next();
    await visitor.page.goto(`${sample.url}/auth/login`);
    sample.sandbox.clearRequests();
  });
  afterEach(async () => {
    sample.sandbox?.clearFaults();
    sample.sandbox.latency = 0;
  });

  it('moves the progress bar forward only, to the end, for 1,234 exhibitors', async () => {
    await visitor.page.addInitScript(RECORD_PROGRESS);
    sample.sandbox.latency = 20;
    await visitor.page.goto(whole());
    await visitor.page.getByText('1,234 of 1,234 exhibitors').waitFor();
    await visitor.page.getByRole('button', { name: 'Load again' }).waitFor();

    const seen = await visitor.page.evaluate<number[]>('progressSeen');
    expect(seen.length).toBeGreaterThanOrEqual(25);
    expect(seen).toEqual(seen.toSorted((a, b) => a - b));
    expect(seen[0]).toBe(0);
    expect(seen.at(-1)).toBe(1);
    expect(await visitor.page.locator('tbody tr').count()).toBe(1234);
    expect(visitor.troubles).toEqual([]);
  });

  it('reads the event once and does not reconnect when it is complete', async () => {
    await visitor.page.addInitScript(RECORD_STREAMS);
    await visitor.page.goto(whole());
    await visitor.page.getByRole('button', { name: 'Load again' }).waitFor();
    expect(await visitor.page.evaluate('streams.map(({ readyState }) => readyState)')).toEqual([CLOSED]);
    // Page 1 for the first response, then all 25.
    expect(listed()).toHaveLength(1 + 25);
  });

  it('stops the requests to the service when the tab is closed midway', async () => {
    // On a busy machine the browser takes seconds to close a page.
    sample.sandbox.latency = 1_500;
    await visitor.page.goto(whole());
    await visitor.page.getByText(MIDWAY).waitFor();
    await visitor.page.close();

    await eventually(() => listed().some(({ aborted }) => aborted), 10_000);
    await eventually(() => sample.sandbox.openRequests === 0, 10_000);
    const asked = listed().length;
    // Long enough for pages under way to arrive and for others to be requested, if they were still read.
    await pause(2_000);
    expect(listed()).toHaveLength(asked);
    expect(asked).toBeLessThan(25);
  });

  it('stops on Stop and starts again on Load again', async () => {
    sample.sandbox.latency = 600;
    await visitor.page.goto(whole());
    await visitor.page.getByText(MIDWAY).waitFor();
    await visitor.page.getByRole('button', { name: 'Stop' }).click();
    await eventually(() => sample.sandbox.openRequests === 0, 10_000);
    expect(await progress().evaluate(share)).toBeLessThan(1);

    sample.sandbox.latency = 0;
    await visitor.page.getByRole('button', { name: 'Load again' }).click();
    await visitor.page.getByText('1,234 of 1,234 exhibitors').waitFor();
    expect(await visitor.page.locator('tbody tr').count()).toBe(1234);
    expect(visitor.troubles).toEqual([]);
  });

  it('shows a message when the login has ended in the meantime', async () => {
    await visitor.page.goto(whole());
    const again = visitor.page.getByRole('button', { name: 'Load again' });
    await again.waitFor();
    await visitor.page.context().clearCookies();
    await again.click();
    await visitor.page.getByText('The server rejected the request. Please reload the page.').waitFor();
  });

  it('shows a message when the service fails midway, keeps the rows, and retries on request', async () => {
    sample.sandbox.latency = 400;
    await visitor.page.goto(whole());
    await visitor.page.getByText(MIDWAY).waitFor();
    sample.sandbox.failNext('list', { kind: 'body', body: 'not JSON: internal detail' }, Infinity);

    const alert = visitor.page.getByRole('alert');
    await alert.waitFor();
    expect(await alert.innerText()).toBe(
      'The exhibitor service gave an unexpected answer. The answer could not be processed. ' +
        'Please try again. If the problem persists, contact the organiser.',
    );
    const rows = await visitor.page.locator('tbody tr').count();
    expect(rows).toBeGreaterThanOrEqual(50);
    expect(rows).toBeLessThan(1234);
    await visitor.screenshot('live-failed');

    sample.sandbox.clearFaults();
    sample.sandbox.latency = 0;
    await visitor.page.getByRole('button', { name: 'Try again' }).click();
    await visitor.page.getByText('1,234 of 1,234 exhibitors').waitFor();
    expect(await alert.isVisible()).toBe(false);
    expect(await visitor.page.locator('tbody tr').count()).toBe(1234);
  });

  it('shows an event without exhibitors', async () => {
    await visitor.page.goto(`${sample.url}/events/empty-2026/exhibitors`);
    await visitor.page.getByText('0 of 0 exhibitors').waitFor();
    expect(await progress().evaluate(share)).toBe(1);
    expect(await visitor.text()).toContain('Nobody has registered for this event yet.');
    expect(visitor.troubles).toEqual([]);
  });

  it('shows names as text, with any characters', async () => {
    const name = `<img src=x onerror="document.title='hacked'"> & <script>document.title='hacked'</script>`;
    const record = { id: 'x', name, contactEmails: ['olga.one@example.com'] };
    sample.sandbox.setExhibitors('boutique-2026', [record], 'acme');
    await visitor.page.goto(`${sample.url}/events/boutique-2026/exhibitors`);
    await visitor.page.getByText('1 of 1 exhibitor').waitFor();
    expect(await visitor.page.locator('tbody th').allInnerTexts()).toEqual([name]);
    await visitor.page.goto(`${sample.url}/events/boutique-2026/mine`);
    await visitor.arrivesAt(name);
    expect(await visitor.page.title()).not.toBe('hacked');
    expect(visitor.troubles).toEqual([]);
  });

  it('works as plain pages without scripts', async () => {
    const plain = await BrowserVisitor.arrive(browser(), { javaScriptEnabled: false });
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

  it('closes while a list is being read, and shows that in the page', async () => {
    const closing = await startSample();
    closing.sandbox.signInAs('olga.one');
    closing.sandbox.latency = 600;
    const path = '/events/world-2026/exhibitors';
    await visitor.page.goto(`${closing.url}/auth/login?returnTo=${path}`);
    await visitor.page.getByText(MIDWAY).waitFor();
    await closing.app.close();
    await visitor.page.getByRole('alert').waitFor();
    await visitor.page.getByRole('button', { name: 'Try again' }).waitFor();
    await eventually(() => closing.sandbox.openRequests === 0, 10_000);
    await closing.sandbox.stop();
  });
});

/** The list has started and is not complete. */
const MIDWAY = /^(?!1,234 )[\d,]+ of 1,234 exhibitors/;

/** Runs in the page: records every value of the bar from the start. */
const RECORD_PROGRESS = `
  globalThis.progressSeen = [];
  addEventListener('DOMContentLoaded', () => {
    const bar = document.querySelector('progress');
    const note = () => progressSeen.push(bar.value / bar.max);
    note();
    new MutationObserver(note).observe(bar, { attributes: true });
  });
`;

/** Runs in the page: records every event stream that is opened. */
const RECORD_STREAMS = `
  globalThis.streams = [];
  const { EventSource } = globalThis;
  globalThis.EventSource = class extends EventSource {
    constructor(...args) {
      super(...args);
      streams.push(this);
    }
  };
`;
const CLOSED = 2;

function share(bar: unknown): number {
  const { value, max } = bar as { value: number; max: number };
  return value / max;
}
