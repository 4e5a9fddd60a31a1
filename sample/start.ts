import { randomBytes } from 'node:crypto';
import { ExhibitorSandbox } from 'nestjs-exhibitor/testing';
import { SANDBOX_EVENTS } from './events/trade-events.js';
import { createSample } from './main.js';
import { portOf, requireFree, StartError } from './ports.js';

const TENANT = 'acme';

/** What has been started; it is ended in reverse. */
const running: (() => Promise<unknown>)[] = [];

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
  running.push(() => sandbox.stop());
  // About as far away as the real service, so that there is something to see of a list that loads.
  sandbox.latency = 60;

  const tenantOptions = sandbox.tenantOptions(TENANT, { redirectUri: `${address}/auth/callback` });
  const app = await createSample({
    tenant: TENANT,
    // The provider remembers who logged in last; asking each time lets a visitor be somebody else.
    tenantOptions: { ...tenantOptions, login: { ...tenantOptions.login, prompt: 'login' } },
    // New ones each time, so each start logs everybody out. A real host reads them from its secret store.
    secrets: [randomBytes(32).toString('base64url')],
    events: SANDBOX_EVENTS,
  });
  running.push(() => app.close());
  await app.listen(port, '127.0.0.1');

  // The start page shows the size of each event: once it answers, so does the sandbox behind it.
  await fetch(address).then((response) => response.text());
  console.log(`Sample ready at ${address}`);
}

/** A signal may come twice: npm passes on a Ctrl-C that the terminal has sent already. */
const signalled = new Promise<void>((resolve) => {
  for (const signal of ['SIGINT', 'SIGTERM']) {
    process.on(signal, () => resolve());
  }
});

try {
  await start();
  await signalled;
} catch (error) {
  console.error(error instanceof StartError ? error.message : error);
  process.exitCode = 1;
} finally {
  for (const end of running.toReversed()) {
    await end();
  }
}
