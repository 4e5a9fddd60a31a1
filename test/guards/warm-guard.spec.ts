import { afterAll, afterEach, beforeAll, describe, expect, it, jest } from '@jest/globals';
import { Controller, Get, UseGuards } from '@nestjs/common';
import {
  CurrentIdentity,
  ExhibitorIdentityGuard,
  type ExhibitorIdentity,
  type ExhibitorModuleOptions,
} from '../../lib/index.js';
import { Sealer } from '../../lib/store/sealer.service.js';
import { Deadlines } from '../../lib/time/deadline.js';
import type { ExhibitorSandbox } from '../../lib/testing/index.js';
import { BoothController } from '../support/booth.controller.js';
import { clockOf } from '../support/clock.js';
import { COOKIE_SECRET, startHost, type Host, type HostKind } from '../support/host.js';
import { startSandbox } from '../support/sandbox.js';
import { Visitor, type Reply } from '../support/visitor.js';
import { bodyOf, signIn } from './signed-in.js';

const HOUR = 3_600_000;
const COOKIE = 'exhibitor-identity';

@Controller()
class WarmController {
  @Get('frozen')
  @UseGuards(ExhibitorIdentityGuard)
  frozen(@CurrentIdentity() identity: ExhibitorIdentity): boolean[] {
    return [identity.claims, ...Object.values(identity.claims)].map((value) => Object.isFrozen(value));
  }
}

let sandbox: ExhibitorSandbox;
beforeAll(async () => {
  sandbox = await startSandbox();
});
afterAll(() => sandbox?.stop());
afterEach(() => void jest.restoreAllMocks());

function start(
  kind: HostKind,
  options: Partial<Omit<ExhibitorModuleOptions, 'tenant' | 'tenants'>> = {},
): Promise<Host> {
  return startHost({
    kind,
    controllers: [BoothController, WarmController],
    options: (redirectUri) => ({
      tenants: {
        acme: sandbox.tenantOptions('acme', { redirectUri }),
        globex: sandbox.tenantOptions('globex', { redirectUri }),
      },
      resolveTenant: ({ headers }) => String(headers['x-tenant'] ?? 'acme'),
      secrets: [COOKIE_SECRET],
      ...options,
    }),
  });
}

/** Counts how often a host opens sealed values from now on. */
function openings(host: Host): () => number {
  const unseal = jest.spyOn(host.app.get(Sealer, { strict: false }), 'unseal');
  return () => unseal.mock.calls.length;
}

/** The cookie of a visitor, for requests without a jar. */
function sealedOf(visitor: Visitor): string {
  return visitor.cookies('127.0.0.1').get(COOKIE) ?? '';
}

function ask(host: Host, cookie: string, headers: Record<string, string> = {}): Promise<Reply> {
  return new Visitor().visit(`${host.url}/me`, { headers: { cookie, ...headers } });
}

