import { BullModule } from '@nestjs/bullmq';
import { Inject, Module, type DynamicModule, type OnApplicationShutdown } from '@nestjs/common';
import { ExhibitorModule, type TenantOptions } from 'nestjs-exhibitor';
import { ExhibitorMirrorModule, type MirroredEvent } from 'nestjs-exhibitor/bullmq';
import { Pool } from 'pg';
import { boothSchema, type Booth } from '../booth/booth.schema.js';
import { AssetsController } from '../pages/assets.controller.js';
import { CopiedExhibitors } from './copied-exhibitors.service.js';
import { MirrorController } from './mirror.controller.js';
import { MIRROR_TABLES, PostgresMirror } from './postgres-mirror.js';

/** Options of the application. */
export interface MirrorAppOptions {
  /** `postgres://user:password@host:5432/database` */
  databaseUrl: string;
  /** `redis://host:6379` */
  redisUrl: string;
  /** Values from onboarding, by tenant. */
  tenants: Record<string, TenantOptions>;
  events: readonly MirroredEvent[];
  /** Time between two copies of an event, in ms. */
  every: number;
}

/** A portal that copies the events of its tenants. */
@Module({})
export class MirrorAppModule {
  static register({ databaseUrl, redisUrl, tenants, events, every }: MirrorAppOptions): DynamicModule {
    const database = DatabaseModule.register(databaseUrl);
    return {
      module: MirrorAppModule,
      imports: [
        ExhibitorModule.forRootAsync({
          isGlobal: true,
          useFactory: () => ({ tenants, exhibitorSchema: boothSchema }),
        }),
        BullModule.forRoot({ connection: { url: redisUrl } }),
        ExhibitorMirrorModule.forRootAsync({
          imports: [database],
          inject: [Pool],
          useFactory: (pool: Pool) => ({ events, every, target: new PostgresMirror<Booth>(pool) }),
        }),
        database,
      ],
      controllers: [MirrorController, AssetsController],
      providers: [CopiedExhibitors],
    };
  }
}

/** The connections to PostgreSQL. They are closed last: copies end before, when the application is destroyed. */
@Module({})
class DatabaseModule implements OnApplicationShutdown {
  constructor(@Inject(Pool) private readonly pool: Pool) {}

  static register(connectionString: string): DynamicModule {
    const connect = async (): Promise<Pool> => {
      const pool = new Pool({ connectionString });
      // A connection that breaks while nobody uses it. Without a listener, the error would end the process.
      pool.on('error', () => undefined);
      await pool.query(MIRROR_TABLES);
      return pool;
    };
    return { module: DatabaseModule, providers: [{ provide: Pool, useFactory: connect }], exports: [Pool] };
  }

  async onApplicationShutdown(): Promise<void> {
    await this.pool.end();
  }
}
