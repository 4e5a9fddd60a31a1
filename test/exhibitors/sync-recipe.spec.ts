/** The recipe of docs/reading-events.md, its own text, killed at every page of an event that changes. */
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import type { ServerResponse } from 'node:http';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from '@jest/globals';
import { isExhibitorError, type ExhibitorsService } from '../../lib/index.js';
import { namedSnippets, ROOT } from '../structure/readme.js';
import { startRestHost, startService, wrapper, type HandMadeService, type RestHost } from './rest-host.js';

interface Row {
  id: number;
  hall: string;
}
interface Progress {
  state: 'reading' | 'complete';
  reading: number;
  lastPage: number;
}
type Sync = (exhibitors: ExhibitorsService<Row>, eventId: string, copy: Database) => Promise<void>;

/** How a service answers a page that it does not have. */
type Ending = 'an empty page' | 404;

/** The service's side of an event, with pages of 5. */
class Event {
  static readonly size = 5;
  rows: Row[] = [];
  #nextId = 0;
  readonly #counts = new Set<number>();

  constructor(
    count: number,
    readonly ending: Ending,
  ) {
    this.change({ join: Array.from({ length: count }, (_, at) => at), leave: [] });
  }

  /** Rows leave and join at these positions. The event then has a count that it never had before: a change can be seen. */
  change({ join: joins, leave }: Change): void {
    for (const at of leave) {
      this.rows.splice(at % (this.rows.length || 1), 1);
    }
    for (const at of joins) {
      this.#join(at);
    }
    while (this.#counts.has(this.rows.length)) {
      this.#join(0);
    }
    this.#counts.add(this.rows.length);
  }

  #join(at: number): void {
    this.rows.splice(at % (this.rows.length + 1), 0, { id: (this.#nextId += 1), hall: 'A' });
  }

  answer(page: number, response: ServerResponse): unknown {
    const last = Math.max(1, Math.ceil(this.rows.length / Event.size));
    if (page > last && this.ending === 404) {
      response.writeHead(this.ending).end();
      return undefined;
    }
    const data = this.rows.slice((page - 1) * Event.size, page * Event.size);
    return { ...wrapper(page, 0, this.rows.length, Event.size), data };
  }
}

interface Change {
  join: readonly number[];
  leave: readonly number[];
}

function byId(rows: readonly Row[]): Row[] {
  return rows.toSorted((one, other) => one.id - other.id);
}

/** The host's side: tables that survive a kill. */
class Database {
  #progress: Progress | undefined;
  #rows = new Map<number, { row: Row; reading: number }>();
  /** Called before and after each transaction. What it answers is waited for: nothing, or a promise that never settles. */
  around: () => Promise<void> | void = () => {};

  get rows(): Row[] {
    return byId([...this.#rows.values()].map(({ row }) => row));
  }

  async progress(): Promise<Progress | undefined> {
    return structuredClone(this.#progress);
  }

  async save(progress: Progress, rows: readonly Row[]): Promise<void> {
    await this.#transaction(() => {
      this.#progress = structuredClone(progress);
      rows.forEach((row) => this.#rows.set(row.id, { row, reading: progress.reading }));
    });
  }

  async complete(progress: Progress): Promise<void> {
    await this.#transaction(() => {
      this.#progress = structuredClone(progress);
      this.#rows = new Map([...this.#rows].filter(([, { reading }]) => reading === progress.reading));
    });
  }

  async #transaction(work: () => void): Promise<void> {
    await this.around();
    work();
    await this.around();
  }
}

let folder: string;
let service: HandMadeService;
let host: RestHost<Row>;
let sync: Sync;
/** By the name that the running process uses: a request that a killed one has left behind is not counted. */
const events = new Map<string, Event>();

beforeAll(async () => {
  folder = mkdtempSync(join(ROOT, 'test', '.readme-'));
  service = await startService(({ page, url, response }) => {
    const event = events.get(/event\/([^?]+)/.exec(url)?.[1] ?? '');
    return event === undefined ? {} : event.answer(page, response);
  });
  host = await startRestHost<Row>({ tenant: service.tenant });
  const file = join(folder, 'recipe.ts');
  writeFileSync(file, namedSnippets('docs/reading-events.md', 'sync')[0]);
  ({ sync } = await import(file));
});
afterAll(async () => {
  await host?.close();
  await service?.stop();
  rmSync(folder, { recursive: true });
});

let processes = 0;

/** A copy and its event, as processes of a host see them. */
class World {
  readonly database = new Database();
  readonly event: Event;

  constructor(count: number, ending: Ending) {
    this.event = new Event(count, ending);
  }

  /** A process that is killed at a moment, where it has so many. */
  async run(killedAt = Infinity): Promise<'killed' | Progress['state']> {
    processes += 1;
    const name = `process-${processes}`;
    events.clear();
    events.set(name, this.event);
    let moment = 0;
    const killed = new Promise<'killed'>((resolve) => {
      this.database.around = () => {
        moment += 1;
        if (moment - 1 === killedAt) {
          resolve('killed');
          return new Promise(() => {});
        }
        return undefined;
      };
    });
    const end = sync(host.exhibitors, name, this.database).catch((error: unknown) => {
      if (!isExhibitorError(error) || error.code !== 'pagination_drift') {
        throw error;
      }
    });
    const was = await Promise.race([end, killed]);
    return was ?? (await this.database.progress())?.state ?? 'reading';
  }

  /** Runs until the copy is complete. */
  async finish(): Promise<void> {
    const end = await this.run();
    // Where the event has changed since the last run, the first one ends with pagination_drift.
    expect(end === 'complete' ? end : await this.run()).toBe('complete');
    expect(this.database.rows).toEqual(byId(this.event.rows));
  }
}

const CHANGES: readonly Change[] = [
  { join: [0], leave: [] },
  { join: [], leave: Array<number>(9).fill(0) },
  { join: [0, 3], leave: [7] },
];
/** Three pages and the end: before and after each of the four transactions. */
const MOMENTS = 8;

/** Kills the recipe at every moment, and compares what later runs end with. */
async function killEverywhere(ending: Ending, changes = CHANGES): Promise<void> {
  for (const change of changes) {
    for (let moment = 0; moment < MOMENTS; moment += 1) {
      const world = new World(12, ending);
      expect(await world.run(moment)).toBe('killed');
      world.event.change(change);
      await world.finish();
      world.event.change({ join: [4], leave: [9, 10] });
      await world.finish();
      // No number shows this.
      world.event.rows = world.event.rows.map((row) => ({ ...row, hall: 'B' }));
      await world.finish();
    }
  }
}

describe('the copy of an event', () => {
  it('is that of the service after a kill at any moment', () => killEverywhere('an empty page'));

  it('is so also where the service answers 404 to a page that it does not have', async () => {
    await killEverywhere(404, CHANGES.slice(1, 2));
  });

  it('may differ where as many joined as left, until the next reading', async () => {
    const world = new World(12, 404);
    const [, ...others] = world.event.rows;
    // Pages 1 and 2 are stored.
    expect(await world.run(3)).toBe('killed');
    world.event.rows = [...others, { id: 99, hall: 'A' }];
    expect(await world.run()).toBe('complete');
    // 1 has left, and 11 has moved to page 2.
    expect(world.database.rows.map(({ id }) => id)).toEqual([1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 12, 99]);
    await world.finish();
  });
});
