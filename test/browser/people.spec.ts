import { createServer, type Server } from 'node:http';
import { afterAll, afterEach, beforeAll, beforeEach, expect, it } from '@jest/globals';
import { describeInChromium } from './chromium.js';
import { startSample, type RunningSample } from './running-sample.js';
import { Visitor } from './visitor.js';

describeInChromium('What different people meet in the portal', (browser) => {
  let sample: RunningSample;
  let visitor: Visitor;
  const mine = () => `${sample.url}/events/regional-2026/mine`;

  beforeAll(async () => {
    sample = await startSample();
  });
  afterAll(() => sample.stop());
  beforeEach(async () => {
    visitor = await Visitor.arrive(browser());
  });
  afterEach(async () => {
    sample.sandbox.clearFaults();
    sample.sandbox.signInAs(undefined);
    await visitor.leave();
  });

  async function logIn(person: string, path = '/'): Promise<void> {
    sample.sandbox.signInAs(person);
    await visitor.page.goto(`${sample.url}/auth/login?returnTo=${encodeURIComponent(path)}`);
  }

  it('with one exhibitor: goes straight to it', async () => {
    await logIn('olga.one', '/events/regional-2026/mine');
    expect(visitor.page.url()).toBe(mine());
    const own = sample.sandbox
      .exhibitors('regional-2026', 'acme')
      .find(({ contactEmails }) => contactEmails.includes('olga.one@example.com'));
    expect(await visitor.heading()).toBe(own?.['name']);
    expect(await visitor.text()).not.toContain('Choose another exhibitor');
    expect(visitor.troubles).toEqual([]);
  });

  it('with none: says so, kindly, and leads on', async () => {
    await logIn('nora.none', '/events/regional-2026/mine');
    expect(await visitor.heading()).toBe('No exhibitor for you at this event');
    expect(await visitor.text()).toContain('You are logged in as nora.none@example.com.');
    await visitor.screenshot('no-exhibitor');
    await visitor.page.getByRole('link', { name: 'All events' }).click();
    expect(await visitor.heading()).toBe('Your booth at every event');
  });

  it('not logged in: asks to, and comes back to the page', async () => {
    const reply = await visitor.page.goto(mine());
    expect(reply?.status()).toBe(401);
    expect(await visitor.heading()).toBe('Please log in');
    await visitor.screenshot('please-log-in');
    await visitor.page.getByRole('main').getByRole('link', { name: 'Log in' }).click();
    await visitor.signInAs('Olga One');
    expect(visitor.page.url()).toBe(mine());
  });

  it('may cancel the login', async () => {
    await visitor.page.goto(`${sample.url}/auth/login`);
    await visitor.page.getByRole('button', { name: 'Cancel' }).click();
    expect(await visitor.heading()).toBe('The login was cancelled');
    await visitor.page.getByRole('main').getByRole('link', { name: 'Log in' }).click();
    expect(await visitor.heading()).toBe('Sign in');
  });

  it.each([
    ['uma.unverified', 'Your e-mail address is not confirmed'],
    ['mo.mailless', 'Your account has no e-mail address'],
  ])('%s: is told what is missing', async (person, heading) => {
    await logIn(person);
    expect(await visitor.heading()).toBe(heading);
  });

  it('may log in as somebody else after the logout', async () => {
    await visitor.page.goto(`${sample.url}/auth/login`);
    await visitor.signInAs('Sam Several');
    await visitor.page.getByRole('button', { name: 'Log out' }).click();
    await visitor.page.getByRole('link', { name: 'Log in' }).click();
    await visitor.signInAs('Olga One');
    expect(await visitor.text()).toContain('Logged in as olga.one@example.com');
  });

  it('may change the choice of an exhibitor', async () => {
    await logIn('sam.several', '/events/regional-2026/mine');
    const choices = visitor.page.getByRole('main').getByRole('button');
    const [first = '', second = ''] = await choices.locator('strong').allInnerTexts();
    await choices.first().click();
    expect(await visitor.heading()).toBe(first);
    await visitor.page.getByRole('link', { name: 'Choose another exhibitor' }).click();
    await choices.nth(1).click();
    expect(await visitor.heading()).toBe(second);
    expect(visitor.troubles).toEqual([]);
  });

  it('cannot choose an exhibitor of somebody else', async () => {
    await logIn('sam.several', '/events/regional-2026/mine');
    const [other] = sample.sandbox
      .exhibitors('regional-2026', 'acme')
      .filter(({ contactEmails }) => !contactEmails.includes('sam.several@example.com'));
    const button = visitor.page.getByRole('main').getByRole('button').first();
    await button.evaluate((element, id) => {
      (element as unknown as { value: string }).value = id;
    }, other?.id ?? '');
    await button.click();
    expect(await visitor.heading()).toBe('That request is not quite right');
    await visitor.page.goto(mine());
    expect(await visitor.heading()).toBe('Choose your exhibitor');
  });

  it('reads that the service is failing, without its innards, and may try again', async () => {
    await logIn('olga.one');
    sample.sandbox.failNext(
      'lookup',
      { kind: 'status', status: 500, body: 'stack trace of the service' },
      Infinity,
    );
    const reply = await visitor.page.goto(`${sample.url}/events/national-2026/mine`);
    expect(reply?.status()).toBe(503);
    expect(await visitor.heading()).toBe('The exhibitor service is not available');
    expect(await visitor.page.content()).not.toMatch(/stack trace|127\.0\.0\.1|\/api\/v1|Error:/);
    await visitor.screenshot('service-failing');
    sample.sandbox.clearFaults();
    await visitor.page.getByRole('link', { name: 'Try again' }).click();
    expect(await visitor.text()).toContain('Your exhibitor at National Building Show 2026.');
  });

  it.each([
    ['/nowhere', 404, 'There is nothing here'],
    ['/events/unheard-of/exhibitors', 404, 'There is nothing here'],
    ['/events/world-2026/exhibitors?page=none', 400, 'That request is not quite right'],
    ['/events/world-2026/exhibitors?page=0', 400, 'That request is not quite right'],
  ])('%s: answers %i as a page', async (path, status, heading) => {
    await logIn('olga.one');
    const reply = await visitor.page.goto(`${sample.url}${path}`);
    expect(reply?.status()).toBe(status);
    expect(await visitor.heading()).toBe(heading);
  });

  it('opens the start page even while the service fails', async () => {
    const broken = await startSample();
    broken.sandbox.failNext('list', { kind: 'status', status: 403 }, Infinity);
    await visitor.page.goto(broken.url);
    expect(await visitor.page.getByText('Size not known right now').count()).toBe(5);
    await broken.stop();
  });

  describeCrossSite();

  function describeCrossSite(): void {
    let elsewhere: Server;
    let attack: string;

    beforeAll(async () => {
      elsewhere = createServer((request, response) => {
        const action = new URL(request.url ?? '/', 'http://localhost').searchParams.get('action') ?? '';
        response.setHeader('content-type', 'text/html');
        response.end(
          `<form method="post" action="${action}"><button name="exhibitorId" value="x">Win</button></form>`,
        );
      });
      await new Promise<void>((resolve) => {
        elsewhere.listen(0, resolve);
      });
      const address = elsewhere.address();
      // For a browser `localhost` is another site than 127.0.0.1.
      attack = `http://localhost:${typeof address === 'object' ? address?.port : ''}/?action=`;
    });
    afterAll(async () => {
      await new Promise((resolve) => {
        elsewhere.close(resolve);
      });
    });

    it.each(['/auth/logout', '/events/regional-2026/mine/select'])(
      'is neither logged out nor given a choice by a link to %s',
      async (path) => {
        await logIn('sam.several');
        const reply = await visitor.page.goto(`${sample.url}${path}?exhibitorId=x`);
        expect(reply?.status()).toBe(404);
        await visitor.page.goto(mine());
        expect(await visitor.text()).toContain('Logged in as sam.several@example.com');
        expect(await visitor.heading()).toBe('Choose your exhibitor');
      },
    );

    it.each(['/auth/logout', '/events/regional-2026/mine/select'])(
      'is neither logged out nor given a choice by a form on another site that posts to %s',
      async (path) => {
        await logIn('sam.several');
        await visitor.page.goto(`${attack}${encodeURIComponent(`${sample.url}${path}`)}`);
        const reply = visitor.page.waitForResponse((response) => response.url() === `${sample.url}${path}`);
        await visitor.page.getByRole('button', { name: 'Win' }).click();
        expect([400, 401, 403]).toContain((await reply).status());
        await visitor.page.goto(mine());
        expect(await visitor.text()).toContain('Logged in as sam.several@example.com');
        expect(await visitor.heading()).toBe('Choose your exhibitor');
      },
    );
  }
});
