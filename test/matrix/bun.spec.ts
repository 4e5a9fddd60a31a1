import { describe, expect, it } from '@jest/globals';
import { ExhibitorSandbox } from '../../lib/testing/index.js';
import { environment } from '../package/host-process.js';
import { freePort } from '../support/server.js';
import { given, prepareHost } from './host.js';

describe('a host on Bun', () => {
  it.each(['express', 'fastify'])('with %s ends at boot and says what to use instead', async (adapter) => {
    const host = await prepareHost('12', 'npm');
    const sandbox = await ExhibitorSandbox.start();
    try {
      const env = { ...environment(sandbox, 'acme', {}, await freePort()), ADAPTER: adapter };
      await expect(host.run(given('MATRIX_BUN'), ['built/main.js'], env)).rejects.toThrow(
        /^.*nestjs-exhibitor does not support Bun \(1\.\d+\.\d+\): run the host with Node\.js/m,
      );
    } finally {
      await sandbox.stop();
    }
  });
});
