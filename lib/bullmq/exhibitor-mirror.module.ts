import { Module, type DynamicModule, type FactoryProvider, type ModuleMetadata } from '@nestjs/common';
import type { QueueOptions } from 'bullmq';
import { ConfigurationError, type Exhibitor } from '../index.js';
import { MirrorLog } from '../problems/mirror-log.js';
import type { MirrorParts } from './copy-event.js';
import { ExhibitorMirror, MIRROR_PARTS } from './exhibitor-mirror.service.js';
import type { ExhibitorMirrorOptions } from './mirror-options.interface.js';
import { MirrorQueue } from './mirror-queue.js';
import { checkMirrorOptions } from './mirror-settings.js';
import { memoryStore } from './mirror-store.js';

type Factory<T> = FactoryProvider<ExhibitorMirrorOptions<T> | Promise<ExhibitorMirrorOptions<T>>>;

/** Options of `forRootAsync`. */
export type ExhibitorMirrorAsyncOptions<T = Exhibitor> = Pick<ModuleMetadata, 'imports'> &
  Pick<Factory<T>, 'inject' | 'useFactory'>;

const NOT_INSTALLED = 'requires BullMQ: npm install bullmq @nestjs/bullmq ioredis';
const WRONG =
  'must be a connection of BullMQ: options, or ioredis with maxRetriesPerRequest: null and without keyPrefix';

/**
 * Keeps events in the host's own database. It needs `ExhibitorModule`, registered with `isGlobal` or imported here, and BullMQ
 * unless the host calls {@link ExhibitorMirror.copy} by a scheduler of its own.
 *
 * @example
 * BullModule.forRoot({ connection: { host: 'redis' } }),
 * ExhibitorMirrorModule.forRootAsync({
 *   inject: [BoothTable],
 *   useFactory: (target: BoothTable) => ({ target, events: [{ tenant: 'acme', eventId: 'world-2026' }] }),
 * })
 */
@Module({})
export class ExhibitorMirrorModule {
  /** Registers the mirror. Wrong options fail at boot with one {@link ConfigurationError}, which has the path of each. */
  static forRootAsync<T = Exhibitor>(options: ExhibitorMirrorAsyncOptions<T>): DynamicModule {
    const { imports = [], inject = [], useFactory } = options;
    const parts: FactoryProvider = {
      provide: MIRROR_PARTS,
      // `getSharedConfigToken()` of `@nestjs/bullmq`, which a host without a queue need not install.
      inject: [{ token: 'BULLMQ_CONFIG(default)', optional: true }, ...inject],
      useFactory: async (shared, ...injected) => openMirror(await useFactory(...injected), shared),
    };
    return { module: this, imports, providers: [parts, ExhibitorMirror], exports: [ExhibitorMirror] };
  }
}

async function openMirror(options: unknown, shared?: Partial<QueueOptions>): Promise<MirrorParts> {
  const settings = checkMirrorOptions(options);
  const log = new MirrorLog();
  const { connection = shared?.connection, prefix = shared?.prefix } = settings;
  if (connection === undefined) {
    return { settings, log, store: memoryStore(log) };
  }
  const refuse = (expected: string, cause: unknown): never => {
    throw new ConfigurationError([{ path: 'connection', expected }], undefined, cause);
  };
  const bullMq = await import('bullmq').catch((cause: unknown) => refuse(NOT_INSTALLED, cause));
  try {
    const store = new MirrorQueue(bullMq, { ...shared, connection, prefix }, settings, log);
    return { settings, log, store };
  } catch (cause) {
    return refuse(WRONG, cause);
  }
}
