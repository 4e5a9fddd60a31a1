import { spawn, type ChildProcess } from 'node:child_process';
import { once } from 'node:events';
import { mkdtempSync } from 'node:fs';
import { cp, rm, symlink, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { basename, join } from 'node:path';
import { text } from 'node:stream/consumers';
import { afterAll, beforeAll, describe, expect, it } from '@jest/globals';
import { namedSnippets, ROOT } from '../structure/readme.js';
import { COOKIE_SECRET } from '../support/host.js';
import { useSandbox } from '../support/lifetimes.js';
import { says } from '../support/programs.js';
import { freePort, isFree } from '../support/server.js';
import { eventually } from '../support/wait.js';
import { Guest } from './guest.js';

const running: ChildProcess[] = [];

/** Starts a command in a process group of its own, as a terminal does, and collects its output. */
function run(command: string, args: string[], env: Record<string, string> = {}) {
  const { CI: _, ...inherited } = process.env;
  const child = spawn(command, args, {
    cwd: folder,
    detached: true,
    // Notices and warnings of npm are not those of the sample.
    env: { ...inherited, npm_config_loglevel: 'error', NODE_ENV: 'development', ...env },
    stdio: ['ignore', 'pipe', 'pipe'],
  });
  running.push(child);
  return {
    child,
    stdout: text(child.stdout),
    stderr: text(child.stderr),
    /** Exit code, or the signal that ended it. */
    ended: once(child, 'close').then(([code, signal]) => code ?? signal),
  };
}

/** Sends a signal to the whole process group of a command, as a terminal does on Ctrl-C. */
const signalGroup = ({ pid = 0 }: ChildProcess, signal: NodeJS.Signals): boolean =>
  process.kill(-pid, signal);

const START = ['sample/dist/start.js'];
const sandbox = await useSandbox();

/** A copy of the sources as after a clone and an install: nothing is built. */
const folder = mkdtempSync(join(tmpdir(), 'exhibitor-sample-'));
const freePorts = async () => ({ PORT: String(await freePort()), SANDBOX_PORT: String(await freePort()) });
let ports: Awaited<ReturnType<typeof freePorts>>;
let url: string;
let npm: ReturnType<typeof run>;

beforeAll(async () => {
  for (const part of ['package.json', '.swcrc', 'lib', 'sample', 'scripts']) {
    const filter = (path: string): boolean => basename(path) !== 'dist';
    await cp(join(ROOT, part), join(folder, part), { recursive: true, filter });
  }
  await symlink(join(ROOT, 'node_modules'), join(folder, 'node_modules'), 'dir');
  ports = await freePorts();
  url = `http://127.0.0.1:${ports.PORT}`;
  npm = run('npm', ['start'], ports);
  await says(npm.child, `Sample ready at ${url}\n`);
}, 120_000);
afterAll(async () => {
  const open = running.filter(({ exitCode, signalCode }) => exitCode === null && signalCode === null);
  open.forEach((child) => signalGroup(child, 'SIGKILL'));
  await rm(folder, { recursive: true, force: true });
});

describe('npm start', () => {
  it('uses PORT and SANDBOX_PORT, and a person logs in and sees an exhibitor', async () => {
    const guest = new Guest();
    const home = await guest.open(url);
    expect(home.summary).toBe('200 Your booth at every event');
    const provider = await guest.click(home, 'My booth at World Industry Expo 2026');
    expect(new URL(provider.url).port).toBe(ports.SANDBOX_PORT);
    const booth = await guest.post(provider.url, { person: 'olga.one' });
    expect(booth.url).toBe(`${url}/acme/events/world-2026/mine`);
    expect(booth.text).toContain('Logged in as olga.one@example.com');
  });

  it('prints one line when a port is taken, and exits', async () => {
    const names = ['PORT', 'SANDBOX_PORT'] as const;
    const ends = names.map(async (name) => {
      const { ended, stderr, stdout } = run('node', START, { ...(await freePorts()), [name]: ports[name] });
      return [await ended, await stderr, await stdout];
    });
    const lineOf = (name: (typeof names)[number]): string =>
      `Port ${ports[name]} is already in use. Set ${name} to another one.\n`;
    expect(await Promise.all(ends)).toEqual(names.map((name) => [1, lineOf(name), '']));
  });

  it('exits cleanly on SIGTERM and frees its ports, although npm starts it through a shell', async () => {
    npm.child.kill('SIGTERM');
    expect([await npm.ended, await npm.stderr]).toEqual([0, '']);
    expect(await Promise.all(Object.values(ports).map(Number).map(isFree))).toEqual([true, true]);
  });

  it('exits with code 0 on Ctrl-C, again and again, when starting and when ready', async () => {
    const press = async (when: 'starting' | 'ready') => {
      const own = await freePorts();
      const sample = run('node', START, own);
      const activity = `http://127.0.0.1:${own.SANDBOX_PORT}/sandbox`;
      const ready = `Sample ready at http://127.0.0.1:${own.PORT}\n`;
      const listens = async () => Boolean(await fetch(activity).catch(() => false));
      await (when === 'ready' ? says(sample.child, ready) : eventually(listens, 10_000));
      const presses = setInterval(() => signalGroup(sample.child, 'SIGINT'), 1);
      sample.child.once('exit', () => clearInterval(presses));
      expect([await sample.ended, await sample.stderr]).toEqual([0, '']);
      expect(['', `${ready}What it sends to the service: ${activity}\n`]).toContain(await sample.stdout);
    };
    await Promise.all([press('starting'), press('ready')]);
  });
});

describe('npm run mirror', () => {
  it('prints which variables it lacks in one line, and exits', async () => {
    const mirror = run('node', ['sample/dist/mirror/start.js'], { DATABASE_URL: '', REDIS_URL: '' });
    expect(await mirror.ended).toBe(1);
    expect(await mirror.stderr).toBe(
      'Set DATABASE_URL and REDIS_URL, for example DATABASE_URL=postgres://postgres@127.0.0.1:5432/postgres REDIS_URL=redis://127.0.0.1:6379\n',
    );
    expect(await mirror.stdout).toBe('');
  });
});

/** Plain JavaScript, as a host runs it: no decorators, no transform. */
const SCRIPT = `
import 'reflect-metadata';
import { NestFactory } from '@nestjs/core';
import { lastValueFrom, toArray } from 'rxjs';
import { ExhibitorModule, ExhibitorsService } from './dist/index.js';

const { tenant, secrets } = JSON.parse(process.env.HOST_OPTIONS);
const app = await NestFactory.create(ExhibitorModule.forRoot({ tenant, secrets }), { logger: ['fatal'] });
await app.listen(0, '127.0.0.1');
const exhibitors = app.get(ExhibitorsService);
const all = await lastValueFrom(exhibitors.stream('world-2026').pipe(toArray()));
// A call that is still running must keep nothing open either.
const fault = { match: { operation: 'list' }, fault: { kind: 'delay', ms: 60_000 }, times: 1 };
await fetch(tenant.baseUrl + '/sandbox/faults', { method: 'POST', headers: { connection: 'close' }, body: JSON.stringify(fault) });
exhibitors.list('national-2026').subscribe({ error: () => undefined });
console.log(all.length);
const tellHandles = () =>
  console.log('handles ' + JSON.stringify(process.getActiveResourcesInfo().filter((name) => !/TTY|Pipe|FS/.test(name))));
tellHandles();
await app.close();
// Node frees the handle of a server a moment after its close event.
await new Promise((resolve) => setTimeout(resolve, 50));
tellHandles();
`;

describe('a host in plain node with the built package', () => {
  it('works, and exits by itself after app.close(): no handle is left', async () => {
    await writeFile(join(folder, 'host.mjs'), SCRIPT);
    const options = { tenant: sandbox.tenantOptions('acme'), secrets: [COOKIE_SECRET] };
    const host = run('node', ['host.mjs'], { HOST_OPTIONS: JSON.stringify(options) });
    expect(await host.ended).toBe(0);
    expect(await host.stderr).toBe('');
    const [result, before = '', after] = (await host.stdout).trim().split('\n');
    expect([result, after]).toEqual(['1234', 'handles []']);
    // Otherwise the close would prove nothing.
    expect(before).toContain('TCPServerWrap');
  });

  it('shows no address in traces, with the file of docs/observability.md that Node loads first', async () => {
    const path = '/api/v1/exhibitor/event/world-2026/contactEmail/sam%40example.com';
    const main = `import { request } from 'undici';
      const { body } = await request('${sandbox.url}${path}');
      await body.dump();`;
    await writeFile(join(folder, 'instrument.mjs'), namedSnippets('docs/observability.md', 'instrument')[0]);
    await writeFile(join(folder, 'main.mjs'), main);
    const shown = await run('node', ['--import', './instrument.mjs', 'main.mjs']).stdout;
    expect(shown).toContain(`'url.path': '${path.replace('sam%40example.com', '{contactEmail}')}'`);
    expect(shown).not.toContain('sam');
  });
});
