import { inspect } from 'node:util';
import { afterAll, beforeAll, describe, expect, it } from '@jest/globals';
import { ModulesContainer } from '@nestjs/core';
import { ExhibitorModule } from '../../lib/index.js';
import { CHECKED_OPTIONS } from '../../lib/options/check-options.js';
import { COOKIE_SECRET, startHost, type Host } from '../support/host.js';

const SECRETS = ['the api secret of this test', 'the login secret of this test', COOKIE_SECRET];

describe('an application that logs a service of the module', () => {
  let host: Host;
  beforeAll(async () => {
    const [clientSecret = '', loginSecret] = SECRETS;
    host = await startHost({
      options: (redirectUri) => ({
        tenant: {
          tenantId: 'acme',
          baseUrl: 'https://api.example',
          authUrl: 'https://login.example',
          clientId: 'acme-api',
          clientSecret,
          login: {
            clientId: 'acme-web',
            clientSecret: loginSecret,
            redirectUri,
            issuer: 'https://login.example',
            keys: 'https://login.example/jwks',
          },
        },
        secrets: [COOKIE_SECRET],
      }),
    });
  });
  afterAll(() => host?.close());

  /** The services of the module, without the two providers that are the options themselves. */
  function services(): [name: string, instance: unknown][] {
    const module = [...host.app.get(ModulesContainer).values()].find(
      ({ metatype }) => metatype === ExhibitorModule,
    );
    const wrappers = [...(module?.providers.entries() ?? [])];
    return wrappers
      .filter(([token]) => typeof token === 'function')
      .map(([token, { instance }]) => [typeof token === 'function' ? token.name : '', instance]);
  }

  it('shows no secret, by util.inspect or JSON.stringify', () => {
    const all = services();
    expect(all.map(([name]) => name)).toEqual(
      expect.arrayContaining(['ExhibitorsService', 'TokenService', 'Sealer', 'ExhibitorGuardServices']),
    );
    for (const [name, instance] of all) {
      const shown = `${inspect(instance, { depth: Infinity, showHidden: true, getters: true, compact: false })} ${asJson(instance)}`;
      expect([name, SECRETS.filter((secret) => shown.includes(secret))]).toEqual([name, []]);
    }
  });

  it('would show them in the options themselves, which shows that the check works', () => {
    const options: unknown = host.app.get(CHECKED_OPTIONS, { strict: false });
    const shown = inspect(options, { depth: Infinity });
    expect(SECRETS.every((secret) => shown.includes(secret))).toBe(true);
  });
});

/** JSON of an instance; objects of Nest may refer to themselves. */
function asJson(instance: unknown): string {
  const seen = new WeakSet();
  return JSON.stringify(instance, (_, value: unknown) => {
    if (typeof value !== 'object' || value === null) {
      return value;
    }
    if (seen.has(value)) {
      return undefined;
    }
    seen.add(value);
    return value;
  });
}
