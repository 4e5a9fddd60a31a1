import { afterAll, beforeAll, beforeEach, describe, expect, it } from '@jest/globals';
import {
  Inject,
  Injectable,
  Module,
  type DynamicModule,
  type INestApplicationContext,
  type Type,
} from '@nestjs/common';
import { NestFactory } from '@nestjs/core';
import { firstValueFrom } from 'rxjs';
import {
  ExhibitorModule,
  ExhibitorsService,
  isExhibitorError,
  TenantRegistry,
  TokenService,
} from '../../lib/index.js';
import type { ExhibitorSandbox, SandboxRequest } from '../../lib/testing/index.js';
import { COOKIE_SECRET } from '../support/host.js';
import { startSandbox } from '../support/sandbox.js';
import type { TenantsOption } from '../support/module-options.js';

let sandbox: ExhibitorSandbox;
beforeAll(async () => {
  sandbox = await startSandbox();
});
afterAll(() => sandbox?.stop());
beforeEach(() => sandbox.clearRequests());

const restRequests = (): readonly SandboxRequest[] =>
  sandbox.requests.filter(({ operation }) => operation === 'list' || operation === 'lookup');

/** Requests whose token was issued to another tenant than the one in their header. */
const mixedUp = (): readonly SandboxRequest[] =>
  restRequests().filter(
    ({ tokenClaims, tenantKey, headerTenantKey }) =>
      tokenClaims === undefined || headerTenantKey === undefined || tenantKey !== headerTenantKey,
  );

/** A module of a host with its own registration. */
function partWith(registration: DynamicModule): { module: Type; portal: Type<Portal> } {
  @Injectable()
  class OwnPortal extends Portal {}
  @Module({ imports: [registration], providers: [OwnPortal] })
  class PartModule {}
  return { module: PartModule, portal: OwnPortal };
}

@Injectable()
class Portal {
  constructor(
    @Inject(ExhibitorsService) readonly exhibitors: ExhibitorsService,
    @Inject(TokenService) readonly tokens: TokenService,
    @Inject(TenantRegistry) readonly tenants: TenantRegistry,
  ) {}
}

describe.each(['reference', 'deep-hash'] as const)(
  'two registrations in one application (module ids by %s)',
  (moduleIdGeneratorAlgorithm) => {
    async function boot(...parts: { module: Type }[]): Promise<INestApplicationContext> {
      @Module({ imports: parts.map(({ module }) => module) })
      class AppModule {}
      return NestFactory.createApplicationContext(AppModule, {
        logger: false,
        abortOnError: false,
        moduleIdGeneratorAlgorithm,
      });
    }

    it('have their own tenants and tokens', async () => {
      const parts = ['acme', 'globex'].map((key) =>
        partWith(ExhibitorModule.forRoot({ tenant: sandbox.tenantOptions(key), secrets: [COOKIE_SECRET] })),
      );
      const app = await boot(...parts);
      const portals = parts.map(({ portal }) => app.get(portal, { strict: false }));
      const [acme, globex] = portals;
      if (acme === undefined || globex === undefined) {
        throw new Error('two portals are needed');
      }

      expect(await acme.tenants.get('default')).toMatchObject({
        tenantId: sandbox.tenantOptions('acme').tenantId,
      });
      expect(await globex.tenants.get('default')).toMatchObject({
        tenantId: sandbox.tenantOptions('globex').tenantId,
      });
      await Promise.all(
        Array.from({ length: 40 }, (_, turn) =>
          firstValueFrom((turn % 2 === 0 ? acme : globex).exhibitors.list('boutique-2026')),
        ),
      );
      expect(restRequests()).toHaveLength(40);
      expect(mixedUp()).toEqual([]);
      expect((await acme.tokens.getToken()).accessToken).not.toBe(
        (await globex.tokens.getToken()).accessToken,
      );
      expect(sandbox.requests.filter(({ operation }) => operation === 'token')).toHaveLength(2);
      await app.close();
    });

    it('are separate where their options are equal', async () => {
      const options = { tenant: sandbox.tenantOptions('acme'), secrets: [COOKIE_SECRET] };
      const parts = [
        partWith(ExhibitorModule.forRoot(options)),
        partWith(ExhibitorModule.forRoot(options)),
        partWith(ExhibitorModule.forRootAsync({ useFactory: () => options })),
      ];
      const app = await boot(...parts);
      const portals = parts.map(({ portal }) => app.get(portal, { strict: false }));
      expect(new Set(portals.map(({ tenants }) => tenants)).size).toBe(3);
      const [first, second] = portals;
      await first?.tokens.getToken();
      await first?.tokens.invalidate();
      await second?.tokens.getToken();
      await second?.tokens.getToken();
      expect(sandbox.requests.filter(({ operation }) => operation === 'token')).toHaveLength(2);
      await app.close();
    });
  },
);

describe('the tenants of one registration', () => {
  const KEYS = ['acme', 'globex', 'initech'] as const;
  const EVENTS = ['boutique-2026', 'regional-2026', 'national-2026'];

  async function callAll(tenants: TenantsOption): Promise<PromiseSettledResult<unknown>[]> {
    const part = partWith(ExhibitorModule.forRoot({ tenants, secrets: [COOKIE_SECRET], lookupCache: false }));
    const app = await NestFactory.createApplicationContext(part.module, {
      logger: false,
      abortOnError: false,
    });
    const { exhibitors } = app.get(part.portal, { strict: false });
    try {
      return await Promise.allSettled(
        Array.from({ length: 200 }, async (_, turn) => {
          const tenant = KEYS[turn % 3] ?? 'acme';
          const eventId = EVENTS[Math.floor(turn / 3) % EVENTS.length] ?? '';
          const mine = exhibitors.forTenant(tenant);
          const records =
            turn % 2 === 0
              ? (await firstValueFrom(mine.list(eventId))).data
              : await firstValueFrom(
                  exhibitors.lookup(eventId, 'sam.several@example.com', { tenant, fresh: true }),
                );
          const strangers = records.filter(({ id }) => !String(id).startsWith(`${tenant}-`));
          if (records.length === 0 || strangers.length > 0) {
            throw new Error('records of another tenant');
          }
        }),
      );
    } finally {
      await app.close();
    }
  }

  const optionsOf = (key: string) => sandbox.tenantOptions(key);

  it('never send the token or id of another, in 200 mixed calls at once', async () => {
    const results = await callAll(Object.fromEntries(KEYS.map((key) => [key, optionsOf(key)])));
    expect(results.filter(({ status }) => status === 'rejected')).toEqual([]);
    expect(restRequests()).toHaveLength(200);
    expect(mixedUp()).toEqual([]);
    expect(sandbox.requests.filter(({ operation }) => operation === 'token')).toHaveLength(3);
  });

  it('would fail this check: with two ids swapped it finds the requests', async () => {
    const [acme, globex] = [optionsOf('acme'), optionsOf('globex')];
    const results = await callAll({
      acme: { ...acme, tenantId: globex.tenantId },
      globex: { ...globex, tenantId: acme.tenantId },
      initech: optionsOf('initech'),
    });
    expect(mixedUp().length).toBeGreaterThan(100);
    const refused = results.filter((result) => result.status === 'rejected');
    expect(refused.length).toBeGreaterThan(100);
    for (const { reason } of refused) {
      expect(isExhibitorError(reason) && reason.code).toBe('access_denied');
    }
  });
});
