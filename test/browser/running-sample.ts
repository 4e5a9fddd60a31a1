import type { NestExpressApplication } from '@nestjs/platform-express';
import type { ExhibitorSandbox } from 'nestjs-exhibitor/testing';
import { SANDBOX_EVENTS } from '../../sample/events/trade-events.js';
import { createSample } from '../../sample/main.js';
import { freePort } from '../support/server.js';
import { startSandbox } from '../support/sandbox.js';

/** The sample and its sandbox in this process, so that a test can read the requests to the sandbox. */
export interface RunningSample {
  readonly url: string;
  readonly sandbox: ExhibitorSandbox;
  readonly app: NestExpressApplication;
  stop(): Promise<void>;
}

export async function startSample(): Promise<RunningSample> {
  const port = await freePort();
  const url = `http://127.0.0.1:${port}`;
  const sandbox = await startSandbox();
  const tenantOptions = sandbox.tenantOptions('acme', { redirectUri: `${url}/auth/callback` });
  const app = await createSample({
    tenant: 'acme',
    tenantOptions: {
      ...tenantOptions,
      login: { ...tenantOptions.login, endSession: true, postLogoutRedirectUri: `${url}/` },
    },
    secrets: ['a secret of the tests, long enough to seal cookies'],
    events: SANDBOX_EVENTS,
  });
  // The tests cause failures and assert what is shown of them.
  app.useLogger(false);
  await app.listen(port, '127.0.0.1');
  return {
    url,
    sandbox,
    app,
    stop: async () => {
      await app.close();
      await sandbox.stop();
    },
  };
}
