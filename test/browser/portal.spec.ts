import { readFileSync } from 'node:fs';
import { createServer, type Server } from 'node:http';
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it } from '@jest/globals';
import { BrowserVisitor, describeInChromium } from '../support/browser.js';
import { nativeRequire } from '../support/native-require.js';
import { startSample, type RunningSample } from './running-sample.js';
import { Visitor } from '../support/visitor.js';
import { eventually, pause } from '../support/wait.js';

describeInChromium('The portal', (browser) => {
  let sample: RunningSample;
  let visitor: BrowserVisitor;

  beforeAll(async () => {
    sample = await startSample();
    visitor = await BrowserVisitor.arrive(browser());
  });
  afterAll(async () => {
    await visitor?.leave();
    await sample?.stop();
  });
  beforeEach(async () => {
    visitor = await visitor.next();
  });
  afterEach(() => {
    sample.sandbox?.clearFaults();
    sample.sandbox.latency = 0;
    sample.sandbox.signInAs(undefined);
  });

  describe('for different people', () => {
    const mine = () => `${sample.url}/events/regional-2026/mine`;

    async function logIn(person: string, path = ''): Promise<void> {
      sample.sandbox.signInAs(person);
      await visitor.page.goto(`${sample.url}/auth/login?returnTo=${encodeURIComponent(`/acme${path}`)}`);
    }

    it('with one exhibitor: shows it', async () => {
      await logIn('olga.one', '/events/regional-2026/mine');
      expect(visitor.page.url()).toBe(mine());
      const own = sample.sandbox
        .exhibitors('regional-2026', 'acme')
        .find(({ contactEmails }) => contactEmails.includes('olga.one@example.com'));
      await visitor.arrivesAt(String(own?.['name']));
      expect(await visitor.text()).not.toContain('Choose another exhibitor');
      expect(visitor.troubles).toEqual([]);
    });

    it('at the other portal: leads to its start page, where the login names no page', async () => {
      sample.sandbox.signInAs('olga.one');
      await visitor.page.goto(`${sample.url}/../globex/auth/login`);
      await visitor.arrivesAt('Where industries meet');
    });

    it('with none: shows a message and a link to all events', async () => {
      await logIn('nora.none', '/events/regional-2026/mine');
      await visitor.arrivesAt('No exhibitor for you at this event');
      expect(await visitor.text()).toContain('Logged in as nora.none@example.com');
      await visitor.screenshot('no-exhibitor');
      await visitor.page.getByRole('link', { name: 'All events' }).click();
      await visitor.arrivesAt('Your booth at every event');
    });

    it('not logged in: asks for a login and returns to the page', async () => {
      const reply = await visitor.page.goto(mine());
      expect(reply?.status()).toBe(401);
      await visitor.arrivesAt('Please log in');
      await visitor.screenshot('please-log-in');
      await visitor.page.getByRole('main').getByRole('link', { name: 'Log in' }).click();
      await visitor.signInAs('Olga One');
      await visitor.page.waitForURL(mine());
    });

    const forEvent = '/auth/login?eventId=regional-2026&returnTo=%2Facme%2Fevents%2Fregional-2026%2Fmine';

    it('may cancel the login, reload, and log in after all for the same event and page', async () => {
      await visitor.page.goto(`${sample.url}${forEvent}`);
      await visitor.page.getByRole('button', { name: 'Cancel' }).click();
      await visitor.arrivesAt('The login was cancelled');
      await visitor.page.reload();
      await visitor.arrivesAt('The login was cancelled');
      await visitor.screenshot('login-cancelled');
      const again = visitor.page.getByRole('main').getByRole('link', { name: 'Log in' });
      expect(await again.getAttribute('href')).toContain('&switch');
      await again.click();
      await visitor.arrivesAt('Sign in');
      await visitor.signInAs('Olga One');
      await visitor.page.waitForURL(mine());
    });

    it('may go back to a finished login, and reload it', async () => {
      let callback = '';
      visitor.page.on('request', (request) => {
        if (new URL(request.url()).pathname === '/acme/auth/callback') {
          callback = request.url();
        }
      });
      sample.sandbox.signInAs('olga.one');
      await visitor.page.goto(`${sample.url}${forEvent}`);
      expect(visitor.page.url()).toBe(mine());
      // A browser that keeps the callback in its history asks for it again.
      await visitor.page.goto(callback);
      await visitor.arrivesAt('You are already logged in');
      await visitor.page.reload();
      await visitor.arrivesAt('You are already logged in');
      await visitor.page.getByRole('link', { name: 'Continue' }).click();
      await visitor.page.waitForURL(mine());
      expect(await visitor.text()).toContain('Logged in as olga.one@example.com');
    });

    it('may come back to the oldest of many tabs', async () => {
      await visitor.page.goto(`${sample.url}${forEvent}`);
      for (let tab = 0; tab < 12; tab++) {
        await visitor.page.request.get(`${sample.url}/auth/login`, { maxRedirects: 0 });
      }
      await visitor.signInAs('Olga One');
      await visitor.arrivesAt('This login is no longer valid');
      sample.sandbox.signInAs('olga.one');
      await visitor.page.getByRole('main').getByRole('link', { name: 'Log in' }).click();
      await visitor.arrivesAt('Your booth at every event');
      expect(await visitor.text()).toContain('Logged in as olga.one@example.com');
    });

    it.each([
      ['uma.unverified', 'Your e-mail address is not confirmed'],
      ['mo.mailless', 'Your account has no e-mail address'],
    ])('%s: shows what is missing', async (person, heading) => {
      await logIn(person);
      await visitor.arrivesAt(heading);
    });

    it('may log in as another person after the logout, which ends the session of the provider too', async () => {
      await visitor.page.goto(`${sample.url}/auth/login`);
      await visitor.signInAs('Sam Several');
      await visitor.page.getByRole('button', { name: 'Log out' }).click();
      await visitor.page.getByRole('link', { name: 'Log in' }).click();
      await visitor.arrivesAt('Sign in');
      await visitor.signInAs('Olga One');
      await visitor.page.getByText('Logged in as olga.one@example.com').waitFor();
      expect(visitor.troubles).toEqual([]);
    });

    it('may log in as another person without a logout', async () => {
      await visitor.page.goto(`${sample.url}/auth/login`);
      await visitor.signInAs('Sam Several');
      // The provider knows who it is: a new login is silently the same person.
      await visitor.page.goto(`${sample.url}/auth/login`);
      await visitor.page.getByText('Logged in as sam.several@example.com').waitFor();
      await visitor.page.getByRole('link', { name: 'Switch account' }).click();
      await visitor.arrivesAt('Sign in');
      await visitor.signInAs('Olga One');
      await visitor.page.getByText('Logged in as olga.one@example.com').waitFor();
      expect(visitor.troubles).toEqual([]);
    });

    it('may change the selected exhibitor', async () => {
      await logIn('sam.several', '/events/regional-2026/mine');
      const choices = visitor.page.getByRole('main').getByRole('button');
      const [first = '', second = ''] = await choices.locator('strong').allInnerTexts();
      await choices.first().click();
      await visitor.arrivesAt(first);
      await visitor.page.getByRole('link', { name: 'Choose another exhibitor' }).click();
      await choices.nth(1).click();
      await visitor.arrivesAt(second);
      expect(visitor.troubles).toEqual([]);
    });

    it('as an administrator: ends every login of another person, and nobody else may', async () => {
      const stolen = new Visitor();
      // Nobody who logs in again within the second, which ends such a login too.
      sample.sandbox.signInAs('zoe.fair');
      await stolen.follow(`${sample.url}/auth/login`, ({ pathname }) => pathname === '/acme');
      const people = `${sample.url}/people`;
      expect((await stolen.visit(people)).status).toBe(403);
      await logIn('olga.one');
      await visitor.page.getByRole('link', { name: 'People who have logged in' }).click();
      await visitor.page.getByRole('button', { name: 'zoë+fair@example.com' }).click();
      await visitor.arrivesAt('People');
      expect((await stolen.visit(people)).status).toBe(401);
      expect(visitor.troubles).toEqual([]);
    });

    it('cannot select an exhibitor of another person', async () => {
      await logIn('sam.several', '/events/regional-2026/mine');
      const [other] = sample.sandbox
        .exhibitors('regional-2026', 'acme')
        .filter(({ contactEmails }) => !contactEmails.includes('sam.several@example.com'));
      const button = visitor.page.getByRole('main').getByRole('button').first();
      await button.evaluate((element, id) => {
        (element as unknown as { value: string }).value = id;
      }, other?.id ?? '');
      await button.click();
      await visitor.arrivesAt('That request is not quite right');
      await visitor.page.goto(mine());
      await visitor.arrivesAt('Choose your exhibitor');
    });

    it('sees that the service fails, without internal details, and may try again', async () => {
      await logIn('olga.one');
      sample.sandbox.failNext(
        'lookup',
        { kind: 'status', status: 500, body: 'stack trace of the service' },
        Infinity,
      );
      const reply = await visitor.page.goto(`${sample.url}/events/national-2026/mine`);
      expect(reply?.status()).toBe(503);
      await visitor.arrivesAt('The exhibitor service is not available');
      expect(await visitor.page.content()).not.toMatch(/stack trace|127\.0\.0\.1|\/api\/v1|Error:/);
      await visitor.screenshot('service-failing');
      sample.sandbox.clearFaults();
      await visitor.page.getByRole('link', { name: 'Try again' }).click();
      await visitor.page.getByText('Your exhibitor at National Building Show 2026.').waitFor();
    });

    it('answers unknown and invalid addresses with a page', async () => {
      await logIn('olga.one');
      const shown = async (path: string) => {
        const reply = await visitor.page.goto(`${sample.url}${path}`);
        return `${reply?.status()} ${await visitor.page.getByRole('heading', { level: 1 }).innerText()}`;
      };
      for (const path of [
        '/nowhere',
        '/../unknown',
        '/events/unheard-of/exhibitors',
        '/events/unheard-of/mine',
        '/auth/login?eventId=unheard-of',
        '/../globex/events/boutique-2026/mine',
      ]) {
        expect(`${path} ${await shown(path)}`).toBe(`${path} 404 There is nothing here`);
      }
      expect(await shown('/events/world-2026/exhibitors?page=none')).toBe(
        '400 That request is not quite right',
      );
      expect(await shown('/events/world-2026/exhibitors?page=0')).toBe('400 That request is not quite right');
      expect(await shown('/events/%ff/mine')).toBe('400 That request is not quite right');
    });

    it('opens the start page while the service fails', async () => {
      const broken = await startSample();
      broken.sandbox.failNext('list', { kind: 'status', status: 403 }, Infinity);
      await visitor.page.goto(broken.url);
      expect(await visitor.page.getByText('Size not known right now').count()).toBe(5);
      await broken.stop();
    });

    describe('requests of other sites', () => {
      // An exhibitor that Sam may select, so that only the origin of the request can be the reason of a refusal.
      const own = () =>
        sample.sandbox
          .exhibitors('regional-2026', 'acme')
          .find(({ contactEmails }) => contactEmails.includes('sam.several@example.com'))?.id ?? '';
      let elsewhere: Server;
      let attack: string;

      beforeAll(async () => {
        elsewhere = createServer((request, response) => {
          const { searchParams } = new URL(request.url ?? '/', 'http://localhost');
          const [action, id] = [searchParams.get('action'), searchParams.get('id')];
          response.setHeader('content-type', 'text/html');
          response.end(
            `<form method="post" action="${action}"><button name="exhibitorId" value="${id}">Win</button></form>`,
          );
        });
        await new Promise<void>((resolve) => {
          elsewhere.listen(0, resolve);
        });
        const address = elsewhere.address();
        // To a browser, `localhost` and 127.0.0.1 are different sites.
        attack = `http://localhost:${typeof address === 'object' ? address?.port : ''}/`;
      });
      afterAll(async () => {
        await new Promise((resolve) => {
          elsewhere?.close(resolve);
        });
      });

      it.each(['/auth/logout', '/events/regional-2026/mine/select'])(
        'cause neither a logout nor a selection by a link to %s',
        async (path) => {
          await logIn('sam.several');
          const reply = await visitor.page.goto(`${sample.url}${path}?exhibitorId=${own()}`);
          expect(reply?.status()).toBe(404);
          await visitor.page.goto(mine());
          expect(await visitor.text()).toContain('Logged in as sam.several@example.com');
          await visitor.arrivesAt('Choose your exhibitor');
        },
      );

      it.each(['/auth/logout', '/events/regional-2026/mine/select'])(
        'cause neither a logout nor a selection by a form that posts to %s',
        async (path) => {
          await logIn('sam.several');
          await visitor.page.goto(
            `${attack}?${new URLSearchParams({ action: `${sample.url}${path}`, id: own() })}`,
          );
          const reply = visitor.page.waitForResponse((response) => response.url() === `${sample.url}${path}`);
          await visitor.page.getByRole('button', { name: 'Win' }).click();
          expect([400, 401, 403]).toContain((await reply).status());
          await visitor.page.goto(mine());
          expect(await visitor.text()).toContain('Logged in as sam.several@example.com');
          await visitor.arrivesAt('Choose your exhibitor');
        },
      );
    });
  });

  describe('shows the list of a whole event and', () => {
    const progress = () => visitor.page.getByRole('progressbar');
    const whole = () => `${sample.url}/events/world-2026/exhibitors`;
    const listed = () => sample.sandbox.requests.filter(({ operation }) => operation === 'list');

    beforeEach(async () => {
      sample.sandbox.signInAs('olga.one');
      await visitor.page.goto(`${sample.url}/auth/login`);
      sample.sandbox.clearRequests();
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

    it('shows an event without exhibitors, and a page beyond the last', async () => {
      await visitor.page.goto(`${sample.url}/events/empty-2026/exhibitors`);
      expect(await visitor.text()).toContain('Nobody has registered for this event yet.');
      expect(await visitor.page.getByRole('searchbox').count()).toBe(0);
      expect(await progress().count()).toBe(0);
      await visitor.page.goto(`${whole()}?page=999`);
      expect(await visitor.text()).toContain(
        'There is no page 999: the list of 1,234 exhibitors has 25 pages.',
      );
      await visitor.page.getByRole('link', { name: 'Last page' }).click();
      await visitor.page.getByText('page 25 of 25').waitFor();
      expect(visitor.troubles).toEqual([]);
    });

    it('finds exhibitors by words in any column', async () => {
      await visitor.page.goto(`${whole()}?page=1`);
      await visitor.page.getByRole('searchbox').fill('ZENITH hall');
      await visitor.page.getByRole('button', { name: 'Search' }).click();
      await visitor.page.getByText('31 exhibitors for “ZENITH hall”').waitFor();
      const names = sample.sandbox.exhibitors('world-2026', 'acme').map(({ name }) => String(name));
      const zeniths = names.filter((name) => name.startsWith('Zenith'));
      expect(await visitor.page.locator('tbody th').allInnerTexts()).toEqual(zeniths);

      await visitor.page.getByRole('searchbox').fill('"><b>none');
      await visitor.page.keyboard.press('Enter');
      await visitor.page.getByText('No exhibitor has “"><b>none”').waitFor();
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
      await plain.page.goto(`${sample.url}/auth/login?returnTo=/acme/events/world-2026/exhibitors`);
      expect(await plain.text()).toContain('1,234 exhibitors, page 1 of 25');
      expect(await plain.page.getByRole('progressbar').count()).toBe(0);
      await plain.page.getByRole('link', { name: 'Next' }).click();
      expect(await plain.text()).toContain('page 2 of 25');
      const expected = sample.sandbox.exhibitors('world-2026', 'acme').slice(50, 100);
      expect(await plain.page.locator('tbody th').allInnerTexts()).toEqual(expected.map(({ name }) => name));
      await plain.screenshot('plain-page');

      await plain.page.getByRole('button', { name: '500', exact: true }).click();
      expect(await plain.text()).toContain('The module tried three times and got the answer.');
      expect(await plain.text()).toContain('page 2 of 25');
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
      const path = '/acme/events/world-2026/exhibitors';
      await visitor.page.goto(`${closing.url}/auth/login?returnTo=${path}`);
      await visitor.page.getByText(MIDWAY).waitFor();
      await closing.app.close();
      await visitor.page.getByRole('alert').waitFor();
      await visitor.page.getByRole('button', { name: 'Try again' }).waitFor();
      await eventually(() => closing.sandbox.openRequests === 0, 10_000);
      await closing.sandbox.stop();
    });
  });

  it('is the same on Fastify', async () => {
    const fastify = await startSample('fastify');
    await visitor.page.goto(`${fastify.url}/events/regional-2026/mine`);
    await visitor.arrivesAt('Please log in');
    await visitor.page.getByRole('main').getByRole('link', { name: 'Log in' }).click();
    await visitor.signInAs('Sam Several');
    await visitor.arrivesAt('Choose your exhibitor');
    await visitor.page.getByRole('main').getByRole('button').nth(2).click();
    await visitor.page.getByText('acme-regional-2026-').waitFor();
    await visitor.page.getByRole('button', { name: '500', exact: true }).click();
    await visitor.page.getByText('The module tried three times and got the answer.').waitFor();
    await visitor.page.getByRole('link', { name: 'All exhibitors' }).click();
    await visitor.page.getByText('50 of 50 exhibitors').waitFor();
    expect((await visitor.page.goto(`${fastify.url}/events/%ff/mine`))?.status()).toBe(404);
    await visitor.page.goto(fastify.url);
    await visitor.page.getByRole('button', { name: 'Log out' }).click();
    await visitor.page.getByRole('link', { name: 'Log in' }).waitFor();
    await fastify.stop();
  });

  describe('has a panel that', () => {
    const panel = () => visitor.page.getByRole('complementary', { name: 'What to try' });
    const press = async (fault: string) => {
      await panel().getByRole('button', { name: fault, exact: true }).click();
      await visitor.page.waitForLoadState();
    };

    beforeEach(async () => {
      sample.sandbox.signInAs('olga.one');
      const mine = encodeURIComponent('/acme/events/national-2026/mine');
      await visitor.page.goto(`${sample.url}/auth/login?returnTo=${mine}`);
    });

    it('shows the code of the page as it is in the file, and its requests', async () => {
      await panel().getByText('The code behind it').click();
      const file = new URL('../../sample/booth/booth.controller.ts', import.meta.url);
      const [head = '', method = ''] = (await panel().getByLabel('Code').innerText()).split('  // …');
      expect(method).toContain('@CurrentExhibitor() exhibitor: Booth');
      expect(readFileSync(file, 'utf8')).toContain(head.trimEnd());
      expect(readFileSync(file, 'utf8')).toContain(method.trimEnd());
      // The login and the page that it led to.
      const requests = (await panel().getByRole('listitem').allInnerTexts()).join();
      expect(requests).toMatch(/login started.*code \/connect\/token 200.*contactEmail\} 200.*lookups miss/s);
      expect(requests).not.toContain('olga');

      await visitor.page.goto(`${sample.url}/events/national-2026/exhibitors`);
      await panel().getByText('200 × 7').waitFor();
    });

    it('stays folded on the next page, by the keyboard', async () => {
      await visitor.page.getByText('What to try').focus();
      await visitor.page.keyboard.press('Enter');
      await panel().getByText('Requests to the service').waitFor({ state: 'hidden' });
      await visitor.page.reload();
      expect(await panel().getByText('Requests to the service').isVisible()).toBe(false);
    });

    it('causes faults, and the page tells what the module did', async () => {
      const told: Record<string, string> = {};
      for (const fault of ['500', 'Reset', 'Revoked tokens', 'Provider down', 'Service down']) {
        await press(fault);
        told[fault] = await visitor.page.getByRole('main').getByRole('status').innerText();
      }
      expect(told).toEqual({
        500: 'The reply was 500 twice. The module tried three times and got the answer.',
        Reset: 'A reply broke off, or took longer than 2 s. The module tried twice and got the answer.',
        'Revoked tokens':
          'The service refused the access token (401). The module renewed it and sent the request again.',
        'Provider down': 'The access token in memory is valid, so that the provider was not needed.',
        'Service down': 'Your exhibitors were served from the cache, without a request.',
      });
      await press('Remove the fault');
      expect(await visitor.page.getByRole('main').getByRole('status').innerText()).toBe('');
      expect(visitor.troubles).toEqual([]);
    });

    it('shows on the closed panel which fault is on, as the sandbox says, at 390 pixels too', async () => {
      const { page } = visitor;
      const summary = panel().locator('summary').first();
      await press('Service down');
      await summary.click();
      await page.setViewportSize({ width: 390, height: 800 });
      await page.reload();
      expect(await panel().getByText('Faults of the service').isVisible()).toBe(false);
      expect(await summary.innerText()).toBe('What to try Fault on: Service down');
      sample.sandbox.clearFaults();
      await page.reload();
      expect(await summary.innerText()).toBe('What to try');
      sample.sandbox.failNext('lookup', { kind: 'status', status: 418 });
      await page.reload();
      expect(await summary.innerText()).toBe('What to try Fault on: other');
      await summary.click();
      await press('500');
      await page.reload();
      expect(await summary.innerText()).toBe('What to try');
      await page.setViewportSize({ width: 1100, height: 760 });
    });

    it('tells in the colour of an alert that the module gave up', async () => {
      const banner = visitor.page.getByRole('main').getByRole('status');
      const colour = () =>
        visitor.page.evaluate(`getComputedStyle(document.querySelector('.tour-banner')).borderLeftColor`);
      await press('500');
      const ofHelp = await colour();
      await press('Service down');
      await visitor.page.goto(`${sample.url}/events/national-2026/exhibitors?page=1`);
      await visitor.arrivesAt('The exhibitor service is not available');
      expect(await banner.innerText()).toContain('gave up');
      expect(await visitor.text()).not.toContain('No data was lost');
      expect(await colour()).not.toBe(ofHelp);
      expect(await colour()).toBe('rgb(163, 35, 26)');
    });

    it.each([1280, 390])(
      '%i pixels wide, breaks no word of its code, and does not scroll by itself',
      async (width) => {
        const { page } = visitor;
        await page.setViewportSize({ width, height: 600 });
        for (const path of ['', '/events/national-2026/mine', '/events/national-2026/exhibitors?page=1']) {
          await page.goto(`${sample.url}${path}`);
          if (!(await panel().getByText('The code behind it').isVisible())) {
            await panel().locator('summary').first().click();
          }
          await panel().getByText('The code behind it').click();
          expect([path, await page.evaluate(BROKEN_WORDS)]).toEqual([path, []]);
          expect([path, await page.evaluate(SCROLLED)]).toEqual([path, 0]);
        }
        await page.setViewportSize({ width: 1100, height: 760 });
      },
    );

    it('leads to a second tenant, where a login ends that of the first', async () => {
      await panel().getByRole('link', { name: 'Globex Expo' }).click();
      await visitor.arrivesAt('Where industries meet');
      expect(await visitor.text()).not.toContain('Logged in as');
      await visitor.page.getByRole('link', { name: 'My booth at Regional Craft Fair 2026' }).click();
      await visitor.page.getByText('globex-regional-2026-').waitFor();
      await visitor.page.goto(sample.url);
      expect(await visitor.text()).not.toContain('Logged in as');
      expect(visitor.troubles).toEqual([]);
    });

    // The last test, since the page stays narrow.
    it('passes axe and fits, as its pages do, wide and narrow, light and dark', async () => {
      const { page } = visitor;
      const axe = readFileSync(nativeRequire.resolve('axe-core/axe.min.js'), 'utf8');
      const problems = 'violations.map(({ id, nodes }) => id + ": " + nodes[0].html)';
      for (const path of ['', '/events/national-2026/mine', '/events/boutique-2026/exhibitors']) {
        await page.goto(`${sample.url}${path}`);
        await page.evaluate(axe);
        for (const [width, colorScheme] of [
          [1280, 'light'],
          [390, 'dark'],
        ] as const) {
          await page.setViewportSize({ width, height: 900 });
          await page.emulateMedia({ colorScheme });
          await visitor.screenshot(`portal${path.replaceAll('/', '-')}-${width}-${colorScheme}`);
          expect(await page.evaluate('document.documentElement.scrollWidth')).toBeLessThanOrEqual(width);
          expect(await page.evaluate(`axe.run().then(({ violations }) => ${problems})`)).toEqual([]);
          expect((await page.getByRole('banner').boundingBox())?.height).toBeLessThan(80);
        }
      }
    });
  });
});

/** The list has started and is not complete. */
const MIDWAY = /^(?!1,234 )[\d,]+ of 1,234 exhibitors/;

/** Runs in the page: the words of its code that a line break splits. */
const BROKEN_WORDS = `(() => {
  const broken = [];
  const texts = document.createTreeWalker(document.querySelector('.tour-code pre'), NodeFilter.SHOW_TEXT);
  for (let node = texts.nextNode(); node; node = texts.nextNode()) {
    for (const { index, 0: word } of node.data.matchAll(/\\w+/g)) {
      const range = document.createRange();
      range.setStart(node, index);
      range.setEnd(node, index + word.length);
      if (new Set(Array.from(range.getClientRects(), ({ top }) => top)).size > 1) broken.push(word);
    }
  }
  return broken;
})()`;

/** Runs in the page: how many parts of the panel have a scroll bar of their own. */
const SCROLLED = `Array.from(document.querySelectorAll('.tour, .tour *')).filter((part) =>
  part.scrollHeight > part.clientHeight + 1 && !['visible', 'clip'].includes(getComputedStyle(part).overflowY)).length`;

/** Runs in the page: records every value of the bar from the start. */
const RECORD_PROGRESS = `
  globalThis.progressSeen = [];
  addEventListener('DOMContentLoaded', () => {
    const bar = document.querySelector('progress');
    // The script stays in the page, also for later tests.
    if (bar === null) return;
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
