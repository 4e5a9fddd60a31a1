/** One process of the fleet: a host without HTTP. It runs compiled, in plain Node, and obeys its parent. */
import { subscribe } from 'node:diagnostics_channel';
import { setTimeout as pause } from 'node:timers/promises';
import type { INestApplicationContext } from '@nestjs/common';
import { NestFactory } from '@nestjs/core';
import { Redis } from 'ioredis';
import { createClient } from 'redis';
import { firstValueFrom } from 'rxjs';
import {
  ExhibitorModule,
  ExhibitorsService,
  isExhibitorError,
  TokenService,
  type ExhibitorModuleOptions,
} from '../../lib/index.js';
import { RedisSharedStore } from '../../lib/redis/index.js';
import { obey } from './obey.js';
import type { FleetCall, FleetCommands, FleetConfig, FleetResult } from './commands.js';

let app: INestApplicationContext | undefined;
let closeRedis = (): unknown => undefined;
const outcomes: Record<string, number> = {};

for (const channel of ['token', 'store', 'lookup']) {
  subscribe(`nestjs-exhibitor:${channel}`, (message) => {
    const { kind, outcome } = message as { kind?: string; outcome: string };
    const name = [channel, kind, outcome].filter((part) => part !== undefined).join(' ');
    outcomes[name] = (outcomes[name] ?? 0) + 1;
  });
}

/** The clients of the README. */
async function connect({ url, client, prefix }: FleetConfig['redis']): Promise<RedisSharedStore> {
  if (client === 'redis') {
    const redis = createClient({
      url,
      disableOfflineQueue: true,
      socket: { connectTimeout: 1_000, reconnectStrategy: (retries) => Math.min(100 * (retries + 1), 2_000) },
    });
    redis.on('error', () => {});
    await redis.connect();
    closeRedis = () => redis.destroy();
    return new RedisSharedStore(redis, { prefix });
  }
  const redis = new Redis(url, {
    enableOfflineQueue: false,
    maxRetriesPerRequest: 1,
    connectTimeout: 1_000,
    retryStrategy: (times) => Math.min(100 * times, 2_000),
    lazyConnect: true,
  });
  redis.on('error', () => {});
  await redis.connect();
  closeRedis = () => redis.disconnect();
  return new RedisSharedStore(redis, { prefix });
}

function running(): INestApplicationContext {
  if (app === undefined) {
    throw new Error('this process was not started');
  }
  return app;
}

async function send({ tenant, kind, eventId = 'boutique-2026', contactEmail }: FleetCall): Promise<void> {
  const exhibitors = running().get(ExhibitorsService);
  switch (kind) {
    case 'token':
      await running().get(TokenService).getToken({ tenant });
      return;
    case 'list':
      await firstValueFrom(exhibitors.list(eventId, { tenant }));
      return;
    case 'lookup':
      await firstValueFrom(exhibitors.lookup(eventId, contactEmail ?? 'olga.one@example.com', { tenant }));
  }
}

async function measure(call: FleetCall): Promise<FleetResult> {
  const began = performance.now();
  let code: string | undefined;
  try {
    await send(call);
  } catch (error) {
    code = isExhibitorError(error) ? error.code : String(error);
  }
  return { tenant: call.tenant, ms: performance.now() - began, ...(code === undefined ? {} : { code }) };
}

const commands: FleetCommands = {
  async start({ options, redis }) {
    const store = await connect(redis);
    const whole = { ...options, store } as unknown as ExhibitorModuleOptions;
    app = await NestFactory.createApplicationContext(ExhibitorModule.forRoot(whole), { logger: false });
  },
  run: (calls) => Promise.all(calls.map(measure)),
  async load({ calls, duration, pause: between }) {
    const end = performance.now() + duration;
    const repeat = async (call: FleetCall): Promise<FleetResult[]> => {
      const results: FleetResult[] = [];
      while (performance.now() < end) {
        results.push(await measure(call));
        await pause(between * (0.5 + Math.random()));
      }
      return results;
    };
    return (await Promise.all(calls.map(repeat))).flat();
  },
  outcomes: async () => outcomes,
  async close() {
    await app?.close();
    closeRedis();
    process.disconnect();
  },
};

obey({ ...commands });
