import { afterAll, afterEach, beforeAll, describe, expect, it } from '@jest/globals';
import { setTimeout as sleep } from 'node:timers/promises';
import type { ExhibitorModuleOptions } from '../../lib/index.js';
import { ScriptedProvider } from '../support/provider.js';
import { NameServers } from '../support/name-servers.js';
import { COOKIE_SECRET, startHost, type Host } from '../support/host.js';
import { Visitor, type Reply } from '../support/visitor.js';
import { FLOWS } from './flows.js';
import {
  expectRefusal,
  identityOf,
  logIn,
  pendingLogins,
  toHost,
  toProvider,
  type Arrival,
} from './journey.js';

let provider: ScriptedProvider;
let other: ScriptedProvider;
const hosts: Host[] = [];
beforeAll(async () => {
  provider = await ScriptedProvider.start();
  other = await ScriptedProvider.start();
});
afterEach(async () => {
  provider.script = {};
  await Promise.all(hosts.splice(0).map((host) => host?.close()));
});
afterAll(async () => {
  await provider?.stop();
  await other?.stop();
});

async function start(options: (callback: string) => ExhibitorModuleOptions): Promise<Host> {
  const host = await startHost({
    options: (callback) => ({ secrets: [COOKIE_SECRET], ...options(callback) }),
  });
  hosts.push(host);
  return host;
}

describe('many logins at once', () => {
  it.each(FLOWS)('by %s: two tabs at once, each with its own page', async (responseType) => {
    const host = await start((callback) => ({
      tenant: provider.tenantOptions(callback, { responseType }),
    }));
    const visitor = new Visitor();
    const first = await toProvider(visitor, host, '?returnTo=/first&eventId=event-1');
    const second = await toProvider(visitor, host, '?returnTo=/second&eventId=event-2');
    expect(pendingLogins(visitor, host)).toHaveLength(2);
    expect((await toHost(visitor, second)).location).toBe(`${host.url}/second`);
    expect(await identityOf(visitor, host)).toMatchObject({ eventId: 'event-2' });
    expect((await toHost(visitor, first)).location).toBe(`${host.url}/first`);
    expect(await identityOf(visitor, host)).toMatchObject({ eventId: 'event-1' });
    expect(pendingLogins(visitor, host)).toEqual([]);
  });

  it('at a tenant whose name servers are silent: they delay no login of another tenant', async () => {
    const names = NameServers.start();
    try {
      const byName = provider.url.replace('127.0.0.1', 'localhost');
      const at = (callback: string, token: string) => ({
        ...provider.tenantOptions(callback),
        endpoints: { token, userinfo: `${byName}/connect/userinfo` },
      });
      const host = await start((callback) => ({
        tenants: {
          silent: at(callback, 'https://silent.test/token'),
          other: at(callback, `${byName}/connect/token`),
        },
        resolveTenant: ({ query }) => String(query['tenant']),
      }));
      const arrivals = Array.from({ length: 20 }, async () => {
        const visitor = new Visitor();
        return { visitor, arrival: await toProvider(visitor, host, '?tenant=silent') };
      });
      const callbacks = (await Promise.all(arrivals)).map(({ visitor, arrival }) => toHost(visitor, arrival));
      await sleep(100);
      const began = performance.now();
      const reply = await logIn(new Visitor(), host, '?tenant=other');
      expect(reply.status).toBe(303);
      expect(performance.now() - began).toBeLessThan(2_000);
      expect(names.mostBlocked).toBe(1);
      names.stop();
      for (const refused of await Promise.all(callbacks)) {
        expect(refused.status).toBe(503);
      }
    } finally {
      names.stop();
    }
  });

  it('at two tenants in one browser: each is finished at its own tenant', async () => {
    const host = await start((callback) => ({
      tenants: { one: provider.tenantOptions(callback), two: other.tenantOptions(callback) },
      resolveTenant: ({ query }) => (typeof query['tenant'] === 'string' ? query['tenant'] : undefined),
    }));
    const visitor = new Visitor();
    const one = await toProvider(visitor, host, '?tenant=one');
    const two = await toProvider(visitor, host, '?tenant=two');
    const asked = [provider.count('/connect/token'), other.count('/connect/token')];
    expect((await toHost(visitor, one)).status).toBe(303);
    expect(await identityOf(visitor, host)).toMatchObject({ tenant: 'one', issuer: provider.url });
    expect((await toHost(visitor, two)).status).toBe(303);
    expect(await identityOf(visitor, host)).toMatchObject({ tenant: 'two', issuer: other.url });
    expect([provider.count('/connect/token'), other.count('/connect/token')]).toEqual(
      asked.map((count) => count + 1),
    );
  });

  it('of twenty people: each gets their own identity', async () => {
    const host = await start((callback) => ({ tenant: provider.tenantOptions(callback) }));
    // The subject contains the nonce, which the provider got from this browser.
    provider.script = { backToken: { claims: (claims) => void (claims['sub'] = `sub-${claims['nonce']}`) } };
    const subjects = await Promise.all(
      Array.from({ length: 20 }, async () => {
        const visitor = new Visitor();
        const arrival = await toProvider(visitor, host);
        const nonces = provider.seen.filter(
          ({ query }) => query.get('state') === arrival.parameters.get('state'),
        );
        expect((await toHost(visitor, arrival)).status).toBe(303);
        const expected = `sub-${nonces[0]?.query.get('nonce')}`;
        expect((await identityOf(visitor, host))?.subject).toBe(expected);
        return expected;
      }),
    );
    expect(new Set(subjects).size).toBe(20);
  });

  it('keeps identity and newest login of a browser with the maximum of cookies', async () => {
    const host = await start((callback) => ({ tenant: provider.tenantOptions(callback) }));
    const visitor = new Visitor();
    await logIn(visitor, host);
    for (let tab = 0; tab < 6; tab++) {
      await toProvider(visitor, host, `?returnTo=/${'x'.repeat(500)}`);
    }
    const sent = [...visitor.cookies('127.0.0.1')].map(([name, value]) => `${name}=${value}`).join('; ');
    // Node accepts 16 KiB of headers.
    expect(sent.length).toBeLessThan(14_000);
    expect(await identityOf(visitor, host)).toMatchObject({ subject: 'pat' });
  });
});

