import { spawn, type ChildProcess } from 'node:child_process';
import { existsSync } from 'node:fs';
import { join } from 'node:path';
import { afterAll, afterEach, beforeAll, describe, expect, it } from '@jest/globals';
import { ExhibitorSandbox } from '../../lib/testing/index.js';
import { hostFiles, readmeInstall } from '../structure/readme.js';
import { endHost, environment, logInAt, startSandboxCommand, useSandboxCommand } from './host-process.js';
import { HOST_COMPILER_OPTIONS, manifest, Outside, pack, versions } from './tarball.js';
import { freePort } from '../support/server.js';
import { eventually } from '../support/wait.js';

let tarball: string;
let sandbox: ExhibitorSandbox;
let child: ChildProcess | undefined;

beforeAll(async () => {
  ({ tarball } = await pack());
  sandbox = await ExhibitorSandbox.start();
});

afterEach(() => {
  child?.kill('SIGKILL');
});

afterAll(() => sandbox?.stop());

/** A host of the README on a major of Nest, compiled. */
async function hostOfReadme(nest: 11 | 12): Promise<Outside> {
  const outside = new Outside();
  // As `nest new` writes it: CommonJS on Nest 11.
  const type = nest === 11 ? 'commonjs' : 'module';
  outside.write('package.json', { name: 'readme-host', private: true, type });
  outside.write('src/main.ts', MAIN);
  hostFiles().forEach(([path, code]) => outside.write(path, code));
  outside.write('tsconfig.json', { compilerOptions: HOST_COMPILER_OPTIONS, include: ['src'] });
  const [, , ...named] = readmeInstall(nest).map((word) => (word === 'nestjs-exhibitor' ? tarball : word));
  const nestPackages = ['common', 'core', 'platform-express', 'platform-fastify'];
  await outside.install(
    ...named,
    ...nestPackages.map((name) => `@nestjs/${name}@${nest}`),
    ...versions('rxjs', 'reflect-metadata', '@types/node', '@types/express', 'typescript'),
  );
  // Without skipLibCheck: the declarations must compile in a host.
  const said = await outside.run(process.execPath, ['node_modules/typescript/bin/tsc', '-p', '.']);
  expect(said.trim()).toBe('');
  return outside;
}

describe.each([11, 12] as const)('the host of the README on Nest %i, in plain Node', (nest) => {
  let outside: Outside;
  beforeAll(async () => {
    outside = await hostOfReadme(nest);
  });
  afterAll(() => outside?.remove());

  it.each(['express', 'fastify'])(
    'boots without a warning on %s, and a person logs in and sees no address of a contact',
    async (adapter) => {
      const port = await freePort();
      const redirectUri = `http://127.0.0.1:${port}/auth/callback`;
      const env = environment(sandbox, 'acme', { redirectUri }, port);
      child = outside.start('dist/main.js', { ...env, ADAPTER: adapter });
      let said = '';
      child.stdout?.on('data', (chunk) => (said += String(chunk)));
      const url = `http://127.0.0.1:${port}`;
      const { visitor, mine } = await logInAt(sandbox, url, child);
      expect(mine).not.toContain('@');
      const me = await visitor.visit(`${url}/auth/me`);
      expect(JSON.parse(me.text)).toMatchObject({ email: 'sam.several@example.com', eventId: 'world-2026' });
      expect(said).toContain('Mapped {/auth/callback, GET}');
      expect(said).not.toContain('WARN');
      await endHost(child);
    },
  );

  it('warns of a redirectUri that is the path of no route with ExhibitorCallbackGuard', async () => {
    const port = await freePort();
    const redirectUri = `http://127.0.0.1:${port}/callback`;
    child = outside.start('dist/main.js', environment(sandbox, 'acme', { redirectUri }, port));
    let said = '';
    child.stderr?.on('data', (chunk) => (said += String(chunk)));
    child.stdout?.on('data', (chunk) => (said += String(chunk)));
    await eventually(
      () => said.includes('no route with ExhibitorCallbackGuard has the path /callback'),
      20_000,
    );
    await endHost(child);
  });

  it('has these entry points and names', async () => {
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
    // Without the optional peer, of which it takes types only.
    const metricsNames = await outside.run('node', [
      '-e',
      "import('nestjs-exhibitor/opentelemetry').then((m) => console.log(Object.keys(m).join()))",
    ]);
    expect(metricsNames.trim()).toBe('exhibitorMetrics,hideAddresses');
    const withoutTerminus = await outside.run('node', [
      '-e',
      "import('nestjs-exhibitor/terminus').catch((e) => console.log(e.message))",
    ]);
    expect(withoutTerminus).toContain("Cannot find package '@nestjs/terminus'");
    const mirrorNames = await outside.run('node', [
      '-e',
      "import('nestjs-exhibitor/mirror').then((m) => console.log(Object.keys(m).join()))",
    ]);
    expect(mirrorNames.trim()).toBe('copyEvent');
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
    expect(await alone.run(bin, ['doctor', '--help'])).toContain('Usage: nestjs-exhibitor doctor');
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
      'nestjs-exhibitor sandbox: ExhibitorSandbox requires the optional peer dependency "oidc-provider" 9, which is not installed. ' +
        'Install it with: npm install --save-dev oidc-provider@9\n',
    ],
  ])('says in one line why it cannot run %j, with exit code 2', async (args, message) => {
    const failed = spawn(bin, args, { cwd: alone.folder, stdio: 'pipe' });
    let said = '';
    failed.stdout.on('data', (chunk) => (said += String(chunk)));
    failed.stderr.on('data', (chunk) => (said += String(chunk)));
    const code = await new Promise((resolve) => void failed.once('close', resolve));
    expect([code, said]).toEqual([2, message]);
  });

  it('starts without Nest, and ends by SIGTERM', async () => {
    await alone.install('--legacy-peer-deps', ...versions('oidc-provider'));
    expect(existsSync(join(alone.folder, 'node_modules/@nestjs'))).toBe(false);
    await useSandboxCommand(await startSandboxCommand(bin, alone.folder));
  });
});

/** The file of `nest new`; that of docs/recipes.md on Fastify. */
const MAIN = `
import { NestFactory } from '@nestjs/core';
import { FastifyAdapter } from '@nestjs/platform-fastify';
import { AppModule } from './app.module.js';

async function bootstrap() {
  const app = await (process.env['ADAPTER'] === 'fastify'
    ? NestFactory.create(AppModule, new FastifyAdapter())
    : NestFactory.create(AppModule));
  await app.listen(process.env['PORT'] ?? 3000);
}
void bootstrap();
`;

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
  'ExhibitorLogins',
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
  'exhibitorOptionsFrom',
  'isExhibitorError',
];
