import type { ChildProcess } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterAll, afterEach, beforeAll, describe, expect, it } from '@jest/globals';
import { ExhibitorSandbox } from '../../lib/testing/index.js';
import { jestSettings } from '../structure/readme.js';
import { acceptsEveryLogin } from './every-login.js';
import { environment, useHost } from './host-process.js';
import { lowestPeers, Outside, pack, ROOT, versions } from './tarball.js';
import { freePort } from '../support/server.js';

const LOWEST = lowestPeers();

let outside: Outside;
beforeAll(async () => {
  outside = new Outside();
  outside.copy(join(ROOT, 'test/package/hosts/app'));
  const { tarball } = await pack();
  await outside.install(
    tarball,
    ...Object.entries(LOWEST).map(([name, version]) => `${name}@${version}`),
    // Not peers. Before 11.0.3 the Fastify adapter accepts Nest 10 only.
    ...['platform-express@11.0.0', 'platform-fastify@11.0.3', 'testing@11.0.0'].map(
      (name) => `@nestjs/${name}`,
    ),
    'typescript@~5.9',
    'jest@^30',
    'ts-jest@^29',
    '@types/jest@^30',
    ...versions('@types/node', '@types/express'),
  );
  await outside.run('npx', ['tsc', '-p', '.']);
});
afterAll(() => outside?.remove());

describe('a CommonJS host on Nest 11 that installed the tarball with the lowest peers', () => {
  let sandbox: ExhibitorSandbox;
  let child: ChildProcess | undefined;
  beforeAll(async () => {
    sandbox = await ExhibitorSandbox.start();
  });
  afterEach(() => void child?.kill('SIGKILL'));
  afterAll(() => sandbox?.stop());

  it.each([
    ['express', 'code'],
    ['fastify', 'code'],
    ['express', 'code id_token'],
    ['fastify', 'code token id_token'],
  ] as const)('logs a person in on %s by %s', async (adapter, responseType) => {
    const port = await freePort();
    const redirectUri = `http://127.0.0.1:${port}/auth/callback`;
    const env = environment(sandbox, 'globex', { redirectUri, responseType }, port);
    child = outside.start('built/main.js', { ...env, ADAPTER: adapter });
    await useHost(sandbox, `http://127.0.0.1:${port}`, child);
  });

  it('has exactly the lowest version of each peer', () => {
    const installed = Object.keys(LOWEST).map((name) => [name, outside.versionOf(name)]);
    expect(Object.fromEntries(installed)).toEqual(LOWEST);
    expect(Object.keys(LOWEST)).toHaveLength(11);
  });

  it('starts the sandbox on the lowest oidc-provider', async () => {
    const said = await outside.run('node', [
      '-e',
      `import('nestjs-exhibitor/testing')
        .then(({ ExhibitorSandbox }) => ExhibitorSandbox.start())
        .then((sandbox) => sandbox.stop())
        .then(() => console.log('stopped'))`,
    ]);
    expect(said).toContain('stopped');
  });

  it('is healthy on the lowest Terminus, also while the token endpoint fails and a token is held', async () => {
    const said = await outside.run('node', ['--input-type=commonjs', '-e', HEALTH]);
    expect(JSON.parse(said)).toMatchObject([
      { status: 'ok', details: { it: { status: 'up', circuit: 'closed' } } },
      { status: 'ok', details: { it: { status: 'up', circuit: 'closed' } } },
    ]);
  });

  it('runs Jest with the configuration of the README', async () => {
    const settings = JSON.parse(readFileSync(join(outside.folder, 'package.json'), 'utf8')) as {
      jest: object;
    };
    expect(settings.jest).toMatchObject(jestSettings());
    const said = await outside.run('npx', ['jest', '--ci'], environment(sandbox, 'acme', {}, 0));
    expect(said).toMatch(/Tests:\s+4 passed, 4 total/);
  });
});

describe('a host on Nest 11 with many tenants', () => acceptsEveryLogin('express', () => outside));

/** Prints two checks: the second one while the token endpoint fails. */
const HEALTH = `
  require('reflect-metadata');
  const { Module } = require('@nestjs/common');
  const { NestFactory } = require('@nestjs/core');
  const { HealthCheckService, TerminusModule } = require('@nestjs/terminus');
  const { ExhibitorModule } = require('nestjs-exhibitor');
  const { ExhibitorHealthIndicator } = require('nestjs-exhibitor/terminus');
  const { ExhibitorSandbox } = require('nestjs-exhibitor/testing');

  ExhibitorSandbox.start().then(async (sandbox) => {
    const secrets = ['a cookie secret of 32 characters or more'];
    const options = { tenant: sandbox.tenantOptions('acme'), secrets };
    class Host {}
    Module({
      imports: [TerminusModule, ExhibitorModule.forRoot(options)],
      providers: [ExhibitorHealthIndicator],
    })(Host);
    const app = await NestFactory.createApplicationContext(Host, { logger: false });
    const isHealthy = () => app.get(ExhibitorHealthIndicator).isHealthy('it');
    const up = await app.get(HealthCheckService).check([isHealthy]);
    sandbox.failNext('token', { kind: 'status', status: 503 }, Infinity);
    console.log(JSON.stringify([up, await app.get(HealthCheckService).check([isHealthy])]));
    await app.close();
    await sandbox.stop();
  });`;
