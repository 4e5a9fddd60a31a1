/** What a test tells a process of the fleet, and what it answers. */

/** How a process of the fleet is started. */
export interface FleetConfig {
  /** Options of the module; `store` is added by the process. */
  options: {
    tenants: Record<string, object>;
    secrets: readonly string[];
    http?: object;
    lookupCache?: object;
  };
  redis: { url: string; client: 'redis' | 'ioredis'; prefix?: string };
}

/** A call of the package. */
export interface FleetCall {
  tenant: string;
  kind: 'token' | 'list' | 'lookup';
  eventId?: string;
  contactEmail?: string;
}

/** Result of a call: the code of its error, or none. */
export interface FleetResult {
  tenant: string;
  code?: string;
  /** Duration in ms. */
  ms: number;
}

/** Calls for a time: each of them again and again, with a pause in between. */
export interface FleetLoad {
  calls: readonly FleetCall[];
  /** In ms. */
  duration: number;
  /** In ms. */
  pause: number;
}

/** Commands of `process.ts`. */
export interface FleetCommands {
  start(config: FleetConfig): Promise<void>;
  /** All calls at the same time. */
  run(calls: readonly FleetCall[]): Promise<FleetResult[]>;
  load(load: FleetLoad): Promise<FleetResult[]>;
  /** Messages on the diagnostics channels since the start, as `token shared` or `store waited`. */
  outcomes(): Promise<Record<string, number>>;
  close(): Promise<void>;
}
