import type { ChildProcess } from 'node:child_process';
import { buffer } from 'node:stream/consumers';
import { gunzipSync } from 'node:zlib';
import { readFileSync, rmSync } from 'node:fs';
import { join } from 'node:path';
import { afterAll, afterEach, beforeAll, describe, expect, it } from '@jest/globals';
import { ExhibitorSandbox } from '../../lib/testing/index.js';
import { freePort, startServer, type TestServer } from '../support/server.js';
import { eventually } from '../support/wait.js';
import { environment, useHost } from './host-process.js';
import { Outside, pack, ROOT, versions } from './tarball.js';

/** `@nestjs/observe` puts a proxy in front of every provider. Private fields cannot be read through a proxy. */
describe('a host that @nestjs/observe instruments', () => {
  const host = new Outside();
  let sandbox: ExhibitorSandbox;
  let collector: TestServer;
  /** What the agent sends. */
  let reported = '';
  let child: ChildProcess | undefined;
  beforeAll(async () => {
    await install();
    sandbox = await ExhibitorSandbox.start();
    collector = await startServer(async (request, response) => {
      reported += gunzipSync(await buffer(request)).toString();
      response.end();
    });
  });
  afterEach(() => void child?.kill('SIGKILL'));
  afterAll(async () => {
    host.remove();
    await sandbox?.stop();
    await collector?.stop();
  });

  /** The newest version of everything. */
  async function install(): Promise<void> {
    const { tarball } = await pack();
    host.copy(join(ROOT, 'test/package/hosts/app'));
    host.copy(join(ROOT, 'test/package/hosts/observed'));
    rmSync(join(host.folder, 'app.spec.ts'));
    host.edit('package.json', (manifest) => ({ ...manifest, type: 'module' }));
    await host.install(
      tarball,
      ...['common', 'core', 'platform-express', 'platform-fastify'].map((name) => `@nestjs/${name}@12`),
      '@nestjs/observe@0.3',
      ...versions('@nestjs/axios', '@nestjs/passport', 'axios', 'passport', 'rxjs', 'reflect-metadata'),
      ...versions('@types/node', '@types/express', '@types/jest', 'typescript'),
    );
    await host.run('node', ['node_modules/typescript/bin/tsc', '-p', '.']);
  }

  it('has the settings of docs/observability.md', () => {
    const [page = '', main = ''] = ['docs/observability.md', 'test/package/hosts/observed/main.ts'].map(
      (file) => readFileSync(join(ROOT, file), 'utf8'),
    );
    const settings = main.match(/(skipInstrumentation|outgoing): .*(?=,$)/gm) ?? [];
    expect(settings.map((setting) => page.includes(setting))).toEqual([true, true]);
  });

  it.each(['express', 'fastify'])(
    'on %s boots, logs in and serves guarded requests, and reports no address',
    async (adapter) => {
      const port = await freePort();
      const redirectUri = `http://127.0.0.1:${port}/auth/callback`;
      const env = environment(sandbox, 'acme', { redirectUri }, port);
      reported = '';
      child = host.start('built/main.js', { ...env, ADAPTER: adapter, COLLECTOR: collector.url });
      // The list is read after the lookup.
      const hasReported = () => eventually(() => reported.includes('/api/v1/exhibitor/event/'), 10_000);
      await useHost(sandbox, `http://127.0.0.1:${port}`, child, hasReported);
      expect(reported).not.toContain('sam.several');
      expect(reported).not.toContain('Clock');
    },
  );
});
