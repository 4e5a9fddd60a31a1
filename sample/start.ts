import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { createRequire } from 'node:module';
import { dirname, join } from 'node:path';
import { setTimeout } from 'node:timers/promises';
import { parseEnv } from 'node:util';
import { exhibitorOptionsFrom } from 'nestjs-exhibitor';
import { createSample } from './main.js';
import { SANDBOX_PORTALS } from './portals.js';
import { portOf, requireFree, StartError } from './ports.js';
import { faultsOf } from './tour/faults.js';

const PLATFORMS = ['express', 'fastify'] as const;

/** Functions that stop what has been started. They are called in reverse order. */
const stopFunctions: (() => Promise<unknown>)[] = [];

async function start(): Promise<void> {
  const port = portOf('PORT', process.env['PORT'], 3000);
  const sandboxPort = portOf('SANDBOX_PORT', process.env['SANDBOX_PORT'], 4010);
  if (port === sandboxPort) {
    throw new StartError('PORT and SANDBOX_PORT must differ.');
  }
  const platform = PLATFORMS.find((name) => name === (process.env['SAMPLE_PLATFORM'] || 'express'));
  if (platform === undefined) {
    throw new StartError(`SAMPLE_PLATFORM must be ${PLATFORMS.join(' or ')}.`);
  }
  await requireFree('PORT', port);
  await requireFree('SANDBOX_PORT', sandboxPort);
  const address = `http://127.0.0.1:${port}`;
  const keys = SANDBOX_PORTALS.map(({ tenant }) => tenant);
  const ofTenants = keys.flatMap((key) => [
    '--tenant',
    key,
    '--redirect-uri',
    `${address}/${key}/auth/callback`,
  ]);
  // About the latency of the real service, so that the progress of a list is visible.
  const env = await startSandbox(['--port', String(sandboxPort), '--latency', '60', ...ofTenants]);
  const sandbox = `http://127.0.0.1:${sandboxPort}`;
  const tenants = keys.map((key) => {
    const { tenant } = exhibitorOptionsFrom(env, { prefix: `${key.toUpperCase()}_` });
    // The provider has a session of its own. The logout ends it too, so that another person can be chosen at the next login.
    const logout = { endSession: true, postLogoutRedirectUri: `${address}/${key}` };
    return [key, { ...tenant, login: { ...tenant.login, ...logout } }];
  });
  const app = await createSample(
    {
      tenants: Object.fromEntries(tenants),
      portals: SANDBOX_PORTALS,
      administrators: ['olga.one@example.com'],
      // A new secret for each start, which invalidates all cookies. A real host reads its secrets from a secret store.
      secrets: [env['COOKIE_SECRET'] ?? ''],
      faults: faultsOf(sandbox),
    },
    platform,
  );
  stopFunctions.push(() => app.close());
  await app.listen(port, '127.0.0.1');

  // The start page shows the size of each event. Its reply shows that the sandbox works too.
  await fetch(address).then((response) => response.text());
  console.log(`Sample ready at ${address}`);
  console.log(`What it sends to the service: ${sandbox}/sandbox`);
}

/** Runs `nestjs-exhibitor sandbox` in a process of its own. Resolves with the environment that it prints. */
async function startSandbox(options: readonly string[]): Promise<NodeJS.Dict<string>> {
  const root = dirname(createRequire(import.meta.url).resolve('nestjs-exhibitor/package.json'));
  const command = join(root, 'dist/development/bin/nestjs-exhibitor.js');
  const sandbox = spawn(process.execPath, [command, 'sandbox', ...options], {
    stdio: ['ignore', 'pipe', 'inherit'],
  });
  const ended = once(sandbox, 'exit');
  stopFunctions.push(() => {
    sandbox.kill();
    return ended;
  });
  let text = '';
  for await (const chunk of sandbox.stdout.iterator({ destroyOnReturn: false })) {
    text += chunk;
    const [environment] = /^ACME_TENANT_ID=.*\nPORT=\d+\n/ms.exec(text) ?? [];
    if (environment !== undefined) {
      return parseEnv(environment);
    }
  }
  // Ctrl-C goes to both processes, and perhaps to this one last.
  await setTimeout(500);
  throw new StartError('The sandbox has not started.');
}

// `on` instead of `once`: Ctrl-C arrives twice, from the terminal and from npm.
const stopRequested = new Promise<void>((resolve) => {
  for (const signal of ['SIGINT', 'SIGTERM']) {
    process.on(signal, () => resolve());
  }
});

try {
  // Ctrl-C ends the sandbox too. What fails in `start` by that is not shown.
  await Promise.race([start(), stopRequested]);
  await stopRequested;
} catch (error) {
  console.error(error instanceof StartError ? error.message : error);
  process.exitCode = 1;
} finally {
  for (const stop of stopFunctions.toReversed()) {
    await stop();
  }
}

// At once: while Node frees its memory no handler is left, and a second Ctrl-C would end the process by its signal.
process.exit();
