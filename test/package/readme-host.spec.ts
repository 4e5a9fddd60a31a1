import { spawn, type ChildProcess } from 'node:child_process';
import { existsSync, mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, afterEach, beforeAll, describe, expect, it } from '@jest/globals';
import { ExhibitorSandbox } from '../../lib/testing/index.js';
import { readmeHost } from '../structure/readme.js';
import { environment, isUp, startSandboxCommand, useHost, useSandboxCommand } from './host-process.js';
import { manifest, Outside, pack, versions } from './tarball.js';
import { freePort } from '../support/server.js';
import { formFields, Visitor } from '../support/visitor.js';

let folder: string;
let tarball: string;
let sandbox: ExhibitorSandbox;
let child: ChildProcess | undefined;

beforeAll(async () => {
  folder = mkdtempSync(join(tmpdir(), 'exhibitor-pack-'));
  ({ tarball } = await pack(folder));
  sandbox = await ExhibitorSandbox.start();
});

afterEach(() => {
  child?.kill('SIGKILL');
});

afterAll(async () => {
  await sandbox?.stop();
  rmSync(folder, { recursive: true });
});

describe('the packed tarball, installed outside the repository', () => {
  it('runs the host of the README on Nest 12 in plain Node, and a person logs in and sees no address of a contact', async () => {
    const outside = new Outside();
    const port = await freePort();
    outside.write('package.json', { name: 'readme-host', private: true, type: 'module' });
    outside.write('main.ts', readmeHost());
    outside.write('tsconfig.json', {
      compilerOptions: {
        module: 'nodenext',
        target: 'ES2022',
        strict: true,
        experimentalDecorators: true,
        emitDecoratorMetadata: true,
        types: ['node'],
      },
    });
    await outside.install(
      tarball,
      ...versions(
        '@nestjs/common',
        '@nestjs/core',
        '@nestjs/platform-express',
        '@nestjs/axios',
        '@nestjs/passport',
      ),
      ...versions(
        'axios',
        'passport',
        'rxjs',
        'reflect-metadata',
        '@types/node',
        '@types/express',
        'typescript',
        'zod',
      ),
    );
    // Without skipLibCheck: the declarations must compile in a host.
    const said = await outside.run(process.execPath, ['node_modules/typescript/bin/tsc', '-p', '.']);
    expect(said.trim()).toBe('');
    const redirectUri = `http://127.0.0.1:${port}/auth/callback`;
    child = outside.start('main.js', environment(sandbox, 'acme', { redirectUri }, port));
    const shown = await useHost(sandbox, `http://127.0.0.1:${port}`, child);
    expect(shown.filter((body) => body.includes('@'))).toEqual([]);

    // Exactly these names: every public name must be kept.
    const names = await outside.run('node', [
      '-e',
      "import('nestjs-exhibitor').then((m) => console.log(Object.keys(m).join()))",
    ]);
    expect(names.trim().split(',').toSorted()).toEqual(PUBLIC_NAMES);
    const redisNames = await outside.run('node', [
      '-e',
      "import('nestjs-exhibitor/redis').then((m) => console.log(Object.keys(m).join()))",
    ]);
    expect(redisNames.trim()).toBe('RedisSharedStore');
    const withoutTerminus = await outside.run('node', [
      '-e',
      "import('nestjs-exhibitor/terminus').catch((e) => console.log(e.message))",
    ]);
    expect(withoutTerminus).toContain("Cannot find package '@nestjs/terminus'");
    const required = await outside.run('node', [
      '--input-type=commonjs',
      '-e',
      "console.log(typeof require('nestjs-exhibitor').ExhibitorModule)",
    ]);
    expect(required.trim()).toContain('function');
    // Without the optional peer the import of the sandbox works, and its start names the package to install.
    const missing = await outside.run('node', [
      '-e',
      "import('nestjs-exhibitor/testing').then((m) => m.ExhibitorSandbox.start()).catch((e) => console.log(e.message))",
    ]);
    expect(missing).toContain('npm install --save-dev oidc-provider');
    await outside.install(...versions('oidc-provider'));
    await logInByTheCommand(outside);
    outside.remove();
  });
});

