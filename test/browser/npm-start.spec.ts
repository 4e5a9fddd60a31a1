import { createServer } from 'node:http';
import { afterAll, beforeAll, describe, expect, it } from '@jest/globals';
import { defaultSeed, type SandboxExhibitor } from 'nestjs-exhibitor/testing';
import { describeInChromium } from './chromium.js';
import { ProjectCopy, type StartedProcess } from './project-copy.js';
import { freePort } from './running-sample.js';
import { Visitor } from './visitor.js';

const WORLD = defaultSeed().exhibitors['acme']?.['world-2026'] ?? [];
const SAMS = WORLD.filter(({ contactEmails }) => contactEmails.includes('sam.several@example.com'));

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
afterAll(() => project.remove());

describeInChromium('From the start page to logout', (browser) => {
  let visitor: Visitor;
  const [, chosen = noExhibitor()] = SAMS;

  beforeAll(async () => {
    visitor = await Visitor.arrive(browser());
  });
  afterAll(() => visitor.leave());

  it('welcomes with the five events and their sizes', async () => {
    await visitor.page.goto(url);
    expect(await visitor.page.title()).toBe('Trade events · Exhibitor Portal');
    expect(await visitor.heading()).toBe('Your booth at every event');
    const cards = await visitor.page.getByRole('listitem').allInnerTexts();
    expect(cards.map((card) => card.replace(/\s+/g, ' '))).toEqual([
      'World Industry Expo 2026 Hanover · 20–24 April 2026 1,234 exhibitors My booth All exhibitors',
      'National Building Show 2026 Birmingham · 9–11 June 2026 251 exhibitors My booth All exhibitors',
      'Regional Craft Fair 2026 Graz · 3–5 July 2026 50 exhibitors My booth All exhibitors',
      'Boutique Design Days 2026 Copenhagen · 17–18 September 2026 7 exhibitors My booth All exhibitors',
      'Empty Hall Preview 2026 Rotterdam · 12 November 2026 No exhibitors yet My booth All exhibitors',
    ]);
    expect(await visitor.text()).not.toContain('Logged in as');
    await visitor.screenshot('1-start');
  });

  it('sends to the identity provider for login', async () => {
    await visitor.page.getByRole('link', { name: 'My booth at World Industry Expo 2026' }).click();
    expect(await visitor.heading()).toBe('Sign in');
    expect(new URL(visitor.page.url()).port).toBe(ports.SANDBOX_PORT);
    await visitor.screenshot('2-sign-in');
  });

  it('asks a person with several exhibitors to choose', async () => {
    await visitor.signInAs('Sam Several');
    expect(await visitor.heading()).toBe('Choose your exhibitor');
    expect(await visitor.text()).toContain('belongs to 3 exhibitors of World Industry Expo 2026');
    const choices = await visitor.page.getByRole('main').getByRole('button').allInnerTexts();
    expect(choices.map((choice) => choice.split('\n')[0])).toEqual(SAMS.map(({ name }) => name));
    await visitor.screenshot('3-choose');
  });

  it('shows the exhibitor that was chosen', async () => {
    await visitor.page.getByRole('button', { name: String(chosen['name']) }).click();
    expect(visitor.page.url()).toBe(`${url}/events/world-2026/mine`);
    expect(await visitor.heading()).toBe(chosen['name']);
    const text = await visitor.text();
    expect(text).toContain('Logged in as sam.several@example.com');
    for (const field of ['hall', 'booth', 'country', 'id']) expect(text).toContain(String(chosen[field]));
    await visitor.screenshot('4-exhibitor');
  });

  it('shows all 1,234 exhibitors of the event in order', async () => {
    await visitor.page.getByRole('link', { name: 'All exhibitors' }).click();
    expect(await visitor.heading()).toBe('All exhibitors');
    await visitor.page.getByText('1,234 of 1,234 exhibitors').waitFor();
    expect(await visitor.page.getByRole('progressbar').evaluate(share)).toBe(1);
    const names = await visitor.page.locator('tbody th').allInnerTexts();
    expect(names).toEqual(WORLD.map(({ name }) => name));
    await visitor.screenshot('5-all-exhibitors');
  });

  it('remembers the choice', async () => {
    await visitor.page.goto(`${url}/events/world-2026/mine`);
    expect(await visitor.heading()).toBe(chosen['name']);
  });

  it('logs out', async () => {
    await visitor.page.getByRole('button', { name: 'Log out' }).click();
    expect(visitor.page.url()).toBe(`${url}/`);
    expect(await visitor.heading()).toBe('Your booth at every event');
    await visitor.page.getByRole('link', { name: 'Log in' }).waitFor();
    expect(await visitor.text()).not.toContain('sam.several@example.com');
    await visitor.screenshot('6-logged-out');
  });

  it('showed no error in the console of the browser on all this way', () => {
    expect(visitor.troubles).toEqual([]);
  });
});

