/** A process of the fleet: a host whose tenants come from a source. It runs compiled, in plain Node, and obeys its parent. */
import { setTimeout as pause } from 'node:timers/promises';
import {
  Controller,
  Get,
  Inject,
  Module,
  Param,
  Sse,
  type INestApplication,
  type MessageEvent,
} from '@nestjs/common';
import { NestFactory } from '@nestjs/core';
import { ExpressAdapter } from '@nestjs/platform-express';
import { FastifyAdapter } from '@nestjs/platform-fastify';
import { concatMap, firstValueFrom, interval, map, toArray, type Observable } from 'rxjs';
import {
  ExhibitorModule,
  ExhibitorsService,
  isExhibitorError,
  TenantRegistry,
  TokenService,
  type Exhibitor,
  type TenantOptions,
} from '../../lib/index.js';
import { RedisSharedStore } from '../../lib/integrations/redis/index.js';
import { BoothController } from '../support/booth.controller.js';
import { clockOf } from '../support/clock.js';
import type {
  ConnectionNotice,
  ProcessCall,
  ProcessCommands,
  ProcessConfig,
  ProcessResult,
} from './commands.js';
import { obey } from './obey.js';

const tenants = new Map<string, TenantOptions>();
let app: INestApplication | undefined;

/** Without guards. */
@Controller('portals/:tenant')
class EventController {
  constructor(@Inject(ExhibitorsService) private readonly exhibitors: ExhibitorsService) {}

  @Get('events/:eventId')
  list(@Param('tenant') tenant: string, @Param('eventId') eventId: string) {
    return this.exhibitors.list(eventId, { tenant, itemsPerPage: 1 });
  }

  /** Never completes. */
  @Sse('live/:eventId')
  live(@Param('tenant') tenant: string, @Param('eventId') eventId: string): Observable<MessageEvent> {
    return interval(500).pipe(
      concatMap(() => this.exhibitors.list(eventId, { tenant, itemsPerPage: 1 })),
      map(({ paginationMetadata }) => ({ data: paginationMetadata })),
    );
  }
}

/** The clients of docs/scaling.md. */
async function connect({ url, client }: { url: string; client: 'redis' | 'ioredis' }) {
  if (client === 'redis') {
    const { createClient } = await import('redis');
    const redis = createClient({
      url,
      disableOfflineQueue: true,
      socket: { connectTimeout: 1_000, reconnectStrategy: (retries) => Math.min(100 * (retries + 1), 2_000) },
    });
    redis.on('error', () => {});
    await redis.connect();
    return new RedisSharedStore(redis);
  }
  const { Redis } = await import('ioredis');
  const redis = new Redis(url, {
    enableOfflineQueue: false,
    maxRetriesPerRequest: 1,
    connectTimeout: 1_000,
    retryStrategy: (times) => Math.min(100 * times, 2_000),
    lazyConnect: true,
  });
  redis.on('error', () => {});
  await redis.connect();
  return new RedisSharedStore(redis);
}

/** Each request names the key of its tenant in a header, or in the query. */
function tenantOf({ headers, query }: { headers?: object; query?: object }): string | undefined {
  const named: unknown = Reflect.get(headers ?? {}, 'x-portal') ?? Reflect.get(query ?? {}, 'portal');
  return typeof named === 'string' ? named : undefined;
}

function running(): INestApplication {
  if (app === undefined) {
    throw new Error('this process was not started');
  }
  return app;
}

async function answer(call: ProcessCall): Promise<Omit<ProcessResult, 'ms'>> {
  const { kind, tenant, eventId, contactEmail, abortAfter } = call;
  const signal = abortAfter === undefined ? undefined : AbortSignal.timeout(abortAfter);
  const exhibitors = running().get<ExhibitorsService>(ExhibitorsService);
  const ids = (records: readonly Exhibitor[]): string[] => records.map(({ id }) => String(id));
  if (kind === 'token') {
    const { accessToken } = await running().get(TokenService).getToken({ tenant, signal });
    const claims: unknown = JSON.parse(Buffer.from(accessToken.split('.')[1] ?? '', 'base64url').toString());
    return { clientId: String(Reflect.get(Object(claims), 'client_id')) };
  }
  if (kind === 'list') {
    return { ids: ids((await firstValueFrom(exhibitors.list(eventId, { tenant, signal }))).data) };
  }
  if (kind === 'stream') {
    return { ids: ids(await firstValueFrom(exhibitors.stream(eventId, { tenant, signal }).pipe(toArray()))) };
  }
  if (kind === 'snapshot') {
    return { ids: ids((await firstValueFrom(exhibitors.snapshot(eventId, { tenant, signal }))).exhibitors) };
  }
  const options = { tenant, signal, fresh: kind === 'fresh' };
  const found = await firstValueFrom(exhibitors.lookup(eventId, contactEmail, options));
  const isOfContact = found.every(({ contactEmails }) => {
    return Array.isArray(contactEmails) && contactEmails.includes(contactEmail);
  });
  return { ids: ids(found), isOfContact };
}

async function measure(call: ProcessCall): Promise<ProcessResult> {
  const began = performance.now();
  const answered = await answer(call).catch((error: unknown) => ({
    code: isExhibitorError(error) ? error.code : `not ours: ${String(error)}`,
  }));
  return { ...answered, ms: performance.now() - began };
}

async function start({ kind, port = 0, redis, secrets, tenants: first }: ProcessConfig): Promise<void> {
  for (const [key, options] of Object.entries(first)) {
    tenants.set(key, options);
  }
  const module = ExhibitorModule.forRoot({
    tenants: { find: async (key) => tenants.get(key) },
    allowedOrigins: () => true,
    resolveTenant: tenantOf,
    session: ['cookie', 'bearer'],
    secrets: [...secrets],
    logoutCheck: { provider: true },
    ...(redis === undefined ? {} : { store: await connect(redis) }),
    // Answers expire during a proof, so that they come from the memory and from the service.
    lookupCache: { ttl: 3_000, staleIfError: 3_000, max: 2_000 },
    tenantCache: { ttl: 5_000 },
  });
  @Module({ imports: [module], controllers: [BoothController, EventController] })
  class HostModule {}

  const adapter =
    kind === 'express' ? new ExpressAdapter() : new FastifyAdapter({ return503OnClosing: false });
  app = await NestFactory.create(HostModule, adapter, { logger: false });
  app.enableShutdownHooks();
  await app.listen(port, '127.0.0.1');
  app.getHttpServer().on('connection', ({ remotePort }: { remotePort: number }) => {
    process.send?.({ accepted: remotePort } satisfies ConnectionNotice);
  });
}

const commands: ProcessCommands = {
  start,
  run: (calls) => Promise.all(calls.map(measure)),
  async load({ calls, duration, pause: between }) {
    const end = performance.now() + duration;
    const repeat = async (call: ProcessCall): Promise<ProcessResult[]> => {
      const results: ProcessResult[] = [];
      while (performance.now() < end) {
        results.push(await measure(call));
        await pause(between * (0.5 + Math.random()));
      }
      return results;
    };
    return (await Promise.all(calls.map(repeat))).flat();
  },
  assign: async ({ key, options }) => void tenants.set(key, options),
  forget: async (key) => running().get(TenantRegistry).forget(key),
  invalidate: (filter) => running().get(ExhibitorsService).invalidateLookups(filter),
  skip: async (ms) => clockOf(running()).skip(ms),
};

obey({ ...commands });
