import { BullModule } from '@nestjs/bullmq';
import { Inject, Module, type DynamicModule, type OnApplicationShutdown } from '@nestjs/common';
import { ExhibitorModule, type ExhibitorModuleOptions, type TenantOptions } from 'nestjs-exhibitor';
import type { MirrorScope } from 'nestjs-exhibitor/mirror';
import { Pool } from 'pg';
import { boothSchema } from '../booth/booth.schema.js';
import { COPIES, CopyPlan, CopyProcessor, CopySchedule } from './copies.js';
import { CopiedExhibitors } from './copied-exhibitors.service.js';
import { MirrorController } from './mirror.controller.js';
import { MIRROR_TABLES, PostgresMirror } from './postgres-mirror.js';

/** Options of the application. */
export interface MirrorAppOptions {
  /** `postgres://user:password@host:5432/database` */
  databaseUrl: string;
  /** `redis://host:6379` */
  redisUrl: string;
  /** Values from onboarding, by tenant. `login.redirectUri` is the URL of `/{tenant}/auth/callback`. */
  tenants: Record<string, TenantOptions>;
  /** Secrets that seal the cookies, at least 32 characters each. */
  secrets: string[];
  /** E-mail addresses of the people who may log in. */
  operators: readonly string[];
  events: readonly MirrorScope[];
  /** Time between two copies of an event, in ms. */
  every: number;
}

/** A portal that copies the events of its tenants. */
@Module({})
export class MirrorAppModule {
  static register(options: MirrorAppOptions): DynamicModule {
    const { databaseUrl, redisUrl, events, every } = options;
    return {
      module: MirrorAppModule,
      imports: [
        ExhibitorModule.forRootAsync({
          isGlobal: true,
          routes: ':tenant/auth',
          useFactory: () => exhibitorOptions(options),
        }),
        // A prefix of its own: an application with the same one would take its jobs.
        BullModule.forRoot({ connection: { url: redisUrl }, prefix: 'exhibitor-portal' }),
        BullModule.registerQueue({
          name: COPIES,
          defaultJobOptions: { removeOnComplete: true, removeOnFail: 1_000 },
        }),
        DatabaseModule.register(databaseUrl),
      ],
      controllers: [MirrorController],
      providers: [
        CopiedExhibitors,
        CopyProcessor,
        CopySchedule,
        { provide: CopyPlan, useValue: { events, every } },
      ],
    };
  }
}

function exhibitorOptions({ tenants, secrets, operators }: MirrorAppOptions): ExhibitorModuleOptions {
  const restricted = Object.entries(tenants).map(([key, { login, ...tenant }]) => [
    key,
    {
      ...tenant,
      login: login && { ...login, authorize: ({ email }: { email: string }) => operators.includes(email) },
    },
  ]);
  return {
    tenants: Object.fromEntries(restricted),
    secrets,
    resolveTenant: ({ params }) => params['tenant'],
    exhibitorSchema: boothSchema,
  };
}

/** The connections to PostgreSQL, which are closed last. */
@Module({})
class DatabaseModule implements OnApplicationShutdown {
  constructor(@Inject(Pool) private readonly pool: Pool) {}

  static register(connectionString: string): DynamicModule {
    const connect = async (): Promise<Pool> => {
      const pool = new Pool({ connectionString });
      // An unused connection that breaks. Without a listener, the error would end the process.
      pool.on('error', () => undefined);
      await pool.query(MIRROR_TABLES);
      return pool;
    };
    const mirror = {
      provide: PostgresMirror,
      inject: [Pool],
      useFactory: (pool: Pool) => new PostgresMirror(pool),
    };
    return {
      module: DatabaseModule,
      providers: [{ provide: Pool, useFactory: connect }, mirror],
      exports: [Pool, PostgresMirror],
    };
  }

  onApplicationShutdown(): Promise<void> {
    return this.pool.end();
  }
}
