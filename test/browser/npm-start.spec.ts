import { afterAll, beforeAll, describe, expect, it } from '@jest/globals';
import { defaultSeed, type ExhibitorSandbox, type SandboxExhibitor } from 'nestjs-exhibitor/testing';
import { portOf } from '../../sample/ports.js';
import { BrowserVisitor, describeInChromium } from '../support/browser.js';
import { runPlainHost, type Ended } from './plain-host.js';
import { ProjectCopy, type StartedProcess } from './project-copy.js';
import { COOKIE_SECRET } from '../support/host.js';
import { freePort, isFree } from '../support/server.js';
import { startSandbox } from '../support/sandbox.js';

const WORLD = defaultSeed().exhibitors['acme']?.['world-2026'] ?? [];
const SAMS = WORLD.filter(({ contactEmails }) => contactEmails.includes('sam.several@example.com'));

const START = ['sample/dist/start.js'];

let project: ProjectCopy;
let ports: { PORT: string; SANDBOX_PORT: string };
let url: string;
let npm: StartedProcess;

beforeAll(async () => {
  project = await ProjectCopy.create();
  ports = { PORT: String(await freePort()), SANDBOX_PORT: String(await freePort()) };
  url = `http://127.0.0.1:${ports.PORT}`;
  npm = project.run('npm', ['start'], ports);
  await npm.printed(`Sample ready at ${url}\n`);
}, 120_000);
afterAll(() => project?.remove());

describeInChromium('From the start page to logout', (browser) => {
  let visitor: BrowserVisitor;
  const [, chosen = noExhibitor()] = SAMS;

  beforeAll(async () => {
    visitor = await BrowserVisitor.arrive(browser());
  });
  afterAll(() => visitor?.leave());

  it('shows the five events and their sizes', async () => {
    await visitor.page.goto(url);
    expect(await visitor.page.title()).toBe('Trade events · Acme Fairs');
    await visitor.arrivesAt('Your booth at every event');
    const cards = await visitor.page.getByRole('main').getByRole('listitem').allInnerTexts();
    expect(cards.map((card) => card.replace(/\s+/g, ' '))).toEqual([
      'World Industry Expo 2026 Hanover · 20–24 April 2026 1,234 exhibitors My booth All exhibitors',
      'National Building Show 2026 Birmingham · 9–11 June 2026 251 exhibitors My booth All exhibitors',
      'Regional Craft Fair 2026 Graz · 3–5 July 2026 50 exhibitors My booth All exhibitors',
      'Boutique Design Days 2026 Copenhagen · 17–18 Sept 2026 7 exhibitors My booth All exhibitors',
      'Empty Hall Preview 2026 Rotterdam · 12 November 2026 No exhibitors yet My booth All exhibitors',
    ]);
    expect(await visitor.text()).not.toContain('Logged in as');
    await visitor.screenshot('1-start');
  });

  it('redirects to the identity provider for the login', async () => {
    await visitor.page.getByRole('link', { name: 'My booth at World Industry Expo 2026' }).click();
    await visitor.arrivesAt('Sign in');
    expect(new URL(visitor.page.url()).port).toBe(ports.SANDBOX_PORT);
    await visitor.screenshot('2-sign-in');
  });

  it('asks a person with several exhibitors to choose one', async () => {
    await visitor.signInAs('Sam Several');
    await visitor.arrivesAt('Choose your exhibitor');
    expect(await visitor.text()).toContain('belongs to 3 exhibitors of World Industry Expo 2026');
    const choices = await visitor.page.getByRole('main').getByRole('button').allInnerTexts();
    expect(choices.map((choice) => choice.split('\n')[0])).toEqual(SAMS.map(({ name }) => name));
    await visitor.screenshot('3-choose');
  });

  it('shows the chosen exhibitor', async () => {
    await visitor.page.getByRole('button', { name: String(chosen['name']) }).click();
    await visitor.arrivesAt(String(chosen['name']));
    expect(visitor.page.url()).toBe(`${url}/acme/events/world-2026/mine`);
    const text = await visitor.text();
    expect(text).toContain('Logged in as sam.several@example.com');
    for (const field of ['hall', 'booth', 'country', 'id']) {
      expect(text).toContain(String(chosen[field]));
    }
    await visitor.screenshot('4-exhibitor');
  });

  it('shows all 1,234 exhibitors of the event in order', async () => {
    await visitor.page.getByRole('link', { name: 'All exhibitors' }).click();
    await visitor.arrivesAt('All exhibitors');
    await visitor.page.getByText('1,234 of 1,234 exhibitors').waitFor();
    expect(await visitor.page.getByRole('progressbar').evaluate(share)).toBe(1);
    const names = await visitor.page.locator('tbody th').allInnerTexts();
    expect(names).toEqual(WORLD.map(({ name }) => name));
    await visitor.screenshot('5-all-exhibitors');
  });

  it('remembers the selection', async () => {
    await visitor.page.goto(`${url}/acme/events/world-2026/mine`);
    await visitor.arrivesAt(String(chosen['name']));
  });

  it('logs out', async () => {
    await visitor.page.getByRole('button', { name: 'Log out' }).click();
    await visitor.arrivesAt('Your booth at every event');
    expect(visitor.page.url()).toBe(`${url}/acme`);
    await visitor.page.getByRole('link', { name: 'Log in' }).waitFor();
    expect(await visitor.text()).not.toContain('sam.several@example.com');
    await visitor.screenshot('6-logged-out');
  });

  it('showed no error in the console of the browser in all these steps', () => {
    expect(visitor.troubles).toEqual([]);
  });
});

