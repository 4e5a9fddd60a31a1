import { freePort } from '../support/server.js';
import { Visitor, type Reply } from '../support/visitor.js';
import { RedisServer } from '../support/redis.js';
import { CompiledSources } from './compile.js';
import { FleetProcess } from './fleet.js';
import type { IsolationCall, IsolationCommands, IsolationResult } from './isolation-commands.js';
import { EVENTS, IsolationWorld, mixUpIn, PEOPLE, PERSONS } from './isolation-world.js';
import { reset, truncate } from '../support/faults.js';
import { traced, type TracedRequest } from '../support/traced-requests.js';

const PROGRAM = 'test/fleet/isolation-process.ts';
const SECRETS = ['the first secret of the proof, 32 characters', 'the second secret of the proof, 32 chars.'];
const SUPPORT = ['booth.controller', 'host', 'server'].map((name) => `test/support/${name}.ts`);
const PARTS = ['isolation-commands', 'obey'].map((name) => `test/fleet/${name}.ts`);

/** Time in ms after which every process has heard of a change; a second is promised. */
const GRACE = 2_000;

/** A person who is logged in at the host, at the portal of a tenant. */
interface Session {
  visitor: Visitor;
  portal: string;
  person: (typeof PERSONS)[number];
  loggedOutAt?: number;
}

/**
 * Mixed operations on two processes with one Redis. Tenants change their secrets, and keys of the host move to other tenants of
 * the service. Everything that comes back or reaches the sandbox names its tenant; what belongs to another one is a finding.
 */
export class IsolationProof {
  /** What belongs to another tenant. */
  readonly findings: string[] = [];
  /** Operations by kind and result. */
  readonly counts: Record<string, number> = {};
  /** Requests that reached the sandbox and were checked. */
  checked = 0;
  readonly #sessions: Session[] = [];
  /** By key of the host, its tenants of the service and the time from which each was answered by the source. */
  readonly #history = new Map<string, { owner: string; at: number }[]>();
  #unfinished: TracedRequest[] = [];

  private constructor(
    readonly world: IsolationWorld,
    private readonly redis: RedisServer,
    private readonly sources: CompiledSources,
    private readonly processes: readonly FleetProcess<IsolationCommands>[],
    private readonly urls: readonly string[],
    private readonly random: () => number,
  ) {
    for (const key of world.owners) {
      this.#history.set(key, [{ owner: key, at: Number.NEGATIVE_INFINITY }]);
    }
  }

  static async start(path: string, tenants: number, seed: number): Promise<IsolationProof> {
    const sources = CompiledSources.create([PROGRAM, ...SUPPORT, ...PARTS]);
    const [redis, world, ...ports] = await Promise.all([
      RedisServer.start(path),
      IsolationWorld.create(tenants),
      freePort(),
      freePort(),
    ]);
    const urls = ports.map((port) => `http://127.0.0.1:${port}`);
    const redirectUri = `${urls[0]}/auth/callback`;
    const options = Object.fromEntries(world.owners.map((key) => [key, world.optionsOf(key, redirectUri)]));
    const processes = await Promise.all(
      ports.map(async (port, index) => {
        const started = new FleetProcess<IsolationCommands>(sources.path(PROGRAM));
        await started.send('start', {
          kind: index === 0 ? 'express' : 'fastify',
          port,
          redis: redis.url,
          secrets: index === 0 ? SECRETS : SECRETS.toReversed(),
          tenants: options,
        });
        return started;
      }),
    );
    return new IsolationProof(world, redis, sources, processes, urls, randomFrom(seed));
  }

  /** Runs operations, in rounds of a hundred at once, until there were so many. */
  async run(operations: number): Promise<number> {
    let done = 0;
    while (done < operations) {
      await this.#change();
      this.#breakSomething();
      this.world.sandbox.signInAs(this.#person);
      const person = this.#lastPerson;
      const calls = this.processes.map((_, index) => this.#runCalls(index, 42));
      const people = Array.from({ length: 16 }, () => this.#visit(person));
      await Promise.all([...calls, ...people]);
      this.#checkRequests();
      done += this.processes.length * 42 + people.length;
    }
    return done;
  }

  async stop(): Promise<void> {
    await Promise.all(this.processes.map((one) => one.kill()));
    await Promise.all([this.redis.stop(), this.world.sandbox.stop()]);
    this.sources.remove();
  }

  #lastPerson: (typeof PERSONS)[number] = 'olga.one';

  get #person(): string {
    this.#lastPerson = this.#oneOf(PERSONS);
    return this.#lastPerson;
  }

  #oneOf<T>(list: readonly T[]): T {
    return list[Math.floor(this.random() * list.length)] as T;
  }

  /** Half of the time one of a few, which are then in every cache. */
  get #key(): string {
    return this.#oneOf(this.random() < 0.5 ? this.world.owners.slice(0, 25) : this.world.owners);
  }

