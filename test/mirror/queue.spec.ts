/** The mirror on BullMQ: several Nest applications, as the processes of a host, on a real Redis and a real sandbox. */
import { BullModule, getSharedConfigToken } from '@nestjs/bullmq';
import type { INestApplicationContext, ModuleMetadata } from '@nestjs/common';
import { Test } from '@nestjs/testing';
import { afterAll, afterEach, beforeAll, beforeEach, expect, it } from '@jest/globals';
import { Queue } from 'bullmq';
import { Redis } from 'ioredis';
import {
  ExhibitorMirror,
  ExhibitorMirrorModule,
  type ExhibitorMirrorOptions,
  type MirroredEvent,
  type MirrorScope,
} from '../../lib/bullmq/index.js';
import { MIRROR_QUEUE } from '../../lib/bullmq/mirror-queue.js';
import { ExhibitorModule } from '../../lib/index.js';
import type { ExhibitorSandbox, SandboxExhibitor } from '../../lib/testing/index.js';
import { COOKIE_SECRET } from '../support/host.js';
import { OperatorLines } from '../support/operator-lines.js';
import { describeWithRedis, RedisServer } from '../support/redis.js';
import { startSandbox } from '../support/sandbox.js';
import { eventually, pause } from '../support/wait.js';
import { MemoryTarget } from './memory-target.js';

const FAIR = { tenant: 'acme', eventId: 'fair' };
const EVENTS: readonly MirroredEvent[] = [FAIR, { ...FAIR, eventId: 'expo' }, { ...FAIR, tenant: 'globex' }];
/** A tenant key and an event id that would break a Redis key or a job id. */
const ODD = { tenant: 'a:b', eventId: '0:{x}/ü "y"' };