describe.each(['express', 'fastify'] as const)('a guard on %s that has seen the user', (kind) => {
  let host: Host;
  beforeAll(async () => {
    host = await start(kind);
  });
  afterEach(() => clockOf(host.app).back());
  afterAll(() => host?.close());

  it('opens the cookie once, and answers later requests alike', async () => {
    const cookie = `${COOKIE}=${sealedOf(await signIn(sandbox, host, 'olga.one'))}`;
    const opened = openings(host);
    const replies = [await ask(host, cookie), await ask(host, cookie), await ask(host, cookie)];
    expect(opened()).toBe(1);
    expect(replies.map(({ status }) => status)).toEqual([200, 200, 200]);
    expect(new Set(replies.map(({ text }) => text)).size).toBe(1);
    expect(replies.map(({ headers }) => headers.get('cache-control'))).toEqual(
      Array.from({ length: 3 }, () => 'private, no-store'),
    );
  });

  it('starts no deadline, and so no timer, once cookie and lookup are remembered', async () => {
    const visitor = await signIn(sandbox, host, 'sam.several');
    const deadlines = jest.spyOn(host.app.get(Deadlines, { strict: false }), 'start');
    const started: number[] = [];
    for (let visit = 0; visit < 3; visit += 1) {
      expect((await visitor.visit(`${host.url}/events/regional-2026/mine`)).status).toBe(200);
      started.push(deadlines.mock.calls.length);
    }
    expect(started[0]).toBeGreaterThan(0);
    expect(started).toEqual(started.map(() => started[0]));
  });

  it('refuses a remembered cookie when it has expired, by either date', async () => {
    const cookie = `${COOKIE}=${sealedOf(await signIn(sandbox, host, 'olga.one'))}`;
    expect((await ask(host, cookie)).status).toBe(200);
    const opened = openings(host);
    clockOf(host.app).skip(8 * HOUR, ['epochMs']);
    expect((await ask(host, cookie)).status).toBe(401);
    expect(opened()).toBe(0);
  });

  it('opens it again after a minute', async () => {
    const cookie = `${COOKIE}=${sealedOf(await signIn(sandbox, host, 'olga.one'))}`;
    const opened = openings(host);
    expect((await ask(host, cookie)).status).toBe(200);
    clockOf(host.app).skip(59_000, ['now']);
    expect((await ask(host, cookie)).status).toBe(200);
    expect(opened()).toBe(1);
    clockOf(host.app).skip(1_000, ['now']);
    expect((await ask(host, cookie)).status).toBe(200);
    expect(opened()).toBe(2);
  });

  it('refuses a remembered cookie at another tenant, and with another prefix', async () => {
    const sealed = sealedOf(await signIn(sandbox, host, 'olga.one'));
    expect((await ask(host, `${COOKIE}=${sealed}`)).status).toBe(200);
    const opened = openings(host);
    expect((await ask(host, `${COOKIE}=${sealed}`, { 'x-tenant': 'globex' })).status).toBe(401);
    expect((await ask(host, `__Host-${COOKIE}=${sealed}`)).status).toBe(401);
    expect(opened()).toBe(0);
  });

  it('refuses every copy of the cookie after the logout, without opening it', async () => {
    const visitor = await signIn(sandbox, host, 'olga.one');
    const stays = `${COOKIE}=${sealedOf(await signIn(sandbox, host, 'olga.one'))}`;
    const cookie = `${COOKIE}=${sealedOf(visitor)}`;
    expect([(await ask(host, cookie)).status, (await ask(host, stays)).status]).toEqual([200, 200]);
    await visitor.visit(`${host.url}/auth/logout`, { method: 'POST' });
    const opened = openings(host);
    expect((await ask(host, cookie)).status).toBe(401);
    expect((await ask(host, cookie)).status).toBe(401);
    expect((await ask(host, stays)).status).toBe(200);
    expect(opened()).toBe(0);
  });

  it('remembers no cookie that does not open', async () => {
    const sealed = sealedOf(await signIn(sandbox, host, 'olga.one'));
    const forged = sealed.slice(0, -3) + (sealed.endsWith('AAA') ? 'BBB' : 'AAA');
    const opened = openings(host);
    for (let visit = 0; visit < 3; visit += 1) {
      expect((await ask(host, `${COOKIE}=${forged}`)).status).toBe(401);
    }
    expect(opened()).toBe(3);
  });

  it('follows a selection at once, without opening the cookie', async () => {
    const visitor = await signIn(sandbox, host, 'sam.several');
    const [first, second] = bodyOf<{ id: string }[]>(
      await visitor.visit(`${host.url}/events/world-2026/mine`),
    );
    const booth = async (): Promise<[number, unknown]> => {
      const reply = await visitor.visit(`${host.url}/events/world-2026/booth`);
      return [reply.status, bodyOf(reply)['id']];
    };
    expect(await booth()).toEqual([409, undefined]);
    const opened = openings(host);
    for (const id of [first?.id ?? '', second?.id ?? '']) {
      await visitor.visit(`${host.url}/events/world-2026/select`, { json: { id } });
      expect(await booth()).toEqual([200, id]);
    }
    expect(opened()).toBe(0);
  });

  it('hands out claims that no handler can change for other requests', async () => {
    const visitor = await signIn(sandbox, host, 'olga.one');
    for (let visit = 0; visit < 2; visit += 1) {
      const frozen = bodyOf<boolean[]>(await visitor.visit(`${host.url}/frozen`));
      expect(frozen.length).toBeGreaterThan(2);
      expect(new Set(frozen)).toEqual(new Set([true]));
    }
  });
});