describe('npm start', () => {
  it('uses PORT and SANDBOX_PORT', async () => {
    const page = await fetch(url);
    expect(page.status).toBe(200);
    const provider = await fetch(`http://127.0.0.1:${ports.SANDBOX_PORT}/connect/jwks`);
    expect(provider.status).toBe(200);
  });

  it.each(['PORT', 'SANDBOX_PORT'] as const)('prints one line when %s is taken, and exits', async (name) => {
    const free = { PORT: String(await freePort()), SANDBOX_PORT: String(await freePort()) };
    const sample = project.run('node', START, { ...free, [name]: ports[name] });
    expect(await sample.ended).toBe(1);
    expect(sample.stderr).toBe(`Port ${ports[name]} is already in use. Set ${name} to another one.\n`);
    expect(sample.stdout).toBe('');
  });

  it('prints one line when a port is invalid, and exits', async () => {
    const sample = project.run('node', START, { ...ports, PORT: 'http' });
    expect(await sample.ended).toBe(1);
    expect(sample.stderr).toBe('PORT must be a port from 1 to 65535, not "http".\n');
  });

  it('exits cleanly on SIGTERM and frees its ports, although npm starts it through a shell', async () => {
    const before = npm.stderr;
    npm.signal('SIGTERM');
    expect(await npm.ended).toBe(0);
    expect(npm.stderr).toBe(before);
    await expect(isFree(Number(ports.PORT))).resolves.toBe(true);
    await expect(isFree(Number(ports.SANDBOX_PORT))).resolves.toBe(true);
  });

  it('exits with code 0 on Ctrl-C, which npm forwards a second time', async () => {
    const sample = project.run('node', START, ports);
    await sample.printed(`Sample ready at ${url}\n`);
    sample.signalGroup('SIGINT');
    sample.signalGroup('SIGINT');
    expect(await sample.ended).toBe(0);
    const sandbox = `http://127.0.0.1:${ports.SANDBOX_PORT}/sandbox`;
    expect(sample.stdout).toBe(`Sample ready at ${url}\nWhat it sends to the service: ${sandbox}\n`);
    expect(sample.stderr).toBe('');
  });
});

describe('npm run mirror', () => {
  it.each([
    [
      {},
      'Set DATABASE_URL and REDIS_URL, for example DATABASE_URL=postgres://postgres@127.0.0.1:5432/postgres REDIS_URL=redis://127.0.0.1:6379\n',
    ],
    [
      { DATABASE_URL: 'postgres://postgres@127.0.0.1/x' },
      'Set REDIS_URL, for example REDIS_URL=redis://127.0.0.1:6379\n',
    ],
  ])('prints which variables it lacks in one line, with %j, and exits', async (given, line) => {
    const variables = { DATABASE_URL: '', REDIS_URL: '', ...given };
    const mirror = project.run('node', ['sample/dist/mirror/start.js'], variables);
    expect(await mirror.ended).toBe(1);
    expect(mirror.stderr).toBe(line);
    expect(mirror.stdout).toBe('');
  });
});

describe('a host in plain node with the built package', () => {
  let sandbox: ExhibitorSandbox;
  beforeAll(async () => {
    sandbox = await startSandbox();
  });
  afterAll(() => sandbox?.stop());

  const run = (closes: boolean, patience: number): Promise<Ended> =>
    runPlainHost(
      project.folder,
      { tenant: sandbox.tenantOptions('acme'), secrets: [COOKIE_SECRET], closes },
      patience,
    );

  it('works, and exits by itself after app.close(): no handle is left', async () => {
    const { code, stdout, stderr } = await run(true, 5_000);
    expect(stderr).toBe('');
    expect(stdout.trim().split('\n')).toEqual(['[7,1234,3,"Bearer"]', 'handles []']);
    expect(code).toBe(0);
  });

  it('keeps running without app.close(), so that the exit above is caused by the close', async () => {
    const { code, stdout } = await run(false, 1_500);
    expect(stdout).toContain('[7,1234,3,"Bearer"]');
    expect(code).toBeNull();
  });
});

describe('A port', () => {
  it.each(['0', '65536', '-1', '30.5', '1e3', '80 80'])('cannot be %j', (value) => {
    expect(() => portOf('PORT', value, 3000)).toThrow(
      `PORT must be a port from 1 to 65535, not ${JSON.stringify(value)}.`,
    );
  });

  it('has a default, also for an empty variable', () => {
    expect(portOf('PORT', undefined, 3000)).toBe(3000);
    expect(portOf('PORT', ' ', 3000)).toBe(3000);
    expect(portOf('PORT', '8080', 3000)).toBe(8080);
  });
});

function share(bar: unknown): number {
  const { value, max } = bar as { value: number; max: number };
  return value / max;
}

function noExhibitor(): SandboxExhibitor {
  throw new Error('the seed knows no second exhibitor of Sam');
}
