/** Logins that a host must accept, with a host that installed the tarball. */
import type { ChildProcess } from 'node:child_process';
import { join } from 'node:path';
import { afterAll, afterEach, beforeAll, it } from '@jest/globals';
import { acceptedCasesIn, type CaseHost } from '../login/accepted-cases.js';
import { FLOWS, nameOf } from '../login/flows.js';
import { expectAccepted } from '../login/journey.js';
import { ScriptedProvider } from '../support/provider.js';
import { freePort } from '../support/server.js';
import { isUp } from './host-process.js';
import type { Outside } from './tarball.js';

/** Every case of every flow, each with its own tenant: one process serves them all. */
const CASES = FLOWS.flatMap((flow) =>
  acceptedCasesIn(flow).map((accepted) => ({ flow, accepted, tenant: `${flow} ${nameOf(accepted)}` })),
);

/** The tests that a host in its own process, on an adapter, accepts every login that it must accept. */
export function acceptsEveryLogin(adapter: string, installed: () => Outside): void {
  let provider: ScriptedProvider;
  let child: ChildProcess | undefined;
  let host: Omit<CaseHost, 'query'>;
  beforeAll(async () => {
    provider = await ScriptedProvider.start();
    const port = await freePort();
    const url = `http://127.0.0.1:${port}`;
    const tenants = CASES.map(({ flow, accepted: { login }, tenant }) => {
      const changed = typeof login === 'function' ? login(provider) : login;
      return [tenant, provider.tenantOptions(`${url}/auth/callback`, { responseType: flow, ...changed })];
    });
    const outside = installed();
    outside.write('tenants.json', Object.fromEntries(tenants));
    const file = join(outside.folder, 'tenants.json');
    child = outside.start('built/main.js', { PORT: String(port), ADAPTER: adapter, TENANTS_FILE: file });
    await isUp(url, child);
    host = { url, skip: (ms) => fetch(`${url}/clock/${ms}`, { method: 'POST' }) };
  });
  afterEach(() => {
    provider.script = {};
  });
  afterAll(async () => {
    child?.kill('SIGKILL');
    await provider?.stop();
  });

  it.each(CASES)('accepts $tenant', async ({ accepted: { script = {}, run, seen }, tenant }) => {
    provider.script = script;
    const query = `?tenant=${encodeURIComponent(tenant)}`;
    if (run === undefined) {
      await expectAccepted(host, query);
    } else {
      await run({ ...host, query }, provider);
    }
    seen?.(provider);
  });
}
