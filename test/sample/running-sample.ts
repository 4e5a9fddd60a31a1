import type { SandboxExhibitor } from 'nestjs-exhibitor/testing';
import { createSample } from '../../sample/main.js';
import { SANDBOX_PORTALS } from '../../sample/portals.js';
import { faultsOf } from '../../sample/tour/faults.js';
import { clockOf } from '../support/clock.js';
import { freePort } from '../support/server.js';
import { startSandbox } from '../support/sandbox.js';

/** The exhibitors of a person at an event of acme. */
export function exhibitorsOf(
  { sandbox }: Pick<RunningSample, 'sandbox'>,
  person: string,
  event: string,
): SandboxExhibitor[] {
  const all = sandbox.exhibitors(event, 'acme');
  return all.filter(({ contactEmails }) => contactEmails.includes(`${person}@example.com`));
}

export type RunningSample = Awaited<ReturnType<typeof startSample>>;

/** The sample and its sandbox in this process, so that a test can read the requests to the sandbox. */
export async function startSample(platform?: 'express' | 'fastify') {
  const port = await freePort();
  const origin = `http://127.0.0.1:${port}`;
  const sandbox = await startSandbox();
  const tenants = SANDBOX_PORTALS.map(({ tenant }) => {
    const redirectUri = `${origin}/${tenant}/auth/callback`;
    const { login, ...options } = sandbox.tenantOptions(tenant, { redirectUri });
    const postLogoutRedirectUri = `${origin}/${tenant}`;
    return [tenant, { ...options, login: { ...login, endSession: true, postLogoutRedirectUri } }];
  });
  const app = await createSample(
    {
      tenants: Object.fromEntries(tenants),
      portals: SANDBOX_PORTALS,
      administrators: ['olga.one@example.com'],
      secrets: ['a secret of the tests, long enough to seal cookies'],
      faults: faultsOf(sandbox.url),
    },
    platform,
  );
  // The tests cause failures and assert what is shown of them.
  app.useLogger(false);
  await app.listen(port, '127.0.0.1');
  return {
    /** The portal of the tenant acme. */
    url: `${origin}/acme`,
    sandbox,
    clock: clockOf(app),
    close: async () => {
      await app.close();
      await sandbox.stop();
    },
  };
}
