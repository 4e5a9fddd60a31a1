import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from '@jest/globals';
import { ExhibitorSandbox } from '../../lib/development/testing/index.js';
import {
  environment,
  HostProcess,
  startSandboxCommand,
  useHost,
  useSandboxCommand,
} from '../package/host-process.js';
import type { Outside } from '../package/tarball.js';
import { given, prepareHost, type Cell } from './host.js';

const ENTRY_POINTS = ['', '/redis', '/terminus', '/doctor', '/testing', '/mirror'].map(
  (path) => `nestjs-exhibitor${path}`,
);
const { node, nest, adapter, manager } = JSON.parse(given('MATRIX_CELL')) as Cell;

describe(`a host that ${manager} installed, with Nest ${nest} and ${adapter} on Node ${node}`, () => {
  let host: Outside;
  let sandbox: ExhibitorSandbox;
  beforeAll(async () => {
    host = await prepareHost(nest, manager);
    sandbox = await ExhibitorSandbox.start();
  });
  afterAll(() => sandbox?.stop());

  it('has these versions', async () => {
    expect(process.version.startsWith(`v${node}.`)).toBe(true);
    expect((await host.run('node', ['-p', 'process.version'])).trim()).toBe(process.version);
    expect(host.versionOf('@nestjs/core').startsWith(`${nest}.`)).toBe(true);
  });

  it.each(['code', 'code id_token', 'code token id_token'] as const)(
    'logs a person in by %s',
    async (flow) => {
      const running = await HostProcess.start(host, ['built/main.js'], (url) => ({
        ...environment(sandbox, 'globex', url),
        ADAPTER: adapter,
        RESPONSE_TYPE: flow,
      }));
      await useHost(sandbox, running);
      await running.end();
    },
  );

  it.each(['import', 'require'])('loads every entry point by %s, and the sandbox starts', async (how) => {
    const load = how === 'import' ? 'import' : 'Promise.resolve().then(() => require';
    const loaded = (name: string): string => `${load}('${name}')${how === 'import' ? '' : ')'}`;
    const said = await host.run('node', [
      '--input-type=commonjs',
      '-e',
      `Promise.all([${ENTRY_POINTS.map(loaded).join()}])
        .then(async ([main, redis, terminus, doctor, testing, mirror]) => {
          const sandbox = await testing.ExhibitorSandbox.start();
          await sandbox.stop();
          const { ExhibitorHealthIndicator } = terminus;
          const others = [ExhibitorHealthIndicator, doctor.diagnose, mirror.copyEvent];
          const loaded = [main.ExhibitorModule, redis.RedisSharedStore, ...others];
          console.log(loaded.map((one) => typeof one).join());
        })`,
    ]);
    expect(said).toContain('function,function,function,function,function');
  });

  it('runs both commands: their help, and a sandbox until SIGTERM', async () => {
    const bin = join(host.folder, 'node_modules/.bin/nestjs-exhibitor');
    for (const command of ['sandbox', 'doctor']) {
      expect(await host.run(bin, [command, '--help'])).toContain(
        `Usage: nestjs-exhibitor ${command} [options]`,
      );
    }
    await useSandboxCommand(await startSandboxCommand(bin, host.folder));
  });

  if (nest === '11') {
    it('runs Jest with the configuration of the README', async () => {
      const jest = ['node_modules/jest/bin/jest.js', '--ci'];
      const said = await host.run('node', jest, sandbox.environment('acme'));
      expect(said).toMatch(/Tests:\s+4 passed, 4 total/);
    });
  }
});
