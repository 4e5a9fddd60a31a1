import { createServer, type Server } from 'node:http';
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it } from '@jest/globals';
import { BrowserVisitor, describeInChromium } from '../support/browser.js';
import { startSample, type RunningSample } from './running-sample.js';

describeInChromium('The portal for different people', (browser) => {
  let sample: RunningSample;
  let visitor: BrowserVisitor;
  const mine = () => `${sample.url}/events/regional-2026/mine`;

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
  afterEach(async () => {
    sample.sandbox?.clearFaults();
    sample.sandbox.signInAs(undefined);
  });

  async function logIn(person: string, path = '/'): Promise<void> {
    sample.sandbox.signInAs(person);
    await visitor.page.goto(`${sample.url}/auth/login?returnTo=${encodeURIComponent(path)}`);
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

  const forEvent = '/auth/login?eventId=regional-2026&returnTo=%2Fevents%2Fregional-2026%2Fmine';

  it('may cancel the login, reload, and log in after all for the same event and page', async () => {
    await visitor.page.goto(`${sample.url}${forEvent}`);
    await visitor.page.getByRole('button', { name: 'Cancel' }).click();
    await visitor.arrivesAt('The login was cancelled');
    await visitor.page.reload();
    await visitor.arrivesAt('The login was cancelled');
    await visitor.screenshot('login-cancelled');
    await visitor.page.getByRole('main').getByRole('link', { name: 'Log in' }).click();
    await visitor.arrivesAt('Sign in');
    await visitor.signInAs('Olga One');
    await visitor.page.waitForURL(mine());
  });

  it('may go back to a finished login, and reload it', async () => {
    let callback = '';
    visitor.page.on('request', (request) => {
      if (new URL(request.url()).pathname === '/auth/callback') {
        callback = request.url();
      }
    });
    await logIn('olga.one', '/events/regional-2026/mine');
    expect(visitor.page.url()).toBe(mine());
    // A browser that keeps the callback in its history asks for it again.
    await visitor.page.goto(callback);
    await visitor.arrivesAt('You are already logged in');
    await visitor.page.reload();
    await visitor.arrivesAt('You are already logged in');
    await visitor.page.goBack();
    expect(visitor.page.url()).toBe(mine());
    expect(await visitor.text()).toContain('Logged in as olga.one@example.com');
  });

  it('may come back to the oldest of many tabs', async () => {
    await visitor.page.goto(`${sample.url}${forEvent}`);
    for (let tab = 0; tab < 6; tab++) {
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
      return `${reply?.status()} ${await visitor.page.getByRole('heading').innerText()}`;
    };
    expect(await shown('/nowhere')).toBe('404 There is nothing here');
    expect(await shown('/events/unheard-of/exhibitors')).toBe('404 There is nothing here');
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
