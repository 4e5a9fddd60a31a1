import { InjectQueue, OnWorkerEvent, Processor, WorkerHost } from '@nestjs/bullmq';
import {
  Inject,
  Injectable,
  Logger,
  type BeforeApplicationShutdown,
  type OnApplicationBootstrap,
} from '@nestjs/common';
import type { Job, Queue } from 'bullmq';
import { ExhibitorsService } from 'nestjs-exhibitor';
import { copyEvent, type MirrorScope } from 'nestjs-exhibitor/mirror';
import { PostgresMirror } from './postgres-mirror.js';

/** Name of the queue. */
export const COPIES = 'copies';

/** The events to copy, and how often. */
export abstract class CopyPlan {
  abstract readonly events: readonly MirrorScope[];
  /** Time between two copies of an event, in ms: longer than a copy takes. */
  abstract readonly every: number;
}

/** Copies one event after the other. A process that dies leaves its jobs to the others, after 15 s at most. */
@Processor(COPIES, { concurrency: 4, lockDuration: 10_000, stalledInterval: 5_000, maxStalledCount: 3 })
export class CopyProcessor extends WorkerHost implements BeforeApplicationShutdown {
  readonly #logger = new Logger('Mirror');

  constructor(
    @Inject(ExhibitorsService) private readonly exhibitors: ExhibitorsService,
    @Inject(PostgresMirror) private readonly mirror: PostgresMirror<object>,
  ) {
    super();
  }

  override async process({ data }: Job<MirrorScope>, _token?: string, signal?: AbortSignal): Promise<void> {
    const result = await copyEvent(this.exhibitors, this.mirror, data, { signal });
    await this.mirror.note(data, result);
  }

  @OnWorkerEvent('failed')
  onFailed(job: Job<MirrorScope> | undefined, error: Error): void {
    this.#logger.warn(`${job?.data.tenant} ${job?.data.eventId}: ${error.message}`);
  }

  /** Most often, Redis is down. Without a listener, the error would end the process. */
  @OnWorkerEvent('error')
  onError(error: Error): void {
    this.#logger.warn(error.message);
  }

  /** Before the connections to the database close. BullMQ gives a job that was cancelled to another process. */
  async beforeApplicationShutdown(): Promise<void> {
    this.worker.cancelAllJobs();
    await this.worker.close();
  }
}

/** A job scheduler for each event. All processes may set them up: they are known by their ids. */
@Injectable()
export class CopySchedule implements OnApplicationBootstrap {
  constructor(
    @InjectQueue(COPIES) private readonly queue: Queue<MirrorScope>,
    @Inject(CopyPlan) private readonly plan: CopyPlan,
  ) {}

  async onApplicationBootstrap(): Promise<void> {
    const { events, every } = this.plan;
    const opts = { attempts: 5, backoff: { type: 'exponential', delay: 1_000 } };
    for (const { tenant, eventId } of events) {
      const template = { name: 'copy', data: { tenant, eventId }, opts };
      await this.queue.upsertJobScheduler(schedulerId({ tenant, eventId }), { every }, template);
    }
    const listed = new Set(events.map(schedulerId));
    for (const { key } of await this.queue.getJobSchedulers()) {
      if (!listed.has(key)) {
        await this.queue.removeJobScheduler(key);
      }
    }
  }
}

function schedulerId({ tenant, eventId }: MirrorScope): string {
  return `${encodeURIComponent(tenant)} ${encodeURIComponent(eventId)}`;
}