describe('a rotation of the secrets', () => {
  const OLD = 'the old cookie secret of these tests, 32+ characters';
  const NEW = 'the new cookie secret of these tests, 32+ characters';

  /** A host at each step of the rotation. */
  async function steps(): Promise<Record<'before' | 'appended' | 'promoted' | 'removed', Host>> {
    let own: string | undefined;
    const hostWith = (secrets: string[]): Promise<Host> =>
      start((callback) => ({ tenant: provider.tenantOptions((own ??= callback)), secrets }));
    return {
      before: await hostWith([OLD]),
      appended: await hostWith([OLD, NEW]),
      promoted: await hostWith([NEW, OLD]),
      removed: await hostWith([NEW]),
    };
  }

  const at = (host: Host, arrival: Arrival): Arrival => ({ ...arrival, callback: host.callback });

  const logInAt = async (visitor: Visitor, host: Host): Promise<Reply> =>
    toHost(visitor, at(host, await toProvider(visitor, host)));

  it('keeps pending logins until the old secret is removed', async () => {
    const { before, appended, promoted, removed } = await steps();
    for (const next of [appended, promoted]) {
      const visitor = new Visitor();
      const arrival = await toProvider(visitor, before);
      expect((await toHost(visitor, at(next, arrival))).status).toBe(303);
    }
    // A value sealed with the new secret opens in hosts that still seal with the old one, and after its removal.
    for (const next of [appended, removed]) {
      const visitor = new Visitor();
      const arrival = await toProvider(visitor, promoted);
      expect((await toHost(visitor, at(next, arrival))).status).toBe(303);
    }
  });

  it('keeps identities until the old secret is removed', async () => {
    const { before, appended, promoted, removed } = await steps();
    const visitor = new Visitor();
    await logInAt(visitor, before);
    const identity = await identityOf(visitor, before);
    expect(identity).toBeDefined();
    expect(await identityOf(visitor, appended)).toEqual(identity);
    expect(await identityOf(visitor, promoted)).toEqual(identity);
    expect(await identityOf(visitor, removed)).toBeUndefined();

    const later = new Visitor();
    await logInAt(later, promoted);
    expect(await identityOf(later, appended)).toBeDefined();
    expect(await identityOf(later, removed)).toBeDefined();
    expect(await identityOf(later, before)).toBeUndefined();
  });

  it('ignores values sealed with the removed secret', async () => {
    const { before, removed } = await steps();
    const visitor = new Visitor();
    const arrival = await toProvider(visitor, before);
    expectRefusal(await toHost(visitor, at(removed, arrival)), 'state');
    expect((await logInAt(visitor, removed)).status).toBe(303);
  });
});
