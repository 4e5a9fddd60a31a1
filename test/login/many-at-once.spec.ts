import { afterAll, beforeAll, describe, expect, it } from '@jest/globals';
import type { Host } from '../support/host.js';
import { ScriptedProvider } from '../support/provider.js';
import { Visitor, type Reply } from '../support/visitor.js';
import type { Flow } from './flows.js';
import { withProvider } from './hosts.js';
import { expectRefusal, identityOf, pendingLogins, toHost, toProvider, type Arrival } from './journey.js';

let provider: ScriptedProvider;
let other: ScriptedProvider;
const start = withProvider((started) => (provider = started));
beforeAll(async () => {
  other = await ScriptedProvider.start();
});
afterAll(() => other?.stop());

describe('many logins at once', () => {
  it.each<Flow>(['code', 'code id_token'])(
    'by %s: two tabs at once, each with its own page',
    async (responseType) => {
      const host = await start({ login: { responseType } });
      const visitor = new Visitor();
      const first = await toProvider(visitor, host, '?returnTo=/first&eventId=event-1');
      const second = await toProvider(visitor, host, '?returnTo=/second&eventId=event-2');
      expect(pendingLogins(visitor, host)).toHaveLength(2);
      expect((await toHost(visitor, second)).location).toBe(`${host.url}/second`);
      expect(await identityOf(visitor, host)).toMatchObject({ eventId: 'event-2' });
      expect((await toHost(visitor, first)).location).toBe(`${host.url}/first`);
      expect(await identityOf(visitor, host)).toMatchObject({ eventId: 'event-1' });
      expect(pendingLogins(visitor, host)).toEqual([]);
    },
  );

  it('at two tenants in one browser: each is finished at its own tenant', async () => {
    const host = await start({}, (callback) => ({
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
    const host = await start();
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
});

describe('a rotation of the secrets', () => {
  const OLD = 'the old cookie secret of these tests, 32+ characters';
  const NEW = 'the new cookie secret of these tests, 32+ characters';

  /** A host at each step of the rotation. */
  let before: Host;
  let appended: Host;
  let promoted: Host;
  let removed: Host;
  beforeAll(async () => {
    let own: string | undefined;
    const hostWith = (secrets: string[]): Promise<Host> =>
      start({}, (callback) => ({ tenant: provider.tenantOptions((own ??= callback)), secrets }));
    before = await hostWith([OLD]);
    appended = await hostWith([OLD, NEW]);
    promoted = await hostWith([NEW, OLD]);
    removed = await hostWith([NEW]);
  });

  const at = (host: Host, arrival: Arrival): Arrival => ({ ...arrival, callback: host.callback });

  const logInAt = async (visitor: Visitor, host: Host): Promise<Reply> =>
    toHost(visitor, at(host, await toProvider(visitor, host)));

  it('keeps pending logins until the old secret is removed', async () => {
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
    const visitor = new Visitor();
    const arrival = await toProvider(visitor, before);
    expectRefusal(await toHost(visitor, at(removed, arrival)), 'state');
    expect((await logInAt(visitor, removed)).status).toBe(303);
  });
});
