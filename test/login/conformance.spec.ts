import { afterAll, afterEach, beforeAll, describe, it } from '@jest/globals';
import { ScriptedProvider, type LoginOverrides } from '../support/provider.js';
import type { Script } from '../support/provider-script.js';
import { COOKIE_SECRET, HOST_KINDS, startHost, type Host, type HostKind } from '../support/host.js';
import { acceptedCasesIn } from './accepted-cases.js';
import { FLOWS, nameOf, tokenCasesIn, type Flow, type RefusedCase } from './flows.js';
import { expectAccepted, expectRefused } from './journey.js';
import { hashCasesIn } from './refused-hashes.js';
import { ID_TOKEN_CASES, PERSON_CASES } from './refused-id-tokens.js';
import { replyCasesIn } from './refused-replies.js';
import { clockOf } from '../support/clock.js';

let provider: ScriptedProvider;
beforeAll(async () => {
  provider = await ScriptedProvider.start();
});
afterEach(() => {
  provider.script = {};
});
afterAll(() => provider?.stop());

/** Hosts of one kind and flow: one for each set of login options, started at its first use. */
function hostsOf(kind: HostKind, responseType: Flow): (login?: LoginOverrides) => Promise<Host> {
  const hosts = new Map<LoginOverrides | undefined, Promise<Host>>();
  afterAll(async () => {
    for (const host of hosts.values()) {
      await (await host).close();
    }
  });
  return (login) => {
    const host =
      hosts.get(login) ??
      startHost({
        kind,
        options: (callback) => ({
          tenant: provider.tenantOptions(callback, { responseType, ...login }),
          secrets: [COOKIE_SECRET],
        }),
      });
    hosts.set(login, host);
    return host;
  };
}

/**
 * Accepts the unchanged login of each configuration twice: before its first refusal, and after the last one of the
 * table. So each refusal is due to its one change, and no refusal disturbs the host.
 */
function unchangedLogins(): (host: Host, honest?: Script) => Promise<void> {
  const logins = new Map<Host, Set<Script>>();
  const accept = async (host: Host, honest: Script): Promise<void> => {
    provider.script = honest;
    await expectAccepted(host);
  };
  afterAll(async () => {
    for (const [host, scripts] of logins) {
      for (const honest of scripts) {
        await accept(host, honest);
      }
    }
  });
  return async (host, honest = HONEST) => {
    const scripts = logins.get(host) ?? new Set();
    logins.set(host, scripts);
    provider.script = honest;
    if (!scripts.has(honest)) {
      scripts.add(honest);
      await accept(host, honest);
    }
  };
}

const HONEST: Script = {};

/** Where every accepted login runs; the other adapters and flows run the first two. */
const WHOLE: readonly string[] = ['express, code', 'fastify, code token id_token'];

describe.each(HOST_KINDS)('on %s', (kind) => {
  describe.each(FLOWS)('a login by %s is accepted with', (flow) => {
    const hostFor = hostsOf(kind, flow);
    const cases = acceptedCasesIn(flow);
    // What a login may look like depends neither on the adapter nor on where the identity is kept.
    const ofKind = WHOLE.includes(`${kind}, ${flow}`) ? cases : cases.slice(0, 2);
    for (const accepted of ofKind) {
      it(nameOf(accepted), async () => {
        const { login, script = {}, run, seen } = accepted;
        const host = await hostFor(typeof login === 'function' ? login(provider) : login);
        provider.script = script;
        if (run === undefined) {
          await expectAccepted(host);
        } else {
          await run({ ...host, skip: (ms) => clockOf(host.app).skip(ms, ['now']) }, provider);
        }
        seen?.(provider);
      });
    }
  });
});

const PLAIN_KINDS = HOST_KINDS.filter((kind) => !kind.includes('session'));

describe.each(PLAIN_KINDS)('on %s', (kind) => {
  describe.each(FLOWS)('a login by %s is refused for', (flow) => {
    const unchanged = unchangedLogins();
    const hostFor = hostsOf(kind, flow);
    for (const refused of refusedCasesIn(flow, kind)) {
      it(`${refused.reason}: ${nameOf(refused)}`, async () => {
        const host = await hostFor(refused.login);
        const { script, reason, honest } = refused;
        await unchanged(host, honest);
        const change = typeof script === 'function' ? await script(provider, host) : script;
        await expectRefused(host, provider, change, reason, honest);
      });
    }
  });
});

/**
 * Every change is made once where it can be made: to the ID token of the token endpoint and to replies in the flow `code`, to
 * the front-channel ID token in `code id_token`. The other flows, and the second adapter, have one change for each reason.
 */
function refusedCasesIn(flow: Flow, kind: HostKind): RefusedCase[] {
  const person = PERSON_CASES.map(({ token, ...rest }) => ({ ...rest, script: { backToken: token } }));
  const tokens = tokenCasesIn(flow, ID_TOKEN_CASES);
  const replies = [...person, ...replyCasesIn(flow)];
  const hashes = hashCasesIn(flow);
  if (flow === 'code' && kind === 'express') {
    return [...tokens.flat(), ...hashes, ...replies];
  }
  if (flow === 'code id_token' && kind === 'fastify') {
    return [...tokens.flat(), ...hashes, ...oneOfEachReason(replies)];
  }
  return [...tokens.flatMap(oneOfEachReason), ...hashes, ...oneOfEachReason(replies)];
}

function oneOfEachReason(cases: readonly RefusedCase[]): RefusedCase[] {
  return [...new Map(cases.toReversed().map((refused) => [refused.reason, refused])).values()];
}
