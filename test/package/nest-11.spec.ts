import { afterAll, beforeAll, describe, expect, it } from '@jest/globals';
import { ExhibitorSandbox } from '../../lib/development/testing/index.js';
import { jestSettings, readPage } from '../structure/readme.js';
import { environment, HostProcess, useHost } from './host-process.js';
import { manifest, Outside, pack, versions } from './tarball.js';

/** The peer dependencies, each in the lowest version that is accepted. */
const LOWEST = Object.fromEntries(
  Object.entries(manifest.peerDependencies).map(([name, range]) => {
    const [, major = '', minor = '0', patch = '0'] = /^\^(\d+)(?:\.(\d+))?(?:\.(\d+))?/.exec(range) ?? [];
    return [name, `${major}.${minor}.${patch}`];
  }),
);

describe('a CommonJS host on Nest 11 that installed the tarball with the lowest peers', () => {
  const host = new Outside();
  let sandbox: ExhibitorSandbox;
  beforeAll(async () => {
    host.copy('test/package/hosts/app');
    const { tarball } = await pack();
    await host.install(
      tarball,
      ...Object.entries(LOWEST).map(([name, version]) => `${name}@${version}`),
      'oidc-provider@9.0.0',
      // Not peers. Before 11.0.3 the Fastify adapter accepts Nest 10 only.
      '@nestjs/platform-express@11.0.0',
      '@nestjs/platform-fastify@11.0.3',
      '@nestjs/testing@11.0.0',
      'typescript@~5.9',
      'jest@^30',
      'ts-jest@^29',
      '@types/jest@^30',
      ...versions('@types/node', '@types/express'),
    );
    await host.compile();
    sandbox = await ExhibitorSandbox.start();
  });
  afterAll(async () => {
    host.remove();
    await sandbox?.stop();
  });

  it.each([
    ['express', 'code'],
    ['fastify', 'code'],
    ['express', 'code id_token'],
    ['fastify', 'code token id_token'],
  ])('logs a person in on %s by %s', async (adapter, responseType) => {
    const running = await HostProcess.start(host, ['built/main.js'], (url) => ({
      ...environment(sandbox, 'globex', url),
      ADAPTER: adapter,
      RESPONSE_TYPE: responseType,
    }));
    await useHost(sandbox, running);
    await running.end();
  });

  it('has exactly the lowest version of each peer', () => {
    const installed = Object.keys(LOWEST).map((name) => [name, host.versionOf(name)]);
    expect(Object.fromEntries(installed)).toEqual(LOWEST);
    expect(Object.keys(LOWEST)).toHaveLength(10);
  });

  it('is healthy on the lowest Terminus, with a sandbox on the lowest oidc-provider', async () => {
    const said = await host.run('node', ['--input-type=commonjs', '-e', HEALTH]);
    expect(JSON.parse(said)).toMatchObject({ it: { status: 'up', circuit: 'closed' } });
  });

  it('runs Jest with the configuration of the README', async () => {
    const { jest } = JSON.parse(readPage('test/package/hosts/app/package.json')) as { jest: object };
    expect(jest).toMatchObject(jestSettings());
    const said = await host.run('npx', ['jest', '--ci'], sandbox.environment('acme'));
    expect(said).toMatch(/Tests:\s+4 passed, 4 total/);
  });
});

const HEALTH = `
  require('reflect-metadata');
  const { Module } = require('@nestjs/common');
  const { NestFactory } = require('@nestjs/core');
  const { TerminusModule } = require('@nestjs/terminus');
  const { ExhibitorModule } = require('nestjs-exhibitor');
  const { ExhibitorHealthIndicator } = require('nestjs-exhibitor/terminus');
  const { ExhibitorSandbox } = require('nestjs-exhibitor/testing');

  ExhibitorSandbox.start().then(async (sandbox) => {
    const secrets = ['a cookie secret of 32 characters or more'];
    const module = ExhibitorModule.forRoot({ tenant: sandbox.tenantOptions('acme'), secrets });
    class Host {}
    Module({ imports: [TerminusModule, module], providers: [ExhibitorHealthIndicator] })(Host);
    const app = await NestFactory.createApplicationContext(Host, { logger: false });
    console.log(JSON.stringify(await app.get(ExhibitorHealthIndicator).isHealthy('it')));
    await app.close();
    await sandbox.stop();
  });`;
