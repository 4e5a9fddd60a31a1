import { rmSync } from 'node:fs';
import { join } from 'node:path';
import { buffer } from 'node:stream/consumers';
import { gunzipSync } from 'node:zlib';
import { afterAll, beforeAll, describe, expect, it } from '@jest/globals';
import { ExhibitorSandbox } from '../../lib/development/testing/index.js';
import { readPage } from '../structure/readme.js';
import { startServer, type TestServer } from '../support/server.js';
import { eventually } from '../support/wait.js';
import { environment, HostProcess, useHost } from './host-process.js';
import { Outside, stockProject } from './tarball.js';

/** `@nestjs/observe` puts a proxy in front of every provider. Private fields cannot be read through a proxy. */
describe('a host that @nestjs/observe instruments', () => {
  const host = new Outside();
  let sandbox: ExhibitorSandbox;
  let collector: TestServer;
  /** What the agent sends. */
  let reported = '';
  beforeAll(async () => {
    host.link(await stockProject(12));
    host.copy('test/package/hosts/app');
    host.copy('test/package/hosts/observed');
    rmSync(join(host.folder, 'app.spec.ts'));
    host.edit('package.json', (manifest) => ({ ...manifest, type: 'module' }));
    await host.compile('--types', 'node');
    sandbox = await ExhibitorSandbox.start();
    collector = await startServer(async (request, response) => {
      reported += gunzipSync(await buffer(request)).toString();
      response.end();
    });
  });
  afterAll(async () => {
    host.remove();
    await sandbox?.stop();
    await collector?.stop();
  });

  it('has the settings of docs/observability.md', () => {
    const main = readPage('test/package/hosts/observed/main.ts');
    const settings = main.match(/(skipInstrumentation|outgoing): .*(?=,$)/gm) ?? [];
    const page = readPage('docs/observability.md');
    expect(settings.map((setting) => page.includes(setting))).toEqual([true, true]);
  });

  it.each(['express', 'fastify'])(
    'on %s boots, logs in and serves guarded requests, and reports no address',
    async (adapter) => {
      reported = '';
      const running = await HostProcess.start(host, ['built/main.js'], (url) => ({
        ...environment(sandbox, 'acme', url),
        ADAPTER: adapter,
        COLLECTOR: collector.url,
      }));
      await useHost(sandbox, running);
      // The list is read after the lookup.
      await eventually(() => reported.includes('/api/v1/exhibitor/event/'), 10_000);
      await running.end();
      expect(reported).not.toContain('sam.several');
      expect(reported).not.toContain('Clock');
    },
  );
});
