/** A process that copies events by the mirror of the sample. It runs compiled, in plain Node, and obeys its parent. */
import { AsyncLocalStorage } from 'node:async_hooks';
import { subscribe } from 'node:diagnostics_channel';
import { BullModule } from '@nestjs/bullmq';
import { Module, type INestApplicationContext } from '@nestjs/common';
import { NestFactory } from '@nestjs/core';
import pg from 'pg';
import {
  ExhibitorMirror,
  ExhibitorMirrorModule,
  type MirrorBatch,
  type MirrorScope,
} from '../../lib/bullmq/index.js';
import {
  ExhibitorModule,
  isExhibitorError,
  type ExhibitorModuleOptions,
  type MirrorMessage,
} from '../../lib/index.js';
import { PostgresMirror } from '../../sample/mirror/postgres-mirror.js';
import type { MirrorCommands } from './mirror-commands.js';
import { obey } from './obey.js';

/** The generation of the batch that is being written. */
const generation = new AsyncLocalStorage<number>();

/** Tells the triggers of `mirror-audit.ts` which run writes. */
class AuditedClient extends pg.Client {
  override query(...args: never[]): never {
    const [text] = args as unknown[];
    const isBegin = typeof text === 'string' && text.startsWith('BEGIN');
    const told = isBegin ? [`${text}; SET LOCAL mirror.generation = '${generation.getStore()}'`] : args;
    return (super.query as (...all: unknown[]) => never)(...told);
  }
}

class AuditedMirror extends PostgresMirror<unknown> {
  override apply(scope: MirrorScope, batch: MirrorBatch<unknown>): Promise<boolean> {
    return generation.run(batch.generation, () => super.apply(scope, batch));
  }
}

@Module({})
class Root {}

let app: INestApplicationContext | undefined;
let pool: pg.Pool | undefined;

function mirror(): ExhibitorMirror {
  if (app === undefined) {
    throw new Error('this process was not started');
  }
  return app.get(ExhibitorMirror);
}

const commands: MirrorCommands = {
  async start({ tenants, events, redisUrl, databaseUrl, every }) {
    const database = new pg.Pool({ connectionString: databaseUrl, Client: AuditedClient });
    database.on('error', () => {});
    pool = database;
    subscribe('nestjs-exhibitor:mirror', (message) => {
      const { outcome } = message as MirrorMessage;
      database.query('INSERT INTO ended VALUES ($1)', [outcome]).catch(() => {});
    });
    const options = { tenants, http: { deadline: 5_000, attemptTimeout: 2_000 } };
    const imports = [
      ExhibitorModule.forRootAsync({ isGlobal: true, useFactory: () => options as ExhibitorModuleOptions }),
      BullModule.forRoot({ connection: { url: redisUrl, maxRetriesPerRequest: null } }),
      ExhibitorMirrorModule.forRootAsync({
        useFactory: () => ({ events, every, target: new AuditedMirror(database) }),
      }),
    ];
    app = await NestFactory.createApplicationContext({ module: Root, imports }, { logger: ['fatal'] });
  },
  async copy(scope) {
    try {
      await mirror().copy(scope);
      return undefined;
    } catch (error) {
      return isExhibitorError(error) ? error.code : String(error);
    }
  },
  status: () => mirror().status(),
  approve: ({ held, ...scope }) => mirror().approve(scope, held),
  async close() {
    await app?.close();
    await pool?.end();
    process.disconnect();
  },
};

obey({ ...commands });