  /** The tenants of the service that a key may have stood for since `from`. */
  #ownersOf(key: string, from: number): string[] {
    const history = this.#history.get(key) ?? [];
    const first = history.findLastIndex(({ at }) => at <= from - GRACE);
    return history.slice(Math.max(0, first)).map(({ owner }) => owner);
  }

  #note(kind: string, result: string): void {
    const name = `${kind} ${result}`;
    this.counts[name] = (this.counts[name] ?? 0) + 1;
  }

  /** A key moves to another tenant, gets a wrong or the right secret, or lookups are invalidated. */
  async #change(): Promise<void> {
    const key = this.#key;
    const chance = this.random();
    if (chance < 0.3) {
      const filter = this.#oneOf([{}, { tenant: key }, { tenant: key, eventId: this.#oneOf(EVENTS) }]);
      await this.#oneOf(this.processes).send('invalidate', filter);
      return;
    }
    const before = this.#ownersOf(key, performance.now() + GRACE)[0] ?? key;
    const owner = chance < 0.65 ? this.#key : before;
    this.#history.get(key)?.push({ owner, at: performance.now() });
    const isSecretWrong = chance > 0.85;
    const options = this.world.optionsOf(owner, `${this.urls[0]}/auth/callback`, isSecretWrong);
    await Promise.all(this.processes.map((one) => one.send('assign', { key, options })));
    await Promise.all(this.processes.map((one) => one.send('forget', key)));
    // The time from which the former tenant is wrong.
    this.#history.get(key)?.push({ owner, at: performance.now() });
  }

  #breakSomething(): void {
    const { sandbox } = this.world;
    if (this.random() < 0.1) {
      sandbox.clearFaults();
      sandbox.revokeTokens(this.random() < 0.5 ? undefined : this.#key);
    }
    const operation = this.#oneOf(['list', 'lookup', 'token'] as const);
    sandbox.failNext(
      operation,
      this.#oneOf([
        { kind: 'status', status: 503 },
        { kind: 'status', status: 401 },
        { kind: 'delay', ms: 100 },
        reset('mid-body'),
        truncate(),
      ] as const),
    );
  }

  async #runCalls(index: number, count: number): Promise<void> {
    const calls = Array.from({ length: count }, (): IsolationCall => {
      const kind = this.#oneOf(['token', 'list', 'lookup', 'lookup', 'lookup', 'fresh'] as const);
      const subject = {
        tenant: this.#key,
        eventId: this.#oneOf(EVENTS),
        contactEmail: PEOPLE[this.#oneOf(PERSONS)],
      };
      const isAborted = this.random() < 0.08;
      return { kind, ...subject, ...(isAborted ? { abortAfter: Math.floor(this.random() * 15) } : {}) };
    });
    const began = performance.now();
    const results = await this.processes[index]?.send('run', calls);
    for (const [number, call] of calls.entries()) {
      this.#checkResult(call, results?.[number] ?? {}, began);
    }
  }

  #checkResult(call: IsolationCall, result: IsolationResult, began: number): void {
    this.#note(call.kind, result.code ?? 'ok');
    if (result.code?.startsWith('not ours') === true) {
      this.findings.push(`${call.kind} failed: ${result.code}`);
    }
    const owners = this.#ownersOf(call.tenant, began);
    if (result.clientId !== undefined && !owners.some((owner) => `${owner}-api` === result.clientId)) {
      this.findings.push(`token of ${result.clientId} for ${call.tenant}`);
    }
    this.#checkIds(call.kind, result.ids ?? [], { owners, eventId: call.eventId });
    if (result.isOfContact === false) {
      this.findings.push(`${call.kind} with the exhibitors of another contact`);
    }
  }

  #checkIds(
    kind: string,
    ids: readonly string[],
    { owners, eventId }: { owners: string[]; eventId: string },
  ): void {
    const found = new Set(ids.map((id) => id.split('|').slice(0, 2).join('|')));
    const allowed = owners.map((owner) => `${owner}|${eventId}`);
    if (found.size > 1 || [...found].some((one) => !allowed.includes(one))) {
      this.findings.push(`${kind} answered ${[...found].join(', ')} instead of ${allowed.join(' or ')}`);
    }
  }

  async #visit(person: (typeof PERSONS)[number]): Promise<void> {
    const known =
      this.#sessions.length < 20 || this.random() < 0.08 ? undefined : this.#oneOf(this.#sessions);
    if (known === undefined) {
      await this.#logIn(person);
    } else if (this.random() < 0.35) {
      await this.#asBearer();
    } else if (this.random() < 0.06) {
      await known.visitor.visit(`${this.#oneOf(this.urls)}/auth/logout`, {
        method: 'POST',
        headers: { 'x-portal': known.portal },
      });
      known.loggedOutAt ??= performance.now();
      this.#note('logout', 'ok');
    } else {
      await this.#asVisitor(known);
    }
  }

  async #logIn(person: (typeof PERSONS)[number]): Promise<void> {
    const portal = this.#key;
    const visitor = new Visitor();
    const start = `${this.urls[0]}/auth/login?portal=${portal}`;
    const { location, status } = await visitor.follow(start, ({ pathname }) => pathname === '/auth/callback');
    if (location === undefined) {
      this.#note('login', `start ${status}`);
      return;
    }
    const callback = await visitor.visit(location.replace(this.urls[0] ?? '', this.#oneOf(this.urls)), {
      headers: { 'x-portal': portal },
    });
    this.#note('login', callback.status === 303 ? 'ok' : `callback ${callback.status}`);
    if (callback.status === 303) {
      this.#sessions.push({ visitor, portal, person });
    }
    if (this.#sessions.length > 60) {
      this.#sessions.shift();
    }
  }

  /** A person with a cookie, at their own portal or at another. */
  async #asVisitor({ visitor, portal, person, loggedOutAt }: Session): Promise<void> {
    const isOwn = this.random() < 0.8;
    const at = isOwn ? portal : this.#key;
    const isOut = loggedOutAt !== undefined && performance.now() > loggedOutAt + GRACE;
    const mayEnter = at === portal && !isOut;
    await this.#asPerson('cookie', person, at, mayEnter, (path) =>
      visitor.visit(`${this.#oneOf(this.urls)}${path}`, { headers: { 'x-portal': at } }),
    );
  }

  /** A person with an access token, at a portal of the tenant that issued it or at another. */
  async #asBearer(): Promise<void> {
    const portal = this.#key;
    const person = this.#oneOf(PERSONS);
    const isOwn = this.random() < 0.7;
    const issuer = isOwn ? (this.#ownersOf(portal, performance.now()).at(-1) ?? portal) : this.#key;
    const authorization = `Bearer ${await this.world.userToken(issuer, person)}`;
    const mayEnter = this.#ownersOf(portal, performance.now()).includes(issuer);
    await this.#asPerson('bearer', person, portal, mayEnter, (path) =>
      new Visitor().visit(`${this.#oneOf(this.urls)}${path}`, {
        headers: { 'x-portal': portal, authorization },
      }),
    );
  }

  async #asPerson(
    kind: string,
    person: (typeof PERSONS)[number],
    portal: string,
    mayEnter: boolean,
    visit: (path: string) => Promise<Reply>,
  ): Promise<void> {
    const began = performance.now();
    const eventId = this.#oneOf(EVENTS);
    const isMe = this.random() < 0.3;
    const { status, text } = await visit(isMe ? '/me' : `/events/${eventId}/mine`);
    this.#note(`${kind} ${mayEnter ? 'own' : 'other'}`, String(status));
    if (status !== 200) {
      return;
    }
    const owners = this.#ownersOf(portal, began);
    if (!mayEnter) {
      this.findings.push(`${kind} of another tenant, or logged out, entered ${portal}`);
    }
    const body: unknown = JSON.parse(text);
    if (!isMe) {
      const records = body as { id: string; contactEmails: string[] }[];
      this.#checkIds(
        `${kind} mine`,
        records.map(({ id }) => id),
        { owners, eventId },
      );
      if (!records.every(({ contactEmails }) => contactEmails.includes(PEOPLE[person]))) {
        this.findings.push(`${kind} saw the exhibitors of another person`);
      }
      return;
    }
    const { identity, tenant } = body as { identity: Record<string, string>; tenant: string };
    const isRight =
      tenant === portal &&
      identity['tenant'] === portal &&
      identity['email'] === PEOPLE[person] &&
      owners.some((owner) => identity['tenantId'] === `id-of-${owner}`);
    if (!isRight) {
      this.findings.push(`${kind} at ${portal} is taken for ${identity['tenant']} ${identity['tenantId']}`);
    }
  }

  #checkRequests(): void {
    const { sandbox } = this.world;
    const all = [...this.#unfinished, ...traced(sandbox)];
    sandbox.clearRequests();
    this.#unfinished = all.filter(({ isDone }) => !isDone);
    for (const request of all.filter(({ isDone }) => isDone)) {
      const mixUp = mixUpIn(request);
      this.checked += 1;
      if (mixUp !== undefined) {
        this.findings.push(mixUp);
      }
    }
  }
}

/** A repeatable sequence of random numbers (mulberry32). */
export function randomFrom(seed: number): () => number {
  let state = seed;
  return () => {
    state = (state + 0x6d2b79f5) | 0;
    let mixed = Math.imul(state ^ (state >>> 15), state | 1);
    mixed ^= mixed + Math.imul(mixed ^ (mixed >>> 7), mixed | 61);
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 4_294_967_296;
  };
}
