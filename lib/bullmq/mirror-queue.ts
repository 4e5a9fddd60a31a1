import { setTimeout as wait } from 'node:timers/promises';
import type { Job, Queue, QueueOptions, RedisClient, Worker } from 'bullmq';
import { isExhibitorError } from '../index.js';
import { shortDigestOf } from '../model/digest.js';
import type { MirrorLog } from '../problems/mirror-log.js';
import { withTimeout } from '../time/with-timeout.js';
import { listEvents, type MirrorSettings } from './mirror-settings.js';
import { scopeKey, type MirrorStore } from './mirror-store.js';
import type { MirrorScope } from './mirror-target.interface.js';

type BullMq = typeof import('bullmq');
type Copy = Parameters<MirrorStore['start']>[0];

/** A job: a `tick` adds a `copy` of each event that is due. */
type MirrorJob = Job<Partial<MirrorScope>>;

/** Name of the queue, for tools such as Bull Board. */
export const MIRROR_QUEUE = 'nestjs-exhibitor-mirror';

/** In ms: the job of a process that died is taken over within 15 s, or runs twice if it only slept (BullMQ #3056, #3183). */
const LOCK = { lockDuration: 10_000, stalledInterval: 5_000, maxStalledCount: 3 };

/** In ms: for Redis, and for the jobs under way at a close; for the list of events; for a job whose tenant is at its limit. */
const REDIS_WITHIN = 5_000;
const LISTED_WITHIN = 60_000;
const POSTPONED_FOR = 1_000;
/** Jobs that are added at once: 10 kB of memory each until Redis has answered. */
const PORTION = 1_000;

/** The queue and its worker in this process. What is remembered of events is in Redis, beside the jobs. */
export class MirrorQueue implements MirrorStore {
  readonly #queue: Queue;
  readonly #worker: Worker | undefined;
  readonly #settings: MirrorSettings;
  readonly #log: MirrorLog;
  readonly #stop = new AbortController();
  readonly #tickEvery: number;
  /** Copies under way here, by tenant. */
  readonly #running = new Map<string, number>();
  #copy: Copy = async () => {};

  constructor(bullMq: BullMq, redis: QueueOptions, settings: MirrorSettings, log: MirrorLog) {
    const { every, concurrency } = settings;
    const { connection } = redis;
    this.#settings = settings;
    this.#log = log;
    this.#tickEvery = Math.min(every, Math.max(1_000, Math.min(60_000, Math.round(every / 10))));
    const defaultJobOptions = { removeOnComplete: 1_000, removeOnFail: 1_000 };
    this.#queue = new bullMq.Queue(MIRROR_QUEUE, { ...redis, defaultJobOptions });
    this.#queue.on('error', (error) => log.queueFails(error));
    if (settings.worker) {
      // Commands of a worker wait for Redis. BullMQ refuses an instance whose options do not allow that.
      const patient = 'duplicate' in connection ? connection : { ...connection, maxRetriesPerRequest: null };
      const workerOptions = { ...redis, ...LOCK, connection: patient, concurrency, autorun: false };
      this.#worker = new bullMq.Worker(MIRROR_QUEUE, (job: MirrorJob) => this.#process(job), workerOptions);
      this.#worker.on('error', (error) => log.queueFails(error));
      this.#worker.on('failed', (job, error) => log.failed(job?.data, error.cause ?? error));
    }
  }

