import { execFile } from 'node:child_process';
import { promisify } from 'node:util';
import { afterAll, beforeAll, expect, it } from '@jest/globals';
import { describeWith } from '../support/programs.js';
import { freePort, sendJson, startServer, type TestServer } from '../support/server.js';
import { tenantAt } from '../support/tenant-at.js';
import { eventually } from '../support/wait.js';
import type { ProcessCall } from './commands.js';
import type { CompiledSources } from './compile.js';
import { compileHost, startProcess, type FleetProcess } from './fleet.js';

const TENANTS = Array.from({ length: 25 }, (_, number) => `t${number}`);

const prlimit = { name: 'prlimit', files: ['prlimit'], variable: 'PRLIMIT' };
describeWith(prlimit, 'a host with 1,024 open files and 25 tenants of a silent service', (program) => {
  let sources: CompiledSources;
  let silent: TestServer;
  let provider: TestServer;
  let host: FleetProcess;
  let url: string;

  beforeAll(async () => {
    sources = compileHost();
    silent = await startServer(() => undefined);
    provider = await startServer((_request, response) =>
      sendJson(response, { access_token: 'a', token_type: 'Bearer', expires_in: 3600 }),
    );
    const http = { deadline: 3_000, attemptTimeout: 2_000, attempts: 1 };
    const options = { ...tenantAt(silent.url, http), authUrl: provider.url };
    const port = await freePort();
    url = `http://127.0.0.1:${port}`;
    host = await startProcess(sources, {
      kind: 'express',
      port,
      secrets: ['the secret of this proof, 32 characters'],
      tenants: Object.fromEntries(TENANTS.map((key) => [key, options])),
    });
    await promisify(execFile)(program, ['-p', String(host.child.pid), '-n1024:1024']);
  }, 60_000);
  afterAll(async () => {
    await host?.kill();
    await Promise.all([silent?.stop(), provider?.stop()]);
    sources?.remove();
  });

  it('still accepts: the silent service has 256 connections', async () => {
    const calls = TENANTS.flatMap((tenant) =>
      Array.from({ length: 64 }, (): ProcessCall => {
        return { kind: 'list', tenant, eventId: 'world-2026', contactEmail: '' };
      }),
    );
    const results = host.send('run', calls);
    results.catch(() => undefined);
    await eventually(() => silent.connections.size >= 256, 10_000);
    const visits = Array.from({ length: 100 }, () => fetch(url, { signal: AbortSignal.timeout(1_500) }));
    const statuses = await Promise.all(visits.map(async (visit) => (await visit).status));
    expect([...new Set(statuses)]).toEqual([404]);
    expect(silent.connections.size).toBe(256);
    const codes = new Set((await results).map(({ code }) => code));
    expect([...codes].toSorted()).toEqual(['deadline_exceeded', 'service_unavailable']);
  });
});
