/** Starts the sandbox and the application. PostgreSQL and Redis must run. */
import { randomBytes } from 'node:crypto';
import { ExhibitorSandbox } from 'nestjs-exhibitor/testing';
import { portOf, requireFree, StartError } from '../ports.js';
import { createMirrorApp } from './main.js';

const { DATABASE_URL: databaseUrl, REDIS_URL: redisUrl } = process.env;
const EXAMPLES: Readonly<Record<string, string>> = {
  DATABASE_URL: 'postgres://postgres@127.0.0.1:5432/postgres',
  REDIS_URL: 'redis://127.0.0.1:6379',
};

// `on` instead of `once`: Ctrl-C arrives twice, from the terminal and from npm.
const stopRequested = new Promise<void>((resolve) => {
  for (const signal of ['SIGINT', 'SIGTERM']) {
    process.on(signal, () => resolve());
  }
});

try {
  if (!databaseUrl || !redisUrl) {
    const missing = Object.keys(EXAMPLES).filter((name) => !process.env[name]);
    const examples = missing.map((name) => `${name}=${EXAMPLES[name]}`);
    throw new StartError(`Set ${missing.join(' and ')}, for example ${examples.join(' ')}`);
  }
  const port = portOf('PORT', process.env['PORT'], 3000);
  const sandboxPort = portOf('SANDBOX_PORT', process.env['SANDBOX_PORT'], 4010);
  await requireFree('PORT', port);
  await requireFree('SANDBOX_PORT', sandboxPort);
  const sandbox = await ExhibitorSandbox.start({ port: sandboxPort });
  const tenants = sandbox.tenants.map(({ key }) => key);
  const app = await createMirrorApp({
    databaseUrl,
    redisUrl,
    tenants: Object.fromEntries(
      tenants.map((key) => [
        key,
        sandbox.tenantOptions(key, { redirectUri: `http://127.0.0.1:${port}/${key}/auth/callback` }),
      ]),
    ),
    secrets: [randomBytes(32).toString('base64url')],
    operators: ['olga.one@example.com'],
    events: tenants.flatMap((tenant) => sandbox.events.map(({ id }) => ({ tenant, eventId: id }))),
    every: 10_000,
  });
  const change = setTimeout(() => halve(sandbox, 'national-2026'), 30_000);
  await app.listen(port, '127.0.0.1');
  console.log(`Mirror ready at http://127.0.0.1:${port}`);
  console.log('Log in as Olga One. In 30 s, half of the exhibitors of national-2026 leave.');
  await stopRequested;
  clearTimeout(change);
  await app.close();
  await sandbox.stop();
  // At once: while Node frees its memory no handler is left, and a second Ctrl-C would end the process by its signal.
  process.exit();
} catch (error) {
  console.error(error instanceof StartError ? error.message : error);
  process.exit(1);
}

/** Half of the exhibitors of an event leave, which the mirror holds back. */
function halve(sandbox: ExhibitorSandbox, eventId: string): void {
  for (const { key } of sandbox.tenants) {
    const records = sandbox.exhibitors(eventId, key);
    sandbox.setExhibitors(eventId, records.slice(records.length / 2), key);
  }
}
