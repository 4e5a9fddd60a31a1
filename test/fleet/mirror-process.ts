/** A process of the sample that copies events. It runs compiled, in plain Node, and obeys its parent. */
import { AsyncLocalStorage } from 'node:async_hooks';
import type { INestApplicationContext } from '@nestjs/common';
import { NestFactory } from '@nestjs/core';
import { ExhibitorsService } from 'nestjs-exhibitor';
import { copyEvent, type MirrorScope } from 'nestjs-exhibitor/mirror';
import pg from 'pg';
import { CopyProcessor } from '../../sample/mirror/copies.js';
import { MirrorAppModule, type MirrorAppOptions } from '../../sample/mirror/mirror-app.module.js';
import { PostgresMirror } from '../../sample/mirror/postgres-mirror.js';
import { obey } from './obey.js';

/** Commands of this process. */
export interface MirrorCommands {
  start(options: MirrorAppOptions): Promise<void>;
  /** Copies the event at once, beside the workers, as the button of the page does. */
  copy(scope: MirrorScope & { maxRemovals?: number }): Promise<void>;
}

let app: INestApplicationContext | undefined;

/** The generation of the batch that is being written. */
const generation = new AsyncLocalStorage<number>();

/** Tells the triggers of `mirror-audit.ts` which run writes. */
const { query } = pg.Client.prototype;
pg.Client.prototype.query = function tell(this: pg.Client, ...args: never[]): never {
  const [text] = args as unknown[];
  const isBegin = typeof text === 'string' && text.startsWith('BEGIN');
  const told = isBegin ? [`${text}; SET LOCAL mirror.generation = '${generation.getStore()}'`] : args;
  return (query as (...all: unknown[]) => never).apply(this, told);
};
const { apply, note } = PostgresMirror.prototype;
PostgresMirror.prototype.apply = function run(scope, batch) {
  return generation.run(batch.generation, () => apply.call(this, scope, batch));
};

/** Counts how copies end. */
PostgresMirror.prototype.note = async function count(scope, result) {
  await note.call(this, scope, result);
  const complete = result.held === undefined ? 'completed' : 'held';
  ended(result.superseded ? 'superseded' : complete);
};
const { process: copy } = CopyProcessor.prototype;
CopyProcessor.prototype.process = async function count(...job) {
  try {
    await copy.apply(this, job);
  } catch (error) {
    ended('failed');
    throw error;
  }
};

function ended(outcome: string): void {
  app
    ?.get(pg.Pool)
    .query('INSERT INTO ended VALUES ($1)', [outcome])
    .catch(() => {});
}

const commands: MirrorCommands = {
  async start(options) {
    const root = MirrorAppModule.register(options);
    app = await NestFactory.createApplicationContext(root, { logger: ['fatal'], abortOnError: false });
  },
  async copy({ maxRemovals, ...scope }) {
    if (app === undefined) {
      throw new Error('this process was not started');
    }
    const mirror = app.get<PostgresMirror<object>>(PostgresMirror);
    const options = maxRemovals === undefined ? {} : { maxRemovals };
    await mirror.note(scope, await copyEvent(app.get(ExhibitorsService), mirror, scope, options));
  },
};

obey({ ...commands });
