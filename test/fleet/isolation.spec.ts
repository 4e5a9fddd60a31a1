import { randomInt } from 'node:crypto';
import { afterAll, beforeAll, expect, it } from '@jest/globals';
import { reset, truncate } from '../support/faults.js';
import { describeWithRedis, RedisServer } from '../support/redis.js';
import { freePort } from '../support/server.js';
import { traced, type TracedRequest } from '../support/traced-requests.js';
import { Visitor, type Reply } from '../support/visitor.js';
import type { ProcessCall, ProcessResult } from './commands.js';
import type { CompiledSources } from './compile.js';
import { compileHost, startProcess, type FleetProcess } from './fleet.js';
import { EVENTS, FleetWorld, mixUpIn, PERSONS } from './world.js';

const TENANTS = Array.from({ length: 500 }, (_, number) => `t${number}`);
const OPERATIONS = Number(process.env['OPERATIONS'] ?? 2_500);
const SECRETS = ['the first secret of the proof, 32 characters', 'the second secret of the proof, 32 chars.'];
/** Time in ms after which every process has heard of a change; a second is promised. */
const GRACE = 2_000;

function oneOf<T>(list: readonly T[]): T {
  return list[randomInt(list.length)] as T;
}

/** Half of the time one of a few tenants, which are then in every cache. */
function anyKey(): string {
  return oneOf(Math.random() < 0.5 ? TENANTS.slice(0, 25) : TENANTS);
}

/** A person who is logged in at the host, at the portal of a tenant. */
interface Session {
  visitor: Visitor;
  portal: string;
  person: string;
  loggedOutAt?: number;
}

/**
 * Tenants change their secrets meanwhile, and keys of the host move to other tenants of the service. Everything that comes back
 * or reaches the sandbox names its tenant; what belongs to another one is a finding.
 */
