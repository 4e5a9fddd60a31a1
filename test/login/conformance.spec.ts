import { describe, expect, it } from '@jest/globals';
import { NestFactory } from '@nestjs/core';
import { ExhibitorModule, type TenantOptions } from '../../lib/index.js';
import { COOKIE_SECRET, HOST_KINDS, type Host, type HostKind } from '../support/host.js';
import { clockOf } from '../support/clock.js';
import { loggedLines } from '../support/logged-lines.js';
import { OperatorLines } from '../support/operator-lines.js';
import type { LoginOverrides, ScriptedProvider } from '../support/provider.js';
import { set } from '../support/provider-script.js';
import { acceptedCasesIn, type AcceptedCase } from './accepted-cases.js';
import { FLOWS, nameOf, type Flow } from './flows.js';
import { withProvider } from './hosts.js';
import { arrive, expectAccepted, expectLoginRefused, expectRefused, toHost } from './journey.js';
import { hashCasesIn, idTokenCasesOf, replyCasesIn, type RefusedCase } from './refused-cases.js';

let provider: ScriptedProvider;
const start = withProvider((started) => (provider = started));

/** Hosts of one kind and flow: one for each set of login options, started at its first use. */
function hostsOf(kind: HostKind, responseType: Flow): (login?: LoginOverrides) => Promise<Host> {
  const hosts = new Map<LoginOverrides | undefined, Promise<Host>>();
  return (login) => {
    const host = hosts.get(login) ?? start({ kind, login: { responseType, ...login } });
    hosts.set(login, host);
    return host;
  };
}

describe.each(HOST_KINDS)('on %s', (kind) => {
  describe.each(FLOWS)('a login by %s is accepted with', (flow) => {
    const hostFor = hostsOf(kind, flow);
    for (const accepted of acceptedOf(kind, flow)) {
      it(nameOf(accepted), async () => {
        const { login, script = {}, seen } = accepted;
        const host = await hostFor(typeof login === 'function' ? login(provider) : login);
        provider.script = script;
        await expectAccepted(host);
        seen?.(provider);
      });
    }
  });
});

/**
 * What a login may look like depends neither on the adapter nor on where the identity is kept: the flow `code` runs every case, one
 * hybrid flow those of its conformance plan, and the others run an ordinary login.
 */
function acceptedOf(kind: HostKind, flow: Flow): AcceptedCase[] {
  const cases = acceptedCasesIn(flow);
  switch (`${kind}, ${flow}`) {
    case 'express, code':
      return cases;
    case 'fastify, code token id_token':
      return cases.filter(({ id }) => id !== undefined);
    default:
      return cases.slice(0, 1);
  }
}

/**
 * Every change is made once: to the ID token of the token endpoint and to replies in the flow `code`. The front-channel ID tokens of
 * the hybrid flows, which run on the second adapter, have one change for each reason.
 */
const REFUSED: readonly [kind: HostKind, flow: Flow, cases: readonly RefusedCase[]][] = [
  ['express', 'code', [...idTokenCasesOf('backToken'), ...hashCasesIn('code'), ...replyCasesIn('code')]],
  ['express', 'code token id_token', hashCasesIn('code token id_token')],
  [
    'fastify',
    'code id_token',
    [
      ...oneOfEachReason(idTokenCasesOf('frontToken')),
      ...hashCasesIn('code id_token'),
      ...oneOfEachReason(replyCasesIn('code id_token')),
    ],
  ],
];

function oneOfEachReason(cases: readonly RefusedCase[]): RefusedCase[] {
  return [...new Map(cases.toReversed().map((refused) => [refused.reason, refused])).values()];
}

describe.each(REFUSED)(
  'on %s, a login by %s is refused, with a line for the operator, for',
  (kind, flow, cases) => {
    const hostFor = hostsOf(kind, flow);
    const { warnings, errors } = loggedLines();
    /** Whose unchanged logins are accepted. */
    const controlled = new Set<string>();
    for (const refused of cases) {
      it(`${refused.reason}: ${nameOf(refused)}`, async () => {
        const host = await hostFor(refused.login);
        const { script, reason, honest = {} } = refused;
        provider.script = honest;
        const change = typeof script === 'function' ? await script(provider, host) : script;
        // A line of the same cause is logged once a minute.
        clockOf(host.app).skip(60_000, ['now']);
        warnings.length = 0;
        await expectRefused(host, provider, change, reason, honest);
        const lines = [...warnings, ...errors];
        // A person alone can cause this one.
        expect(lines).toHaveLength(reason === 'denied' ? 0 : 1);
        expect(lines.join()).not.toMatch(/@|eyJ/);
        // The refusal was due to the one change.
        const control = `${host.url} ${JSON.stringify(honest)}`;
        if (!controlled.has(control)) {
          controlled.add(control);
          await expectAccepted(host);
        }
      });
    }
  },
);

describe('a hybrid login', () => {
  it('drops the front-channel access token: userinfo is requested with the one of the token endpoint', async () => {
    const host = await start({ login: { responseType: 'code token id_token' } });
    provider.script = { email: 'userinfo' };
    const { visitor, arrival } = await arrive(host);
    expect((await toHost(visitor, arrival)).status).toBe(303);
    const sent = provider.last('/connect/userinfo').headers.authorization;
    expect(sent).toMatch(/^Bearer \S+$/);
    expect(sent).not.toBe(`Bearer ${arrival.parameters.get('access_token')}`);
  });

  it('redeems no code whose front-channel ID token is refused', async () => {
    const host = await start({ login: { responseType: 'code id_token' } });
    provider.script = { frontToken: set({ nonce: 'of-another-login' }) };
    const before = provider.count('/connect/token');
    await expectLoginRefused(host, 'nonce');
    expect(provider.count('/connect/token')).toBe(before);
  });

  /** The warnings of a start with a tenant for each of these response types. */
  async function warningsAtBoot(...responseTypes: string[]): Promise<string[]> {
    const callback = 'http://127.0.0.1:3000/auth/callback';
    const tenants = responseTypes.map((responseType): [string, TenantOptions] => [
      responseType,
      provider.tenantOptions(callback, { responseType: responseType as Flow }),
    ]);
    const options = { tenants: Object.fromEntries(tenants), secrets: [COOKIE_SECRET] };
    const logger = new OperatorLines();
    const module = ExhibitorModule.forRoot(options);
    const app = await NestFactory.createApplicationContext(module, { logger, abortOnError: false });
    await app.close();
    return logger.warnings;
  }

  it('is advised against at startup, once for each tenant', async () => {
    expect(await warningsAtBoot(...FLOWS)).toEqual([
      expect.stringMatching(
        /^tenants\.code id_token\.login\.responseType: 'code id_token' .*'code' is recommended$/,
      ),
      expect.stringMatching(
        /^tenants\.code token id_token\.login\.responseType: 'code token id_token' .*'code' is recommended$/,
      ),
    ]);
  });

  it.each(['token', 'id_token', 'id_token token', 'code token', 'none'])(
    'excludes other response types: %s is refused at startup',
    async (responseType) => {
      await expect(warningsAtBoot(responseType)).rejects.toMatchObject({ code: 'configuration_invalid' });
    },
  );
});
