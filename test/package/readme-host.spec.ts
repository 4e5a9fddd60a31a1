import type { ChildProcess } from 'node:child_process';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, afterEach, beforeAll, describe, expect, it } from '@jest/globals';
import { ExhibitorSandbox } from '../../lib/testing/index.js';
import { readmeHost } from '../structure/readme.js';
import { environment, useHost } from './host-process.js';
import { Outside, pack, versions } from './tarball.js';
import { freePort } from '../support/server.js';

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
    outside.remove();
  });
});

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