describeWithRedis('500 tenants on two processes with one Redis', (path) => {
  let sources: CompiledSources;
  let redis: RedisServer;
  let world: FleetWorld;
  let processes: FleetProcess[] = [];
  let urls: string[];
  let redirectUri: string;
  const findings: string[] = [];
  /** Operations by kind and result. */
  const counts: Record<string, number> = {};
  /** Requests that reached the sandbox and were checked. */
  let checked = 0;
  const sessions: Session[] = [];
  /** By key of the host, its tenants of the service and the time from which each was answered by the source. */
  const history = new Map(TENANTS.map((key) => [key, [{ owner: key, at: Number.NEGATIVE_INFINITY }]]));
  let unfinished: TracedRequest[] = [];

  beforeAll(async () => {
    sources = compileHost();
    const ports = [await freePort(), await freePort()];
    [redis, world] = await Promise.all([RedisServer.start(path), FleetWorld.start(TENANTS)]);
    urls = ports.map((port) => `http://127.0.0.1:${port}`);
    redirectUri = `${urls[0]}/auth/callback`;
    const tenants = Object.fromEntries(TENANTS.map((key) => [key, world.optionsOf(key, redirectUri)]));
    const [one, other] = ports;
    const common = { redis: { url: redis.url, client: 'redis' }, tenants } as const;
    processes = await Promise.all([
      startProcess(sources, { ...common, kind: 'express', port: one, secrets: SECRETS }),
      startProcess(sources, { ...common, kind: 'fastify', port: other, secrets: SECRETS.toReversed() }),
    ]);
  }, 60_000);
  afterAll(async () => {
    await Promise.all(processes.map((one) => one.kill()));
    await Promise.all([redis?.stop(), world?.sandbox.stop()]);
    sources?.remove();
  });

  /** The tenants of the service that a key may have stood for since `from`. */
  function ownersOf(key: string, from: number): string[] {
    const owners = history.get(key) ?? [];
    const first = owners.findLastIndex(({ at }) => at <= from - GRACE);
    return owners.slice(Math.max(0, first)).map(({ owner }) => owner);
  }

  function note(kind: string, result: string): void {
    const name = `${kind} ${result}`;
    counts[name] = (counts[name] ?? 0) + 1;
  }

  /** A key moves to another tenant, gets a wrong or the right secret, or lookups are invalidated. */
  async function change(): Promise<void> {
    const key = anyKey();
    const chance = Math.random();
    if (chance < 0.3) {
      const filter = oneOf([{}, { tenant: key }, { tenant: key, eventId: oneOf(EVENTS) }]);
      await oneOf(processes).send('invalidate', filter);
      return;
    }
    const before = ownersOf(key, performance.now() + GRACE)[0] ?? key;
    const owner = chance < 0.65 ? anyKey() : before;
    history.get(key)?.push({ owner, at: performance.now() });
    const options = world.optionsOf(owner, redirectUri, chance > 0.85);
    await Promise.all(processes.map((one) => one.send('assign', { key, options })));
    await Promise.all(processes.map((one) => one.send('forget', key)));
    // The time from which the former tenant is wrong.
    history.get(key)?.push({ owner, at: performance.now() });
  }

  function breakSomething(): void {
    const { sandbox } = world;
    if (Math.random() < 0.1) {
      sandbox.clearFaults();
      // Of one tenant, whose calls are refused until its token is 10 s old and may be renewed.
      sandbox.revokeTokens(anyKey());
    }
    const faults = [
      { kind: 'status', status: 503 },
      { kind: 'status', status: 401 },
      { kind: 'delay', ms: 100 },
      reset('mid-body'),
      truncate(),
    ] as const;
    sandbox.failNext(oneOf(['list', 'lookup', 'token'] as const), oneOf(faults));
  }

  async function runCalls(process: FleetProcess, count: number): Promise<void> {
    const calls = Array.from({ length: count }, (): ProcessCall => {
      const kind = oneOf([
        'token',
        'list',
        'stream',
        'snapshot',
        'lookup',
        'lookup',
        'lookup',
        'fresh',
      ] as const);
      const call = { kind, tenant: anyKey(), eventId: oneOf(EVENTS), contactEmail: oneOf(PERSONS) };
      return Math.random() < 0.08 ? { ...call, abortAfter: Math.floor(Math.random() * 15) } : call;
    });
    const began = performance.now();
    const results = await process.send('run', calls);
    results.forEach((result, number) => checkResult(calls[number] as ProcessCall, result, began));
  }

  function checkResult({ kind, tenant, eventId }: ProcessCall, result: ProcessResult, began: number): void {
    note(kind, result.code ?? 'ok');
    if (result.code?.startsWith('not ours') === true) {
      findings.push(`${kind} failed: ${result.code}`);
    }
    const owners = ownersOf(tenant, began);
    if (result.clientId !== undefined && !owners.some((owner) => `${owner}-api` === result.clientId)) {
      findings.push(`token of ${result.clientId} for ${tenant}`);
    }
    checkIds(kind, result.ids ?? [], owners, eventId);
    if (result.isOfContact === false) {
      findings.push(`${kind} with the exhibitors of another contact`);
    }
  }

  function checkIds(kind: string, ids: readonly string[], owners: readonly string[], eventId: string): void {
    const found = new Set(ids.map((id) => id.split('|').slice(0, 2).join('|')));
    const allowed = owners.map((owner) => `${owner}|${eventId}`);
    if (found.size > 1 || [...found].some((one) => !allowed.includes(one))) {
      findings.push(`${kind} answered ${[...found].join(', ')} instead of ${allowed.join(' or ')}`);
    }
  }

  async function visit(person: string): Promise<void> {
    const known = sessions.length < 20 || Math.random() < 0.08 ? undefined : oneOf(sessions);
    if (known === undefined) {
      await logIn(person);
    } else if (Math.random() < 0.35) {
      await visitWithToken();
    } else if (Math.random() < 0.06) {
      await logOut(known);
    } else {
      await visitWithCookie(known);
    }
  }

  async function logIn(person: string): Promise<void> {
    const portal = anyKey();
    const visitor = new Visitor();
    const start = `${urls[0]}/auth/login?portal=${portal}`;
    const { location, status } = await visitor.follow(start, ({ pathname }) => pathname === '/auth/callback');
    if (location === undefined) {
      note('login', `start ${status}`);
      return;
    }
    const address = location.replace(urls[0] ?? '', oneOf(urls));
    const callback = await visitor.visit(address, { headers: { 'x-portal': portal } });
    note('login', callback.status === 303 ? 'ok' : `callback ${callback.status}`);
    if (callback.status === 303) {
      sessions.push({ visitor, portal, person });
    }
    if (sessions.length > 60) {
      sessions.shift();
    }
  }

  /** The visitor keeps a copy of the cookies: it must be worth nothing at either process. */
  async function logOut(session: Session): Promise<void> {
    const { visitor, portal } = session;
    const copy = [...visitor.cookies()];
    const headers = { 'x-portal': portal };
    const { status } = await visitor.visit(`${oneOf(urls)}/auth/logout`, { method: 'POST', headers });
    note('logout', status === 303 ? 'ok' : String(status));
    copy.forEach(([name, value]) => visitor.cookies().set(name, value));
    session.loggedOutAt ??= performance.now();
  }

  /** A person with a cookie, at their own portal or at another. */
  async function visitWithCookie({ visitor, portal, person, loggedOutAt }: Session): Promise<void> {
    const at = Math.random() < 0.8 ? portal : anyKey();
    const isOut = loggedOutAt !== undefined && performance.now() > loggedOutAt + GRACE;
    await checkVisit('cookie', person, at, at === portal && !isOut, (page) =>
      visitor.visit(`${oneOf(urls)}${page}`, { headers: { 'x-portal': at } }),
    );
  }

  /** A person with an access token, at a portal of the tenant that issued it or at another. */
  async function visitWithToken(): Promise<void> {
    const portal = anyKey();
    const person = oneOf(PERSONS);
    const owners = ownersOf(portal, performance.now());
    const issuer = Math.random() < 0.7 ? (owners.at(-1) ?? portal) : anyKey();
    const authorization = `Bearer ${await world.userToken(issuer, person)}`;
    await checkVisit('bearer', person, portal, owners.includes(issuer), (page) =>
      new Visitor().visit(`${oneOf(urls)}${page}`, { headers: { 'x-portal': portal, authorization } }),
    );
  }

  async function checkVisit(
    kind: string,
    person: string,
    portal: string,
    mayEnter: boolean,
    open: (page: string) => Promise<Reply>,
  ): Promise<void> {
    const began = performance.now();
    const eventId = oneOf(EVENTS);
    const isMe = Math.random() < 0.3;
    const { status, text } = await open(isMe ? '/me' : `/events/${eventId}/mine`);
    note(`${kind} ${mayEnter ? 'own' : 'other'}`, String(status));
    if (status !== 200) {
      return;
    }
    const owners = ownersOf(portal, began);
    if (!mayEnter) {
      findings.push(`${kind} of another tenant, or logged out, entered ${portal}`);
    }
    const body: unknown = JSON.parse(text);
    if (!isMe) {
      const records = body as { id: string; contactEmails: string[] }[];
      const ids = records.map(({ id }) => id);
      checkIds(`${kind} mine`, ids, owners, eventId);
      if (!records.every(({ contactEmails }) => contactEmails.includes(person))) {
        findings.push(`${kind} saw the exhibitors of another person`);
      }
      return;
    }
    const { identity, tenant } = body as { identity: Record<string, string>; tenant: string };
    const isRight =
      tenant === portal &&
      identity['tenant'] === portal &&
      identity['email'] === person &&
      owners.some((owner) => identity['tenantId'] === `id-of-${owner}`);
    if (!isRight) {
      findings.push(`${kind} at ${portal} is taken for ${identity['tenant']} ${identity['tenantId']}`);
    }
  }

  function checkRequests(): void {
    const all = [...unfinished, ...traced(world.sandbox)];
    world.sandbox.clearRequests();
    unfinished = all.filter(({ isDone }) => !isDone);
    for (const request of all.filter(({ isDone }) => isDone)) {
      const mixUp = mixUpIn(request);
      checked += 1;
      findings.push(...(mixUp === undefined ? [] : [mixUp]));
    }
  }

  it('never get the token, the answer or the person of another tenant, in mixed operations', async () => {
    let done = 0;
    while (done < OPERATIONS) {
      await change();
      breakSomething();
      const person = oneOf(PERSONS);
      world.sandbox.signInAs(person);
      const people = Array.from({ length: 16 }, () => visit(person));
      await Promise.all([...processes.map((one) => runCalls(one, 42)), ...people]);
      checkRequests();
      done += processes.length * 42 + people.length;
    }
    process.stderr.write(`isolation: ${done} operations, ${checked} requests: ${JSON.stringify(counts)}\n`);
    expect(findings).toEqual([]);
    const share = (kind: string, result: string): number => {
      const all = Object.entries(counts).filter(([name]) => name.startsWith(`${kind} `));
      return (counts[`${kind} ${result}`] ?? 0) / all.reduce((sum, [, count]) => sum + count, 0);
    };
    for (const kind of ['token', 'list', 'stream', 'snapshot', 'lookup', 'fresh', 'login', 'logout']) {
      expect([kind, share(kind, 'ok') > 0.5]).toEqual([kind, true]);
    }
    expect(share('cookie own', '200')).toBeGreaterThan(0.4);
    expect(share('bearer own', '200')).toBeGreaterThan(0.6);
    expect([share('cookie other', '401'), share('bearer other', '401')]).toEqual([1, 1]);
    expect(checked).toBeGreaterThan(done / 10);
  }, 280_000);
});