describe('npm start', () => {
  it('honours PORT and SANDBOX_PORT', async () => {
    const page = await fetch(url);
    expect(page.status).toBe(200);
    const provider = await fetch(`http://127.0.0.1:${ports.SANDBOX_PORT}/connect/jwks`);
    expect(provider.status).toBe(200);
  });

  it('says which port is taken, and ends', async () => {
    const sample = project.run('node', ['sample/dist/start.js'], {
      PORT: ports.PORT,
      SANDBOX_PORT: String(await freePort()),
    });
    expect(await sample.ended).toBe(1);
    expect(sample.stderr).toBe(
      `Port ${ports.PORT} is already in use. Choose another one: PORT=${Number(ports.PORT) + 1} npm start\n`,
    );
    const sandbox = project.run('node', ['sample/dist/start.js'], {
      PORT: String(await freePort()),
      SANDBOX_PORT: ports.SANDBOX_PORT,
    });
    expect(await sandbox.ended).toBe(1);
    expect(sandbox.stderr).toContain(`Port ${ports.SANDBOX_PORT} is already in use.`);
  });

  it.each(['http', '0', '65536', '-1', '30.5', '1e3'])('refuses %j as a port in one line', async (PORT) => {
    const sample = project.run('node', ['sample/dist/start.js'], { ...ports, PORT });
    expect(await sample.ended).toBe(1);
    expect(sample.stderr).toBe(`PORT must be a port from 1 to 65535, not "${PORT}".\n`);
  });

  it('refuses one port for both', async () => {
    const sample = project.run('node', ['sample/dist/start.js'], { PORT: '3000', SANDBOX_PORT: '3000' });
    expect(await sample.ended).toBe(1);
    expect(sample.stderr).toBe('PORT and SANDBOX_PORT must differ.\n');
  });

  it('ends cleanly on Ctrl-C and frees its ports', async () => {
    npm.signalGroup('SIGINT');
    expect(await npm.ended).toBe(0);
    expect(npm.stderr).toBe('');
    await expect(isFree(ports.PORT)).resolves.toBe(true);
    await expect(isFree(ports.SANDBOX_PORT)).resolves.toBe(true);
  });

  it.each(['SIGTERM', 'SIGINT'] as const)('ends with code 0 on %s to the process itself', async (signal) => {
    const sample = project.run('node', ['sample/dist/start.js'], ports);
    await sample.printed(`Sample ready at ${url}\n`);
    sample.signal(signal);
    expect(await sample.ended).toBe(0);
    expect(sample.stdout).toBe(`Sample ready at ${url}\n`);
    expect(sample.stderr).toBe('');
  });
});

function share(bar: unknown): number {
  const { value, max } = bar as { value: number; max: number };
  return value / max;
}

function isFree(port: string): Promise<boolean> {
  return new Promise((resolve) => {
    const server = createServer();
    server.once('error', () => resolve(false));
    server.listen(Number(port), '127.0.0.1', () => server.close(() => resolve(true)));
  });
}

function noExhibitor(): SandboxExhibitor {
  throw new Error('the seed knows no second exhibitor of Sam');
}
