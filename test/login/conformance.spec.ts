import { afterAll, afterEach, beforeAll, describe, expect, it } from '@jest/globals';
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

/** Number of tests of a host and a flow, and of those that passed. */
const cells = new Map<string, { tests: number; passed: number }>();

/** A test of one cell of the table of hosts and flows. */
function cellTest(kind: HostKind, flow: Flow, name: string, test: () => Promise<void>): void {
  const cell = cells.get(`${kind} ${flow}`) ?? { tests: 0, passed: 0 };
  cells.set(`${kind} ${flow}`, cell);
  cell.tests++;
  it(name, async () => {
    await test();
    cell.passed++;
  });
}

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

describe.each(HOST_KINDS)('on %s', (kind) => {
  describe.each(FLOWS)('a login by %s is accepted with', (flow) => {
    const hostFor = hostsOf(kind, flow);
    const cases = acceptedCasesIn(flow);
    // Where the identity is kept does not depend on the options of the login.
    const ofKind = kind.includes('session') ? cases.filter(({ login }) => login === undefined) : cases;
    for (const accepted of ofKind) {
      cellTest(kind, flow, nameOf(accepted), async () => {
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
    for (const refused of refusedCasesIn(flow)) {
      cellTest(kind, flow, `${refused.reason}: ${nameOf(refused)}`, async () => {
        const host = await hostFor(refused.login);
        const { script, reason, honest } = refused;
        await unchanged(host, honest);
        const change = typeof script === 'function' ? await script(provider, host) : script;
        await expectRefused(host, provider, change, reason, honest);
      });
    }
  });
});

function refusedCasesIn(flow: Flow): RefusedCase[] {
  const person = PERSON_CASES.map(({ token, ...rest }) => ({ ...rest, script: { backToken: token } }));
  return [...tokenCasesIn(flow, ID_TOKEN_CASES), ...person, ...hashCasesIn(flow), ...replyCasesIn(flow)];
}

describe('the table of hosts and flows', () => {
  it('has no cell that is empty or skips a test', () => {
    const rows = HOST_KINDS.map(
      (kind) =>
        [kind, ...FLOWS.map((flow) => cells.get(`${kind} ${flow}`) ?? { tests: 0, passed: 0 })] as const,
    );
    const line = (first: string, rest: readonly (string | number)[]): string =>
      `  ${first.padEnd(28)}${rest.map((entry) => String(entry).padStart(22)).join('')}`;
    const table = rows.map(([kind, ...counts]) =>
      line(
        kind,
        counts.map(({ passed }) => passed),
      ),
    );
    process.stdout.write(`Login tests by host and flow\n${[line('', FLOWS), ...table].join('\n')}\n`);
    for (const [kind, ...counts] of rows) {
      for (const { tests, passed } of counts) {
        expect({ kind, passed: passed > 0 && passed === tests }).toEqual({ kind, passed: true });
      }
    }
  });
});
