import { randomBytes } from 'node:crypto';
import { ExhibitorSandbox } from 'nestjs-exhibitor/testing';
import { SANDBOX_EVENTS } from './events/trade-events.js';
import { createSample } from './main.js';
import { portOf, requireFree, StartError } from './ports.js';

const TENANT = 'acme';

/** Functions that stop what has been started. They are called in reverse order. */
const stopFunctions: (() => Promise<unknown>)[] = [];

async function start(): Promise<void> {
  const port = portOf('PORT', process.env['PORT'], 3000);
  const sandboxPort = portOf('SANDBOX_PORT', process.env['SANDBOX_PORT'], 4010);
  if (port === sandboxPort) {
    throw new StartError('PORT and SANDBOX_PORT must differ.');
  }
  await requireFree('PORT', port);
  await requireFree('SANDBOX_PORT', sandboxPort);
  const address = `http://127.0.0.1:${port}`;

  const sandbox = await ExhibitorSandbox.start({ port: sandboxPort }).catch((error: Error) => {
    throw new StartError(error.message);
  });
  stopFunctions.push(() => sandbox.stop());
  // About the latency of the real service, so that the progress of a list is visible.
  sandbox.latency = 60;

  const tenantOptions = sandbox.tenantOptions(TENANT, { redirectUri: `${address}/auth/callback` });
  const app = await createSample({
    tenant: TENANT,
    // The provider has a session of its own. The logout ends it too, so that another person can be chosen at the next login.
    tenantOptions: {
      ...tenantOptions,
      login: { ...tenantOptions.login, endSession: true, postLogoutRedirectUri: `${address}/` },
    },
    // A new secret for each start, which invalidates all cookies. A real host reads its secrets from a secret store.
    secrets: [randomBytes(32).toString('base64url')],
    events: SANDBOX_EVENTS,
  });
  stopFunctions.push(() => app.close());
  await app.listen(port, '127.0.0.1');

  // The start page shows the size of each event. Its reply shows that the sandbox works too.
  await fetch(address).then((response) => response.text());
  console.log(`Sample ready at ${address}`);
}

// `on` instead of `once`: Ctrl-C arrives twice, from the terminal and from npm.
const stopRequested = new Promise<void>((resolve) => {
  for (const signal of ['SIGINT', 'SIGTERM']) {
    process.on(signal, () => resolve());
  }
});

try {
  await start();
  await stopRequested;
} catch (error) {
  console.error(error instanceof StartError ? error.message : error);
  process.exitCode = 1;
} finally {
  for (const stop of stopFunctions.toReversed()) {
    await stop();
  }
}