describeWithRedis('a mirror with a queue', (path) => {
  let redis: RedisServer;
  let sandbox: ExhibitorSandbox;
  let target: MemoryTarget;
  let prefix: string;
  let lines: OperatorLines;
  let count = 0;
  const apps: INestApplicationContext[] = [];
  const queues: Queue[] = [];

  /** Starts a process of the host. */
  async function start(
    options: Partial<ExhibitorMirrorOptions> = {},
    imports: ModuleMetadata['imports'] = [BullModule.forRoot({ connection: { port: redis.port }, prefix })],
  ): Promise<ExhibitorMirror> {
    const module = await Test.createTestingModule({
      imports: [
        ExhibitorModule.forRoot({
          isGlobal: true,
          tenants: {
            acme: sandbox.tenantOptions('acme'),
            globex: sandbox.tenantOptions('globex'),
            'a:b': sandbox.tenantOptions('acme'),
          },
          secrets: [COOKIE_SECRET],
          http: { attempts: 1 },
        }),
        ...imports,
        ExhibitorMirrorModule.forRootAsync({
          useFactory: () => ({ events: EVENTS, target, every: 60_000, jitter: 0, ...options }),
        }),
      ],
    }).compile();
    module.useLogger(lines);
    await module.init();
    apps.push(module);
    return module.get(ExhibitorMirror);
  }
  const open = (): Queue => {
    const queue = new Queue(MIRROR_QUEUE, { connection: { port: redis.port }, prefix });
    queues.push(queue);
    return queue;
  };
  function records(size: number, name = 'Booth'): SandboxExhibitor[] {
    return Array.from({ length: size }, (_, index) => ({ id: `x-${index}`, name, contactEmails: [] }));
  }
  const set = (size: number, eventId = 'fair', name = 'Booth'): void => {
    sandbox.setExhibitors(eventId, records(size, name), 'acme');
    sandbox.setExhibitors(eventId, records(size, name), 'globex');
  };
  const rows = (scope: MirrorScope = FAIR): number => target.rowsOf(scope).length;

  beforeAll(async () => {
    [redis, sandbox] = await Promise.all([RedisServer.start(path), startSandbox()]);
  });
  beforeEach(() => {
    count += 1;
    prefix = `bull${count}`;
    lines = new OperatorLines();
    target = new MemoryTarget();
    sandbox.clearFaults();
    set(60);
    set(60, 'expo');
  });
  afterEach(async () => {
    await Promise.all(apps.splice(0).map((app) => app.close()));
    await Promise.all(queues.splice(0).map((queue) => queue.close()));
  });
  afterAll(async () => {
    await sandbox?.stop();
    await redis?.stop();
  });

  it('copies each event once, however many processes start at the same moment', async () => {
    const [mirror] = await Promise.all([start(), start(), start(), start()]);
    await eventually(() => EVENTS.every((scope) => rows(scope) === 60), 20_000);
    await pause(300);
    expect(target.begun).toHaveLength(3);
    expect(await mirror.status()).toEqual(
      expect.arrayContaining(EVENTS.map((scope) => ({ ...scope, rows: 60, completedAt: expect.any(Date) }))),
    );
    expect(await open().getJobCounts('delayed', 'wait', 'active', 'failed', 'completed')).toEqual({
      delayed: 0,
      wait: 0,
      active: 0,
      failed: 0,
      completed: 3,
    });
    expect(lines.all).toEqual([]);
  });

  it('lists the events once in each period, however many processes there are', async () => {
    let listed = 0;
    const events = () => {
      listed += 1;
      return [FAIR];
    };
    await Promise.all(Array.from({ length: 3 }, () => start({ events, every: 10_000 })));
    await pause(2_500);
    expect(listed).toBeGreaterThanOrEqual(2);
    expect(listed).toBeLessThanOrEqual(4);
  });

  it('gives each tenant a turn, however many events another one has', async () => {
    const many = Array.from({ length: 200 }, (_, index) => ({ tenant: 'acme', eventId: `e-${index}` }));
    const few = Array.from({ length: 5 }, (_, index) => ({ tenant: 'globex', eventId: `e-${index}` }));
    for (const { eventId } of many) {
      set(1, eventId);
    }
    target.before = (step) => (step === 'begin' ? pause(50) : undefined);
    await start({ events: [...many, ...few] });
    await eventually(() => few.every((scope) => rows(scope) === 1));
    expect(target.begun.filter(({ tenant }) => tenant === 'acme').length).toBeLessThan(60);
  });

  it('copies again after every, and the events that are listed by then', async () => {
    let events: readonly MirroredEvent[] = [FAIR, ODD, { ...FAIR, tenant: 'globex', every: 3_600_000 }];
    sandbox.setExhibitors(ODD.eventId, records(3), 'acme');
    const mirror = await start({ events: () => Promise.resolve(events), every: 300, jitter: 0.5 });
    await eventually(() => target.begun.filter(({ eventId }) => eventId === ODD.eventId).length >= 4, 10_000);
    expect(rows(ODD)).toBe(3);
    expect(target.begun.filter(({ tenant }) => tenant === 'globex')).toHaveLength(1);
    events = [FAIR];
    await eventually(async () => (await mirror.status()).length === 1);
    set(60, 'fair', 'New');
    await eventually(() => target.rowsOf(FAIR)[0]?.exhibitor['name'] === 'New');
    expect(rows(ODD)).toBe(3);
  });

  it('copies an event once at a time, and once more where it was due meanwhile', async () => {
    let release = (): void => {};
    const released = new Promise<void>((resolve) => (release = resolve));
    target.before = (step) => (step === 'known' ? released : undefined);
    await start({ events: [FAIR], every: 200 });
    await eventually(() => target.begun.length > 0);
    await pause(1_000);
    expect(target.begun).toHaveLength(1);
    expect(await open().getJobCounts('prioritized', 'delayed')).toEqual({ prioritized: 0, delayed: 0 });
    set(60, 'fair', 'New');
    release();
    await eventually(() => target.rowsOf(FAIR)[0]?.exhibitor['name'] === 'New');
  });

  it('leaves out what is no event, and copies the others', async () => {
    const events = [{ tenant: 'acme' } as never, { ...FAIR, every: -1 }, { ...FAIR, eventId: 'expo' }];
    await start({ events });
    await eventually(() => rows({ ...FAIR, eventId: 'expo' }) === 60);
    expect(target.begun).toHaveLength(1);
    expect(lines.errors).toEqual([
      'mirror: an event is left out (events.eventId: is required)',
      expect.stringContaining('events.every: must be a whole number of milliseconds'),
    ]);
  });

  it('runs perTenant copies of a tenant at once, and those of others beside them', async () => {
    const events = Array.from({ length: 12 }, (_, index) => ({ tenant: 'acme', eventId: `e${index}` }));
    events.forEach(({ eventId }) => set(1, eventId));
    let running = 0;
    let most = 0;
    let release = (): void => {};
    const released = new Promise<void>((resolve) => (release = resolve));
    target.before = async (step, { tenant }) => {
      if (step === 'begin' && tenant === 'acme') {
        most = Math.max(most, (running += 1));
        await released;
      }
      running -= step === 'apply' && tenant === 'acme' ? 1 : 0;
    };
    await start({ events: [...events, { tenant: 'globex', eventId: 'fair' }] });
    await eventually(() => rows({ tenant: 'globex', eventId: 'fair' }) === 60);
    expect(running).toBe(2);
    release();
    await eventually(() => target.begun.length === 13, 10_000);
    expect(most).toBe(2);
  });

  it('leaves a copy to another process when the application closes', async () => {
    let reached = (): void => {};
    const atApply = new Promise<void>((resolve) => (reached = resolve));
    target.before = async (step) => {
      if (step === 'apply') {
        reached();
        await pause(100);
      }
    };
    await start({ events: [FAIR], batch: 10 });
    await atApply;
    target.before = () => {};
    const began = performance.now();
    await apps[0]?.close();
    expect(performance.now() - began).toBeLessThan(2_000);
    expect(rows()).toBeLessThan(60);
    await start({ events: [FAIR] });
    await eventually(() => rows() === 60);
    expect(target.begun).toHaveLength(2);
    expect(await open().getJobCountByTypes('failed')).toBe(0);
  });

  it('shows held removals in a process that only serves, and takes its approval', async () => {
    await start({ events: [FAIR], every: 10_000, jitter: 1 });
    const serving = await start({ events: [FAIR], worker: false });
    await eventually(() => rows() === 60);
    set(20);
    expect(await serving.copy(FAIR)).toMatchObject({ held: 40, rows: 20 });
    expect(lines.warnings).toEqual([
      'mirror of the event fair of the tenant acme: 40 removals are held back; if they are right, call approve with 40',
    ]);
    await serving.approve(FAIR, 40);
    await eventually(() => rows() === 20);
    expect(await serving.status(FAIR)).toEqual([{ ...FAIR, rows: 20, completedAt: expect.any(Date) }]);
    set(5);
    expect(await serving.copy(FAIR)).toMatchObject({ held: 15 });
  });

  it('copies nothing in a process that only serves', async () => {
    const mirror = await start({ worker: false });
    await pause(300);
    expect(target.begun).toEqual([]);
    expect(await mirror.status()).toEqual(EVENTS);
    // Not even the job that would set up the ticks.
    expect(await open().getJobCounts()).toMatchObject({ waiting: 0, active: 0, delayed: 0, prioritized: 0 });
  });

  it('reports a copy that failed, and copies at the next time', async () => {
    sandbox.failNext('list', { kind: 'status', status: 404 });
    await start({ events: [FAIR], every: 500 });
    await eventually(() => rows() === 60);
    expect(lines.errors).toEqual([
      expect.stringMatching(/^mirror of the event fair of the tenant acme: the copy failed \(not_found: /),
    ]);
    const [job] = await open().getFailed();
    expect(job).toMatchObject({ name: 'copy', data: FAIR });
  });

  it('goes on after an outage of Redis in which everything was lost', async () => {
    const other = await RedisServer.start(path);
    try {
      await start({ events: [FAIR], every: 500, connection: { port: other.port }, prefix }, []);
      await eventually(() => rows() === 60);
      await other.kill();
      await eventually(() => lines.warnings.length > 0);
      set(70);
      await other.restart();
      await eventually(() => rows() === 70, 10_000);
      expect(lines.errors).toEqual([]);
      expect(lines.warnings[0]).toMatch(/^mirror: the queue fails \(.+\); it continues when Redis answers$/);
    } finally {
      await Promise.all(apps.splice(0).map((app) => app.close()));
      await other.stop();
    }
  });

  it('starts while Redis is down', async () => {
    const other = await RedisServer.start(path);
    await other.kill();
    await start({ events: [FAIR], connection: { port: other.port } }, []);
    await eventually(() => lines.warnings.length > 0);
    await other.restart();
    await eventually(() => rows() === 60, 10_000);
    await Promise.all(apps.splice(0).map((app) => app.close()));
    await other.stop();
  });

  it('adds many copies in portions, and remembers each portion', async () => {
    const many = Array.from({ length: 3_000 }, (_, index) => ({ tenant: 'acme', eventId: `e-${index}` }));
    let release = (): void => {};
    const released = new Promise<void>((resolve) => (release = resolve));
    target.before = () => released;
    await start({ events: many });
    const queue = open();
    const client = await queue.getBackend().client;
    const remembered = async (): Promise<number> =>
      Object.keys(await client.hgetall(queue.toKey('mirror-due'))).length;
    await eventually(async () => (await remembered()) > 0, 10_000);
    // A process that dies now leaves the rest to the next tick.
    expect(await remembered()).toBeLessThan(3_000);
    await eventually(async () => (await remembered()) === 3_000, 20_000);
    const jobs = await queue.getJobs(['active', 'prioritized', 'delayed']);
    expect(jobs.filter(({ name }) => name === 'copy')).toHaveLength(3_000);
    target.before = () => Promise.reject(new Error('enough'));
    release();
  }, 40_000);

  it('closes within seconds while Redis is down', async () => {
    const other = await RedisServer.start(path);
    await start({ events: [FAIR], connection: { port: other.port } }, []);
    await eventually(() => rows() === 60);
    await other.stop();
    await eventually(() => lines.warnings.length > 0);
    const began = performance.now();
    await Promise.all(apps.splice(0).map((app) => app.close()));
    expect(performance.now() - began).toBeLessThan(9_000);
  }, 20_000);

  it('refuses a connection that BullMQ cannot use', async () => {
    const clients = [{}, { maxRetriesPerRequest: null, keyPrefix: 'x:' }].map(
      (options) => new Redis(redis.port, options),
    );
    try {
      for (const connection of [...clients, { port: redis.port, keyPrefix: 'x:' }]) {
        await expect(start({ connection }, [])).rejects.toMatchObject({
          code: 'configuration_invalid',
          problems: [{ path: 'connection', expected: expect.stringContaining('without keyPrefix') }],
        });
      }
    } finally {
      clients.forEach((client) => client.disconnect());
    }
  });

  it('starts with a URL that cannot be parsed, and copies nothing', async () => {
    await start({ connection: { url: 'redis://:pass/word@127.0.0.1' } }, []);
    await pause(300);
    expect(target.begun).toEqual([]);
  });

  it('takes the shared configuration of @nestjs/bullmq, and tells where there is none', async () => {
    expect(getSharedConfigToken()).toBe('BULLMQ_CONFIG(default)');
    const mirror = await start({}, []);
    expect(lines.warnings).toEqual([expect.stringContaining('mirror: there is no queue')]);
    expect(await mirror.copy(FAIR)).toMatchObject({ rows: 60 });
    lines.clear();
    await start({ worker: false }, []);
    expect(lines.all).toEqual([]);
  });
});