describe('the command, installed in an empty folder without peer dependencies', () => {
  let alone: Outside;
  let bin: string;
  beforeAll(async () => {
    alone = new Outside();
    alone.write('package.json', { name: 'empty', private: true });
    await alone.install('--legacy-peer-deps', tarball);
    bin = join(alone.folder, 'node_modules/.bin/nestjs-exhibitor');
  });
  afterAll(() => alone?.remove());

  it('shows its version and helps', async () => {
    expect((await alone.run(bin, ['--version'])).trim()).toBe(manifest.version);
    const said = await alone.run(bin, ['--help']);
    expect(said).toMatch(/\n  sandbox  .*\n  doctor  /);
    expect(await alone.run(bin, ['sandbox', '--help'])).toContain('Usage: nestjs-exhibitor sandbox');
    expect(await alone.run(bin, [])).toBe(said);
  });

  it.each([
    [['sandbocks'], 'nestjs-exhibitor sandbocks: there is no such command. See nestjs-exhibitor --help\n'],
    [['toString'], 'nestjs-exhibitor toString: there is no such command. See nestjs-exhibitor --help\n'],
    [['sandbox', '--prot', '1'], "nestjs-exhibitor sandbox: Unknown option '--prot'\n"],
    [
      ['sandbox', '--seed', 'none'],
      "nestjs-exhibitor sandbox: ENOENT: no such file or directory, open 'none'\n",
    ],
    [
      ['sandbox', '--port', '0'],
      'nestjs-exhibitor sandbox: the package oidc-provider is not installed here. ' +
        'Run: npx -p nestjs-exhibitor -p oidc-provider nestjs-exhibitor sandbox\n',
    ],
  ])('says in one line why it cannot run %j, with exit code 2', async (args, message) => {
    const failed = spawn(bin, args, { cwd: alone.folder, stdio: 'pipe' });
    let said = '';
    failed.stdout.on('data', (chunk) => (said += String(chunk)));
    failed.stderr.on('data', (chunk) => (said += String(chunk)));
    const code = await new Promise((resolve) => void failed.once('close', resolve));
    expect([code, said]).toEqual([2, message]);
  });

  it('starts without Nest, with the oidc-provider of the working directory, and ends by SIGTERM', async () => {
    const project = new Outside();
    project.write('package.json', { name: 'project', private: true });
    await project.install(...versions('oidc-provider'));
    expect(existsSync(join(alone.folder, 'node_modules/@nestjs'))).toBe(false);
    await useSandboxCommand(await startSandboxCommand(bin, project.folder));
    project.remove();
  });
});

/** Starts `nestjs-exhibitor sandbox` and the host with the env file that it writes. A person logs in. */
async function logInByTheCommand(outside: Outside): Promise<void> {
  const port = await freePort();
  const url = `http://127.0.0.1:${port}`;
  const bin = join(outside.folder, 'node_modules/.bin/nestjs-exhibitor');
  // The doctor requires the peer dependencies of the host.
  expect(await outside.run(bin, ['doctor', '--help'])).toContain('nestjs-exhibitor doctor');
  const options = ['--redirect-uri', `${url}/auth/callback`, '--write-env', 'host.env'];
  const command = await startSandboxCommand(bin, outside.folder, ...options);
  const env = { PATH: process.env['PATH'], PORT: String(port) };
  child = spawn(process.execPath, ['--env-file=host.env', 'main.js'], { cwd: outside.folder, env });
  await isUp(url, child);
  const visitor = new Visitor();
  const login = await visitor.follow(`${url}/auth/login?eventId=world-2026&returnTo=/events/world-2026/mine`);
  const action = new URL(formFields(login.text).action, command.url);
  const chosen = await visitor.visit(action, { form: { person: 'sam.several' } });
  const mine = await visitor.follow(String(chosen.location));
  expect([mine.status, mine.url]).toEqual([200, `${url}/events/world-2026/mine`]);
  expect(JSON.parse(mine.text)).toHaveLength(3);
  expect(await command.stop()).toBe(143);
}

const PUBLIC_NAMES = [
  'AllowAnonymous',
  'ConfigurationError',
  'CurrentEvent',
  'CurrentExhibitor',
  'CurrentExhibitors',
  'CurrentIdentity',
  'CurrentTenant',
  'ExhibitorBackChannelLogoutGuard',
  'ExhibitorCallbackGuard',
  'ExhibitorError',
  'ExhibitorExceptionFilter',
  'ExhibitorGuard',
  'ExhibitorGuardServices',
  'ExhibitorIdentityGuard',
  'ExhibitorLoginGuard',
  'ExhibitorLogoutGuard',
  'ExhibitorModule',
  'ExhibitorSelection',
  'ExhibitorsService',
  'HTTP_STATUS_BY_CODE',
  'LoginFailedError',
  'PaginationDriftError',
  'TenantRegistry',
  'TokenRejectedError',
  'TokenService',
  'TokenValidator',
  'compareExhibitors',
  'defineExhibitorOptions',
  'isExhibitorError',
];
