import { describe, expect, it } from '@jest/globals';
import { lastValueFrom, toArray } from 'rxjs';
import { startRestHost, threeTenants } from './rest-host.js';
import { useHost, useSandbox } from '../support/lifetimes.js';
import { traced } from '../support/traced-requests.js';

const TENANTS = ['acme', 'globex', 'initech'] as const;
type Key = (typeof TENANTS)[number];

/** Each tenant reads an event that only it has: the path tells who asked, whatever the headers say. */
const eventOf = (key: string) => `only-${key}`;

const sandbox = await useSandbox();
for (const key of TENANTS) {
  const records = Array.from({ length: 120 }, (_, index) => ({
    id: `${key}-${index}`,
    contactEmails: [`person${index % 5}@example.com`],
  }));
  sandbox.setExhibitors(eventOf(key), records, key);
}
// On a busy machine, 200 calls at once may take longer than a call of a host.
const http = { deadline: 25_000, attemptTimeout: 25_000 };
const host = useHost(() => startRestHost({ ...threeTenants(sandbox), http }));

/** Ids of all exhibitors that one of the calls gives. */
async function call(number: number, key: Key): Promise<unknown[]> {
  const view = number % 2 === 0 ? host.exhibitors : host.exhibitors.forTenant(key);
  const options = number % 2 === 0 ? { tenant: key } : {};
  const kinds = [
    () => view.stream(eventOf(key), options).pipe(toArray()),
    () =>
      view.lookup(eventOf(key), `person${number % 5}@example.com`, { ...options, fresh: number % 7 === 0 }),
    async () => (await lastValueFrom(view.list(eventOf(key), { ...options, page: 2 }))).data,
    async () => (await lastValueFrom(view.snapshot(eventOf(key), options))).exhibitors,
  ] as const;
  const answer = kinds[number % kinds.length]?.() ?? [];
  const records = 'subscribe' in answer ? await lastValueFrom(answer) : await answer;
  return records.map(({ id }) => id);
}

describe('200 mixed calls at once over three tenants', () => {
  it('never send the token or the id of another tenant, and never give its exhibitors', async () => {
    const answers = Array.from({ length: 200 }, async (_, number) => {
      const key = TENANTS[number % TENANTS.length] ?? 'acme';
      // Tokens are revoked in between, so that renewals mix too.
      if (number % 50 === 49) {
        sandbox.revokeTokens();
      }
      return { key, ids: await call(number, key) };
    });
    for (const { key, ids } of await Promise.all(answers)) {
      expect(ids.length).toBeGreaterThan(0);
      expect(ids.filter((id) => !String(id).startsWith(`${key}-`))).toEqual([]);
    }
    const requests = traced(sandbox);
    expect(new Set(requests.map(({ tenantKey }) => tenantKey))).toEqual(new Set(TENANTS));
    expect(requests.length).toBeGreaterThan(200);
    for (const { operation, tenantId, tokenClaims, eventId } of requests) {
      if (operation !== 'token') {
        const owner = sandbox.tenants.find(({ key }) => eventId === eventOf(key));
        expect([tenantId, tokenClaims?.['client_id']]).toEqual([owner?.tenantId, owner?.clientId]);
      }
    }
  });
});