  start(copy: Copy): void {
    this.#copy = copy;
    // With a URL that cannot be parsed, `run` would block the process.
    const running = this.#queue.waitUntilReady().then(() => this.#worker?.run());
    running.catch((error: unknown) => this.#log.queueFails(error));
    void this.#keepTicking(this.#stop.signal);
  }

  async close(): Promise<void> {
    this.#stop.abort();
    // Without `true` it would connect again when the jobs under way have ended.
    await this.#worker?.pause(true);
    await withTimeout(REDIS_WITHIN, async () => this.#worker?.close()).catch(() => {});
    // While Redis is down, `close` and `disconnect` without `true` wait without an end.
    const backends = [this.#worker, this.#queue].map((one) => one?.getBackend().close(true));
    await withTimeout(REDIS_WITHIN, () => Promise.all(backends)).catch(() => {});
  }

  async all(kind: string): Promise<Record<string, string>> {
    return this.#redis((client) => client.hgetall(this.#queue.toKey(`mirror-${kind}`)));
  }

  async set(kind: string, texts: Record<string, string>): Promise<void> {
    await this.#redis((client) => client.hset(this.#queue.toKey(`mirror-${kind}`), texts));
  }

  /** BullMQ waits for Redis without an end. */
  #redis<R>(use: (client: RedisClient) => Promise<R>): Promise<R> {
    return withTimeout(REDIS_WITHIN, async () => use(await this.#queue.getBackend().client));
  }

  /**
   * Each process asks for ticks, and gets one for the fleet in each period. A scheduler that several processes set up was lost or
   * doubled (BullMQ #2876, #2988, #3085), did not go on (#3063), and stood still where a clock had been ahead.
   */
  async #keepTicking(signal: AbortSignal): Promise<void> {
    const deduplication = { id: 'tick', ttl: Math.round(this.#tickEvery * 0.9) };
    while (!signal.aborted) {
      const asked = this.#queue.add('tick', {}, { removeOnComplete: true, deduplication });
      await asked.catch((error: unknown) => this.#log.queueFails(error));
      await wait(this.#tickEvery, undefined, { signal, ref: false }).catch(() => {});
    }
  }

  async #process(job: MirrorJob): Promise<unknown> {
    const { tenant = '', eventId = '' } = job.data;
    return job.name === 'copy'
      ? this.#copyFor(job, { tenant, eventId })
      : withTimeout(LISTED_WITHIN, () => this.#tick(Date.now()));
  }

  /** Adds a copy of each event that is due. One that waits already is not added again; one that runs is followed by another. */
  async #tick(now: number): Promise<void> {
    const { every: usual, jitter } = this.#settings;
    const due = await this.all('due');
    const next: [key: string, at: string][] = [];
    const counts = new Map<string, number>();
    const jobs = [];
    for await (const { tenant, eventId, every = usual } of listEvents(this.#settings, this.#log)) {
      const key = scopeKey({ tenant, eventId });
      // 0: never copied. A time beyond the next one is of a longer `every`.
      const at = Number(due[key] ?? 0);
      if (at <= now || at > now + every) {
        // The second of its turn: the n-th copy of a tenant has the n-th. The lowest comes first; BullMQ takes 2 ** 21 at most.
        const rank = (counts.get(tenant) ?? 0) + 1;
        counts.set(tenant, rank);
        const priority = 1 + ((Math.floor(now / 1_000) + rank) % 2_000_000);
        const delay = at === 0 ? 0 : Math.round(Math.random() * jitter * every);
        const deduplication = { id: shortDigestOf(key), keepLastIfActive: true };
        jobs.push({ name: 'copy', data: { tenant, eventId }, opts: { delay, priority, deduplication } });
        // Half a tick earlier, so that the tick nearest to it finds it due. Noted at once: an event may be listed twice.
        due[key] = String(now + every - this.#tickEvery / 2);
        next.push([key, due[key]]);
      }
    }
    for (let from = 0; from < jobs.length; from += PORTION) {
      // In this order: what is added twice, after a crash, is one job.
      await this.#queue.addBulk(jobs.slice(from, from + PORTION));
      await this.set('due', Object.fromEntries(next.slice(from, from + PORTION)));
    }
  }

  async #copyFor(job: MirrorJob, scope: MirrorScope): Promise<unknown> {
    const running = this.#running.get(scope.tenant) ?? 0;
    if (running >= this.#settings.perTenant) {
      // Held for a moment, so that a worker does not turn over a thousand jobs of the tenant all the time.
      await wait(POSTPONED_FOR / 4, undefined, { signal: this.#stop.signal }).catch(() => {});
      return postpone(job, POSTPONED_FOR);
    }
    this.#running.set(scope.tenant, running + 1);
    try {
      return await this.#copy(scope, (counts) => void job.updateProgress(counts).catch(() => {}));
    } catch (error) {
      if (isExhibitorError(error) && error.code === 'aborted') {
        // The application closes: another process copies the event.
        return await postpone(job, 0);
      }
      // Redis keeps message and stack for tools, and what a database says may contain a record.
      const message = isExhibitorError(error) ? error.code : 'see the log';
      throw Object.assign(new Error(message, { cause: error }), { stack: '' });
    } finally {
      this.#running.set(scope.tenant, (this.#running.get(scope.tenant) ?? 1) - 1);
    }
  }
}

/** Hands a job back, to be taken again after `delay` ms. BullMQ knows the error by its name. */
async function postpone(job: MirrorJob, delay: number): Promise<never> {
  await job.moveToDelayed(Date.now() + delay, job.token);
  throw Object.assign(new Error('postponed'), { name: 'DelayedError' });
}
