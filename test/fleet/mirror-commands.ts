import type { MirrorScope, MirrorStatus } from '../../lib/bullmq/index.js';

/** How a process of the mirror is started. */
export interface MirrorConfig {
  tenants: Record<string, object>;
  events: readonly MirrorScope[];
  redisUrl: string;
  databaseUrl: string;
  /** In ms. */
  every: number;
}

/** Commands of `mirror-process.ts`. */
export interface MirrorCommands {
  start(config: MirrorConfig): Promise<void>;
  /** Copies the event at once, beside the workers. Answers the code of its error, or none. */
  copy(scope: MirrorScope): Promise<string | undefined>;
  status(): Promise<MirrorStatus[]>;
  approve(held: MirrorScope & { held: number }): Promise<void>;
  close(): Promise<void>;
}
